package hosted

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
)

const (
	// probeInterval is how often the API is asked whether it is there: there is nothing to watch for that.
	probeInterval = 100 * time.Millisecond
	// lookInterval is how often, at most, pods are looked at for what they do meanwhile.
	lookInterval = 500 * time.Millisecond
	// tolerance is for how long pods may show trouble before the step fails for it. Most of it goes away by itself: a
	// controller that is there before its API server is, is started again.
	tolerance = 10 * time.Second
)

// awaitAPI waits until the API answers and, where the control plane is replaced, all of it is new.
func (b *build) awaitAPI(ctx context.Context) error {
	e, err := b.Endpoint(ctx)
	if err != nil {
		return err
	}
	connection, err := b.Connect(ctx, e)
	if err != nil {
		return err
	}
	client, err := connection.HTTPClient(base.ProbeTimeout)
	if err != nil {
		return err
	}
	started := b.Clock.Now()
	rolled := b.Cluster.Status.ObservedGeneration == 0 // of a new control plane, that it answers is enough
	var looked time.Time
	doing := "the control plane's pod is being made"
	check := func(ctx context.Context) (bool, string, error) {
		if rolled && base.Ready(ctx, client, e.Internal()) == nil {
			return true, "", nil
		}
		if b.Clock.Since(looked) < lookInterval {
			return false, doing, nil
		}
		looked = b.Clock.Now()
		if !rolled {
			if rolled, err = b.rolledOut(ctx); err != nil {
				return false, "", err
			}
		}
		doing, err = b.look(ctx, b.Clock.Since(started) > tolerance)
		return false, doing, err
	}
	if err := b.Await(ctx, probeInterval, []base.Watcher{b.WatchPods, b.watchControlPlane}, check); err != nil {
		return err
	}
	offered, version, err := b.Offered()
	if err != nil {
		return err
	}
	if err := b.publishJoin(ctx, e, offered, version); err != nil {
		return err
	}
	b.Scope.SetOutput(provisioner.OutputVersion, version)
	return nil
}

// rolledOut tells whether all of the control plane runs what it describes.
func (b *build) rolledOut(ctx context.Context) (bool, error) {
	deployment, err := b.Client.AppsV1().Deployments(b.Home).Get(ctx, controlPlaneName, metav1.GetOptions{})
	if err != nil {
		return false, fmt.Errorf("read the control plane: %w", err)
	}
	done, _ := complete(deployment)
	return done, nil
}
