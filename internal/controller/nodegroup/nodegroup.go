// Package nodegroup keeps as many machines as a node group asks for, all of them as it describes them. It makes machines,
// chooses those that go when there are too many, replaces those that were made from an older description a few at a
// time, and those that are broken. It looks at Machine objects alone; package machine tells there how they fare.
package nodegroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/controller/machine"
	"plasmacloud.io/plasmacloud/internal/controller/status"
)

// MachinesByGroup is the index of machines by the name of their NodeGroup object.
const MachinesByGroup = "nodegroup"

// Limits are when machines are replaced, and how many at once.
type Limits struct {
	// NotReady is how long a node may be not ready.
	NotReady time.Duration
	// Creation is how long a machine may take until its node is ready for the first time.
	Creation time.Duration
	// Retry is how old a machine that failed before that has to be: what fails at once is not made all the time.
	Retry time.Duration
	// Share of a group's machines that are replaced at once because they are broken, in percent; one always is.
	Share int
}

// DefaultLimits are for those who have no wishes.
func DefaultLimits() Limits {
	return Limits{NotReady: 5 * time.Minute, Creation: 10 * time.Minute, Retry: time.Minute, Share: 40}
}

// Reconciler reconciles node groups.
type Reconciler struct {
	client.Client
	// Live reads past the cache: machines are made and deleted by what there is now.
	Live     client.Reader
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Catalogue is what the installation offers.
	Catalogue func() (*catalogue.Catalogue, error)
	// Limits are DefaultLimits where they are zero.
	Limits Limits
	// Concurrency is how many groups are looked at at once.
	Concurrency int
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	if r.Limits == (Limits{}) {
		r.Limits = DefaultLimits()
	}
	byGroup := func(m *v1alpha1.Machine) string { return groupOf(m).Name }
	if err := status.IndexBy(manager, &v1alpha1.Machine{}, MachinesByGroup, byGroup); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(manager).For(&v1alpha1.NodeGroup{}).
		Watches(&v1alpha1.Machine{}, status.Parent(groupOf)).
		Watches(&v1alpha1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.groupsOfCluster),
			builder.WithPredicates(predicate.Funcs{UpdateFunc: concerns, CreateFunc: func(event.CreateEvent) bool { return false }})).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: max(r.Concurrency, 1),
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		}).
		Complete(r)
}

// What fails is tried again after so long.
const (
	firstRetry = 200 * time.Millisecond
	lastRetry  = 30 * time.Second
)

func groupOf(m *v1alpha1.Machine) client.ObjectKey {
	return client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.Cluster + "-" + m.Spec.NodeGroup}
}

// concerns tells whether a change of a cluster is one that groups wait for.
func concerns(update event.UpdateEvent) bool {
	before, ok := update.ObjectOld.(*v1alpha1.Cluster)
	after, also := update.ObjectNew.(*v1alpha1.Cluster)
	if !ok || !also || !machine.Backs(after.Spec.Type) {
		return false
	}
	return before.Status.Endpoint != after.Status.Endpoint || before.Status.Version != after.Status.Version ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero()
}

func (r *Reconciler) groupsOfCluster(ctx context.Context, object client.Object) []reconcile.Request {
	var groups v1alpha1.NodeGroupList
	err := r.List(ctx, &groups, client.InNamespace(object.GetNamespace()), client.MatchingLabels{v1alpha1.LabelCluster: object.GetName()})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list node groups of a cluster")
		return nil
	}
	var requests []reconcile.Request
	for i := range groups.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&groups.Items[i])})
	}
	return requests
}

// scope carries what a reconciliation has loaded.
type scope struct {
	group    *v1alpha1.NodeGroup
	cluster  *v1alpha1.Cluster // nil where it is gone
	account  string
	machines []v1alpha1.Machine
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, err error) {
	s, err := r.load(ctx, request)
	if err != nil || s == nil {
		return result, err
	}
	if !s.group.DeletionTimestamp.IsZero() {
		return result, r.remove(ctx, s)
	}
	if err := status.EnsureFinalizer(ctx, r.Client, s.group); err != nil {
		return result, err
	}
	before := s.group.DeepCopy()
	result.RequeueAfter, err = r.keep(ctx, s)
	problem := r.write(ctx, before, s.group)
	if apierrors.IsConflict(problem) && err == nil {
		return ctrl.Result{RequeueAfter: firstRetry}, nil
	}
	if err := errors.Join(err, problem); err != nil {
		return ctrl.Result{}, err
	}
	return result, nil
}

// load reads all that a reconciliation looks at. A group that is gone, or whose nodes are not machines of ours, is nil.
func (r *Reconciler) load(ctx context.Context, request ctrl.Request) (*scope, error) {
	s := &scope{group: &v1alpha1.NodeGroup{}, cluster: &v1alpha1.Cluster{}}
	if err := r.Get(ctx, request.NamespacedName, s.group); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	err := r.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: s.group.Spec.Cluster}, s.cluster)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return nil, err
	case err != nil && !controllerutil.ContainsFinalizer(s.group, v1alpha1.Finalizer):
		return nil, nil
	case err != nil:
		s.cluster = nil
	case !machine.Backs(s.cluster.Spec.Type):
		return nil, nil
	default:
		network := &v1alpha1.Network{}
		err := r.Get(ctx, client.ObjectKey{Namespace: request.Namespace, Name: s.cluster.Spec.Network}, network)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		s.account = network.Spec.Account
	}
	var machines v1alpha1.MachineList
	if err := r.List(ctx, &machines, client.InNamespace(request.Namespace), client.MatchingFields{MachinesByGroup: request.Name}); err != nil {
		return nil, err
	}
	s.machines = machines.Items
	return s, nil
}

// write writes the status, if it has changed since it was read. Somebody who was faster wins: the group is looked at
// again.
func (r *Reconciler) write(ctx context.Context, before, group *v1alpha1.NodeGroup) error {
	if equality.Semantic.DeepEqual(before.Status, group.Status) {
		return nil
	}
	if err := client.IgnoreNotFound(r.Status().Update(ctx, group)); err != nil {
		return fmt.Errorf("write status: %w", err)
	}
	return nil
}
