package k8shost

import (
	"context"
	"fmt"
	"regexp"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
	"plasmacloud.io/plasmacloud/internal/k8shost/etcd"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

const membersPatience = 30 * time.Second

// Members lists the etcd members of the cluster whose server runs in dir.
func Members(ctx context.Context, dir datadir.Dir) ([]etcd.MemberStatus, error) {
	var members []etcd.MemberStatus
	err := withMembers(ctx, dir, func(ctx context.Context, client *clientv3.Client) (err error) {
		members, err = etcd.Members(ctx, client)
		return err
	})
	return members, err
}

// RemoveMember takes the etcd members of a node, given by the node's name, out of the cluster.
func RemoveMember(ctx context.Context, dir datadir.Dir, node string, force bool) ([]string, error) {
	own := regexp.MustCompile("^" + regexp.QuoteMeta(node) + "-[0-9a-f]{8}$") // as memberName has it
	var removed []string
	err := withMembers(ctx, dir, func(ctx context.Context, client *clientv3.Client) (err error) {
		removed, err = etcd.Remove(ctx, client, func(name string) bool { return name == node || own.MatchString(name) }, force)
		return err
	})
	return removed, err
}

func withMembers(ctx context.Context, dir datadir.Dir, do func(context.Context, *clientv3.Client) error) error {
	if _, running := dir.Launcher(); !running {
		return fmt.Errorf("no server runs in %s: its etcd is asked for the members", dir.Path())
	}
	client, err := localEtcd(pki.New(dir.TLS(), clock.RealClock{}))
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	ctx, cancel := context.WithTimeoutCause(ctx, membersPatience, fmt.Errorf("no answer within %s: do most of the members run?", membersPatience))
	defer cancel()
	if err := do(ctx, client); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return err
	}
	return nil
}
