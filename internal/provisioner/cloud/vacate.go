package cloud

import (
	"context"
	"slices"
	"strings"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/task"
	"plasmacloud.io/plasmacloud/internal/terraform/translate"
)

const (
	vacate = "vacate" // the step's name
	// vacating is how long a cluster's controllers may take to remove what they have made.
	vacating = 15 * time.Minute
)

// vacate has a cluster that is to be removed take along what its controllers have made in the cloud: load balancers, and
// nodes of Karpenter's. They would stay, cost money, and stand in the way of their network's removal. Disks hold data, so
// they stay, and are listed. A cluster that does not answer, or does not come to an end with it, is removed all the same,
// and what is known to be left is listed.
func (p *Provisioner) vacate(ctx context.Context, scope *task.Scope) error {
	removable, err := p.removable(ctx, scope)
	if err != nil || !removable {
		return err
	}
	s, err := p.load(ctx, scope)
	if err != nil {
		return err
	}
	if err := revoked(s.account); err != nil {
		return err
	}
	made, err := p.outputs(ctx, s.cluster)
	if err != nil {
		return err
	}
	if public, _ := translate.Access(s.cluster.Spec.Access, nil); !public || len(made) == 0 {
		return nil // there is no API that we could ask
	}
	access, err := p.Access(ctx, s.cluster)
	if err != nil {
		return err
	}
	found, err := p.Addons.Vacate(ctx, access.config())
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		scope.Report("the cluster's API does not answer: load balancers that its controllers have made may be left in the cloud")
		scope.Log.WarnContext(ctx, "cluster is removed without being asked what it has in the cloud", "error", err)
	case len(found.Going) > 0 && time.Since(began(scope.Task, vacate)) < vacating:
		return task.Wait(p.Poll, "waits for the end of %s", strings.Join(found.Going, ", "))
	}
	if remains := slices.Concat(found.Going, found.Disks); len(remains) > 0 {
		scope.SetOutput(provisioner.OutputRemains, strings.Join(remains, "\n"))
		scope.Log.WarnContext(ctx, "left in the cloud", "resources", remains)
	}
	return nil
}

// began is when a step began; now where it has just begun.
func began(t *v1alpha1.Task, step string) time.Time {
	for _, each := range t.Status.Steps {
		if each.Name == step && each.StartedAt != nil {
			return each.StartedAt.Time
		}
	}
	return time.Now()
}
