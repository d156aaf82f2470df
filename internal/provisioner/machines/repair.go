package machines

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/balancer"
	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/hostsetup"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
	"plasmacloud.io/plasmacloud/internal/task"
)

func ready(m *v1alpha1.Machine) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady)
}

func message(m *v1alpha1.Machine) string {
	if ready := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		return ready.Message
	}
	return "nothing is known of it yet"
}

// mendHosts asks every machine of the cluster how it is, and mends what is wrong. One that does not answer is nothing that
// could be mended there: whether it is lost is found out next.
func (b *build) mendHosts(ctx context.Context) error {
	distribution, err := b.distribution()
	if err != nil {
		return err
	}
	described, err := b.describe(ctx)
	if err != nil {
		return err
	}
	if described.CA == nil {
		return nil // there is nothing yet that could have broken
	}
	machines, err := b.machines(ctx)
	if err != nil {
		return err
	}
	members, err := b.members(ctx)
	if err != nil {
		return err
	}
	// Without a majority no control plane is well, whatever is done to those that are left: that is settled next.
	agree := len(members)-len(lostMembers(members, machines)) >= majority(len(members))
	machines = slices.DeleteFunc(machines, func(m v1alpha1.Machine) bool {
		inIt := isMember(members, m.Name) && agree || m.Spec.Role == v1alpha1.MachineWorker && m.Status.NodeName != ""
		return m.DeletionTimestamp != nil || m.Status.Address == "" || lost(&m) || !inIt
	})
	report := b.reporter()
	return b.Unless(ctx, func(ctx context.Context) error {
		return b.onAll(ctx, machines, func(ctx context.Context, host hostsetup.Host, m *v1alpha1.Machine) error {
			role := hostsetup.Role(m.Spec.Role)
			findings, err := b.health(ctx, distribution, host, role)
			if err != nil {
				b.Scope.Log.Warn("a machine cannot be asked how it is", "machine", m.Name, "error", err)
				return nil
			}
			if len(findings) == 0 {
				return nil
			}
			var texts []string
			for _, finding := range findings {
				texts = append(texts, finding.String())
			}
			report(m.Name, "mending: "+strings.Join(texts, "; "))
			b.Scope.Log.Info("mending a machine", "machine", m.Name, "findings", texts)
			return mend(ctx, distribution, host, described, role, findings)
		})
	})
}

// settleLost takes machines of the control plane that are lost out of it, so that others can be made in their place.
func (b *build) settleLost(ctx context.Context) error {
	members, err := b.members(ctx)
	if err != nil {
		return err
	}
	machines, err := b.controlPlane(ctx)
	if err != nil {
		return err
	}
	gone := lostMembers(members, machines)
	unreachable, err := b.unreachable(ctx, machines, gone)
	if err != nil {
		return err
	}
	gone = append(gone, unreachable...)
	if len(gone) > 0 {
		if gone, err = b.takeOut(ctx, gone, len(members)); err != nil {
			return err
		}
	}
	for i := range machines { // those that never were in it go quietly
		if m := &machines[i]; slices.Contains(gone, m.Name) || lost(m) {
			if err := b.remove(ctx, m); err != nil {
				return err
			}
		}
	}
	return nil
}

// lostMembers are the names of members whose machine is not there, or lost.
func lostMembers(members []balancer.Server, machines []v1alpha1.Machine) (gone []string) {
	for _, member := range members {
		if m, err := named(machines, member.Name); err != nil || lost(m) {
			gone = append(gone, member.Name)
		}
	}
	return gone
}

// hangs is for how long a machine that is said to run may answer nobody before it is taken for lost: one that starts again
// is not.
const hangs = 90 * time.Second

// unreachable are members that are said to run and answer nobody, by SSH or otherwise, in a repair. A machine that hangs
// is as good as lost.
func (b *build) unreachable(ctx context.Context, machines []v1alpha1.Machine, gone []string) ([]string, error) {
	if b.Scope.Task.Spec.Operation != v1alpha1.OperationRepair {
		return nil, nil
	}
	var silent []string
	for i := range machines {
		m := &machines[i]
		joined := meta.IsStatusConditionTrue(m.Status.Conditions, "Joined")
		if slices.Contains(gone, m.Name) || !joined || ready(m) {
			continue
		}
		host, err := b.host(ctx, m)
		if err == nil {
			_, err = host.Client.Facts(ctx, "look")
		}
		switch {
		case err == nil:
		case errors.Is(err, remote.ErrUnreachable), errors.Is(err, remote.ErrRefused), errors.Is(err, remote.ErrLost), errors.Is(err, remote.ErrTimeout):
			if since := notReadySince(m); b.Clock.Since(since) < hangs {
				return nil, task.Wait(5*time.Second, "machine %s of the control plane does not answer; it is replaced if it does not by %s",
					m.Name, since.Add(hangs).UTC().Format("15:04:05 MST"))
			}
			silent = append(silent, m.Name)
		default:
			return nil, err
		}
	}
	return silent, nil
}

// notReadySince is when a machine was last ready.
func notReadySince(m *v1alpha1.Machine) time.Time {
	if ready := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady); ready != nil {
		return ready.LastTransitionTime.Time
	}
	return m.CreationTimestamp.Time
}

