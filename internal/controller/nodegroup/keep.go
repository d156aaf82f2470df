package nodegroup

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/machine"
	"plasmacloud.io/plasmacloud/internal/controller/status"
)

// Names of machines are names of hosts.
const (
	maxName    = 63
	nameSuffix = 5
)

// selector of the group's machines.
func selector(group *v1alpha1.NodeGroup) map[string]string {
	return map[string]string{v1alpha1.LabelCluster: group.Spec.Cluster, v1alpha1.LabelNodeGroup: group.Spec.Group}
}

// keep brings the group's machines closer to what it asks for, and tells when to look again though nothing happens.
func (r *Reconciler) keep(ctx context.Context, s *scope) (time.Duration, error) {
	group := s.group
	group.Status.ObservedGeneration = group.Generation
	group.Status.Selector = labels.SelectorFromSet(selector(group)).String()
	switch {
	case s.cluster == nil || !s.cluster.DeletionTimestamp.IsZero():
		describe(s, v1alpha1.PhaseDeleting, v1alpha1.ReasonDeleting, "the cluster is being deleted")
		return 0, nil
	case s.cluster.Status.Endpoint == "":
		describe(s, v1alpha1.PhasePending, v1alpha1.ReasonWaiting, "waiting for the endpoint of the cluster's API")
		return 0, nil
	case s.account == "":
		describe(s, v1alpha1.PhasePending, v1alpha1.ReasonParentMissing, fmt.Sprintf("there is no network %q in this project", s.cluster.Spec.Network))
		return retryInterval, nil
	}
	wanted := demandOf(&group.Spec, r.Limits.Share)
	p := r.plan(s, wanted)
	if !p.idle() {
		// The cache may not have seen yet what was made or deleted a moment ago.
		if err := r.reload(ctx, s); err != nil {
			return 0, err
		}
		p = r.plan(s, wanted)
	}
	err := r.act(ctx, s, p)
	r.report(s, wanted, p, err)
	if wrong := (invalid{}); errors.As(err, &wrong) {
		return retryInterval, nil // a change of the group tells earlier, a change of the catalogue does not
	}
	if p.again.IsZero() {
		return 0, err
	}
	return max(p.again.Sub(r.Clock.Now()), time.Second), err
}

// retryInterval is how soon something is looked at again that nobody tells of.
const retryInterval = time.Minute

func (r *Reconciler) plan(s *scope, wanted demand) plan {
	hash := machine.TemplateHash(&s.group.Spec.Template, machine.Version(s.cluster, s.group))
	var members []member
	for i := range s.machines {
		if s.machines[i].DeletionTimestamp.IsZero() {
			members = append(members, judge(&s.machines[i], hash, r.Limits, r.Clock.Now()))
		}
	}
	return decide(wanted, members)
}

// reload reads the group's machines past the cache.
func (r *Reconciler) reload(ctx context.Context, s *scope) error {
	var machines v1alpha1.MachineList
	if err := r.Live.List(ctx, &machines, client.InNamespace(s.group.Namespace), client.MatchingLabels(selector(s.group))); err != nil {
		return fmt.Errorf("list machines: %w", err)
	}
	s.machines = machines.Items
	return nil
}

// act carries a plan out. It deletes first: what is made may need the room.
func (r *Reconciler) act(ctx context.Context, s *scope, p plan) error {
	for _, removed := range p.delete {
		if err := r.delete(ctx, s, removed); err != nil {
			return err
		}
	}
	for range p.create {
		if err := r.create(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reconciler) delete(ctx context.Context, s *scope, removed removal) error {
	for i := range s.machines {
		m := &s.machines[i]
		if m.Name != removed.name || !m.DeletionTimestamp.IsZero() {
			continue
		}
		err := r.Delete(ctx, m, client.Preconditions{UID: &m.UID})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("delete machine %s: %w", m.Name, err)
		}
		m.DeletionTimestamp = &metav1.Time{Time: r.Clock.Now()}
		r.Recorder.Eventf(s.group, m, "Normal", removed.reason, "Delete", "machine %s goes", m.Name)
	}
	return nil
}

// create makes one more machine.
func (r *Reconciler) create(ctx context.Context, s *scope) error {
	template, version := s.group.Spec.Template.DeepCopy(), machine.Version(s.cluster, s.group)
	offered, err := r.Catalogue()
	if err != nil {
		return err
	}
	size, err := offered.NodeSize(*template)
	if err != nil {
		return invalid{err}
	}
	m := &v1alpha1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.group.Namespace, Name: newName(s.group), Labels: selector(s.group)},
		Spec: v1alpha1.MachineSpec{
			Cluster: s.group.Spec.Cluster, NodeGroup: s.group.Spec.Group, Role: v1alpha1.MachineWorker, Account: s.account,
			InstanceType: template.InstanceType, Resources: size, EphemeralStorage: template.EphemeralStorage,
			Version: version, TemplateHash: machine.TemplateHash(template, version),
		},
	}
	if err := controllerutil.SetControllerReference(s.group, m, r.Scheme()); err != nil {
		return err
	}
	// By the cluster's UID the machine is found at its provider even when the cluster is gone.
	if err := controllerutil.SetOwnerReference(s.cluster, m, r.Scheme()); err != nil {
		return err
	}
	if err := r.Create(ctx, m); err != nil {
		return fmt.Errorf("create machine %s: %w", m.Name, err)
	}
	s.machines = append(s.machines, *m)
	r.Recorder.Eventf(s.group, m, "Normal", "Created", "Create", "machine %s is made", m.Name)
	return nil
}

// newName is never used again: what is left of an old machine is not taken for the new one's.
func newName(group *v1alpha1.NodeGroup) string {
	const most = maxName - nameSuffix - 1
	name := group.Spec.Cluster + "-" + group.Spec.Group
	name = strings.TrimRight(name[:min(len(name), most)], "-")
	return name + "-" + rand.String(nameSuffix)
}

// remove deletes all machines of the group, and lets it go when they are gone.
func (r *Reconciler) remove(ctx context.Context, s *scope) error {
	if err := r.reload(ctx, s); err != nil {
		return err
	}
	if len(s.machines) == 0 {
		return status.Release(ctx, r.Client, s.group)
	}
	before := s.group.DeepCopy()
	for i := range s.machines {
		if err := r.delete(ctx, s, removal{s.machines[i].Name, reasonGroup}); err != nil {
			return err
		}
	}
	s.group.Status.ObservedGeneration = s.group.Generation
	describe(s, v1alpha1.PhaseDeleting, v1alpha1.ReasonDeleting, fmt.Sprintf("%d machines are being removed", len(s.machines)))
	return r.write(ctx, before, s.group)
}
