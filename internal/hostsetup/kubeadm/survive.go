package kubeadm

import (
	"context"
	_ "embed"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"plasmacloud.io/plasmacloud/internal/hostsetup"
)

var _ hostsetup.Survivor = (*Distribution)(nil)

const (
	stepSurvive = "go on alone"
	// survivePatience is how long etcd has to come up on its own.
	survivePatience = 4 * time.Minute
)

//go:embed script/survive.sh
var surviveScript string

// Survive implements hostsetup.Survivor: etcd is started once so that it forgets the others.
func (d *Distribution) Survive(ctx context.Context, host hostsetup.Host) error {
	if d.alone(ctx, host) != nil {
		if _, err := d.script(ctx, host, stepSurvive, surviveScript, "begin"); err != nil {
			return err
		}
		if err := d.awaitAlone(ctx, host); err != nil {
			return err
		}
	}
	if _, err := d.script(ctx, host, stepSurvive, surviveScript, "end"); err != nil {
		return err
	}
	return d.awaitAlone(ctx, host)
}

// alone tells what keeps etcd from being one that works and has one member.
func (d *Distribution) alone(ctx context.Context, host hostsetup.Host) error {
	members, err := d.members(ctx, host)
	switch {
	case err != nil:
		return err
	case len(members) != 1:
		return fmt.Errorf("etcd has %d members", len(members))
	case !members[0].Healthy:
		return fmt.Errorf("etcd is not well: %s", members[0].Error)
	}
	return nil
}

func (d *Distribution) awaitAlone(ctx context.Context, host hostsetup.Host) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 3*time.Second, survivePatience, false, func(ctx context.Context) (bool, error) {
		last = d.alone(ctx, host)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("host %s: %s: etcd has not come up on its own within %s: %w", host, stepSurvive, survivePatience, last)
	}
	return nil
}