// takeOut takes lost members out of the datastore and of the record. It returns who is gone in the end.
func (b *build) takeOut(ctx context.Context, gone []string, members int) ([]string, error) {
	initialised, err := b.ReadJoin(ctx)
	if err != nil {
		return gone, err
	}
	switch {
	case initialised == nil:
		// The machine that the control plane was to begin with: it begins with another.
		return gone, b.forget(ctx, gone)
	case len(gone) >= members && !b.Scope.Task.Spec.Force:
		return gone, task.Permanent(fmt.Errorf("all machines of the control plane are lost (%s), and with them what the cluster held: "+
			"restore a backup into a new cluster, or begin anew with an empty one by `cloud k8s repair %s --force`", strings.Join(gone, ", "), b.Cluster.Name))
	case len(gone) >= members:
		return gone, b.beginAnew(ctx, gone)
	}
	distribution, err := b.distribution()
	if err != nil {
		return gone, err
	}
	through, err := b.another(ctx, gone)
	if err != nil {
		return gone, err
	}
	host, err := b.host(ctx, through)
	if err != nil {
		return gone, err
	}
	if members-len(gone) < majority(members) && b.Scope.Task.Spec.Force {
		if gone, err = b.survive(ctx, distribution, host); err != nil {
			return gone, err
		}
	}
	for _, name := range gone {
		b.Scope.Report("%s is lost and leaves the control plane", name)
		if err := distribution.RemoveMember(ctx, host, name); err != nil {
			return gone, quorum(err)
		}
		if err := b.forget(ctx, []string{name}); err != nil {
			return gone, err
		}
	}
	return gone, nil
}

func majority(members int) int { return members/2 + 1 }

// survive goes on with what one machine has, as was asked for: all others are gone then, those that are well too.
func (b *build) survive(ctx context.Context, distribution hostsetup.Distribution, host hostsetup.Host) (gone []string, err error) {
	alone, ok := distribution.(hostsetup.Survivor)
	if !ok {
		return nil, quorum(hostsetup.ErrQuorum)
	}
	b.Scope.Log.Warn("most of the control plane is lost; it goes on with what one machine has, as was asked for", "machine", host.Name)
	b.Scope.Report("%s goes on alone", host.Name)
	if err := b.Unless(ctx, func(ctx context.Context) error { return alone.Survive(ctx, host) }); err != nil {
		return nil, err
	}
	members, err := b.members(ctx)
	for _, member := range members {
		if member.Name != host.Name {
			gone = append(gone, member.Name)
		}
	}
	return gone, err
}

// another is a member that is not lost.
func (b *build) another(ctx context.Context, gone []string) (*v1alpha1.Machine, error) {
	members, err := b.members(ctx)
	if err != nil {
		return nil, err
	}
	machines, err := b.controlPlane(ctx)
	if err != nil {
		return nil, err
	}
	for _, member := range members {
		if slices.Contains(gone, member.Name) {
			continue
		}
		if m, err := named(machines, member.Name); err == nil && !lost(m) {
			return m, nil
		}
	}
	return nil, errors.New("no other machine is in the control plane")
}

func (b *build) forget(ctx context.Context, names []string) error {
	for _, name := range names {
		if err := b.leave(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// beginAnew forgets the cluster's identity with its control plane. Its workers know the old one, and are made anew too.
func (b *build) beginAnew(ctx context.Context, gone []string) error {
	b.Scope.Log.Warn("the control plane is lost; it begins anew and empty, as was asked for", "machines", gone)
	secrets := b.Client.CoreV1().Secrets(b.Home)
	for _, name := range []string{bootstrap.JoinSecretName, base.KubeconfigSecret} {
		if err := base.Gone(secrets.Delete(ctx, name, metav1.DeleteOptions{})); err != nil {
			return fmt.Errorf("remove secret %s: %w", name, err)
		}
	}
	machines, err := b.machines(ctx)
	if err != nil {
		return err
	}
	for i := range machines {
		if err := b.remove(ctx, &machines[i]); err != nil {
			return err
		}
	}
	return b.forget(ctx, gone)
}

// removeSurplus takes machines out of a control plane that is to have fewer, the newest first.
func (b *build) removeSurplus(ctx context.Context, distribution hostsetup.Distribution) error {
	machines, err := b.controlPlane(ctx)
	if err != nil {
		return err
	}
	slices.SortStableFunc(machines, func(x, y v1alpha1.Machine) int { return x.CreationTimestamp.Compare(y.CreationTimestamp.Time) })
	wanted := int(b.Cluster.Spec.ControlPlane.Replicas)
	for i := len(machines) - 1; i >= wanted; i-- {
		m := &machines[i]
		through, err := b.another(ctx, []string{m.Name})
		if err != nil {
			return err
		}
		host, err := b.host(ctx, through)
		if err != nil {
			return err
		}
		b.Scope.Report("%s leaves the control plane", m.Name)
		if err := b.leave(ctx, m.Name); err != nil { // nobody is led to it any more
			return err
		}
		if err := distribution.RemoveMember(ctx, host, m.Name); err != nil {
			return quorum(err)
		}
		if err := b.remove(ctx, m); err != nil {
			return err
		}
	}
	return nil
}
