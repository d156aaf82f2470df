package hosted

import (
	"context"

	"k8s.io/apimachinery/pkg/watch"

	"plasmacloud.io/plasmacloud/internal/provisioner/base"
)

// awaitNodes waits until all node groups are what they should be, and the control plane has all of its replicas. The
// further ones start when the nodes are there, or take their time: on a small machine they would only hold up each other.
func (b *build) awaitNodes(ctx context.Context) error {
	begun := b.StepStarted("nodes")
	return b.AwaitNodes(ctx, tolerance/2, []base.Watcher{b.watchControlPlane}, func(ctx context.Context, settled, failed bool) (bool, string, error) {
		if settled || failed || b.Clock.Since(begun) > tolerance {
			return b.allReplicas(ctx, b.Clock.Since(begun) > tolerance)
		}
		return false, "", nil
	})
}

func (b *build) watchControlPlane(ctx context.Context) (watch.Interface, error) {
	return b.Client.AppsV1().Deployments(b.Home).Watch(ctx, base.Only(controlPlaneName))
}

// allReplicas gives the control plane all of its replicas. What keeps one of them from running is an error where it has
// lasted.
func (b *build) allReplicas(ctx context.Context, lasted bool) (bool, string, error) {
	deployment, err := b.scaleOut(ctx)
	if err != nil {
		return false, "", err
	}
	if done, waitsFor := complete(deployment); !done {
		_, err := b.look(ctx, lasted)
		return false, waitsFor, err
	}
	site, err := b.Site(ctx)
	if err != nil {
		return false, "", err
	}
	_, err = b.EnsureService(ctx, site, exposure(false)) // from now on, only to who is ready
	return err == nil, "", err
}
