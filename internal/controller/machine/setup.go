package machine

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/status"
	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/tenant"
)

// What fails is tried again after so long.
const (
	firstRetry = 200 * time.Millisecond
	lastRetry  = 30 * time.Second
)

// Notifier is a driver that tells when a machine changes. Others are asked now and then.
type Notifier interface {
	// Notify calls changed for every machine that has changed, until ctx ends.
	Notify(ctx context.Context, changed func(machine.Key)) error
}

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	byCluster := func(m *v1alpha1.Machine) string { return m.Spec.Cluster }
	if err := status.IndexBy(manager, &v1alpha1.Machine{}, ByCluster, byCluster); err != nil {
		return err
	}
	building := ctrl.NewControllerManagedBy(manager).For(&v1alpha1.Machine{}).
		Watches(&v1alpha1.Cluster{}, r.clusterHandler(), builder.WithPredicates(predicate.Funcs{UpdateFunc: concerns})).
		WatchesRawSource(source.Func(r.followNodes)).
		WatchesRawSource(source.Func(r.followSetup)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: max(r.Concurrency, 1),
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		})
	for provider, driver := range r.Drivers {
		if notifier, ok := driver.(Notifier); ok {
			building = building.WatchesRawSource(source.Func(func(ctx context.Context, q queue) error {
				go r.followMachines(ctx, provider, notifier, q)
				return nil
			}))
		}
	}
	return building.Complete(r)
}

// concerns tells whether a change of a cluster is one that machines wait for.
func concerns(update event.UpdateEvent) bool {
	before, ok := update.ObjectOld.(*v1alpha1.Cluster)
	after, also := update.ObjectNew.(*v1alpha1.Cluster)
	if !ok || !also || !Backs(after.Spec.Type) {
		return false
	}
	return before.Status.Endpoint != after.Status.Endpoint ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		before.Annotations[v1alpha1.AnnotationForce] != after.Annotations[v1alpha1.AnnotationForce]
}

// clusterHandler wakes a cluster's machines, and forgets a cluster that is gone.
func (r *Reconciler) clusterHandler() handler.EventHandler {
	wake := func(ctx context.Context, object client.Object, q queue) {
		r.wakeAll(ctx, client.ObjectKeyFromObject(object), q)
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q queue) {
			if c, ok := e.Object.(*v1alpha1.Cluster); ok && Backs(c.Spec.Type) && !e.IsInInitialList {
				wake(ctx, c, q)
			}
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) { wake(ctx, e.ObjectNew, q) },
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q queue) {
			r.Tenants.Drop(client.ObjectKeyFromObject(e.Object))
			wake(ctx, e.Object, q)
		},
	}
}

func (r *Reconciler) wakeAll(ctx context.Context, cluster types.NamespacedName, q queue) {
	var machines v1alpha1.MachineList
	if err := r.List(ctx, &machines, client.InNamespace(cluster.Namespace), client.MatchingFields{ByCluster: cluster.Name}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list machines of a cluster")
		return
	}
	for i := range machines.Items {
		q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&machines.Items[i])})
	}
}

// followNodes wakes the machine whose node has changed. They have the same name.
func (r *Reconciler) followNodes(ctx context.Context, q queue) error {
	r.Tenants.Subscribe(func(change tenant.Change) {
		if change.Node == "" {
			r.wakeAll(ctx, change.Cluster, q)
			return
		}
		q.Add(reconcile.Request{NamespacedName: types.NamespacedName{Namespace: change.Cluster.Namespace, Name: change.Node}})
	})
	return nil
}

// followSetup wakes the machine whose setup has ended.
func (r *Reconciler) followSetup(_ context.Context, q queue) error {
	if r.Setup != nil {
		r.Setup.Notify(func(name types.NamespacedName) { q.Add(reconcile.Request{NamespacedName: name}) })
	}
	return nil
}

// followMachines wakes the machine that a driver tells of.
func (r *Reconciler) followMachines(ctx context.Context, provider v1alpha1.Provider, notifier Notifier, q queue) {
	log := ctrl.LoggerFrom(ctx).WithValues("provider", provider)
	err := notifier.Notify(ctx, func(key machine.Key) {
		var machines v1alpha1.MachineList
		// The driver knows the cluster's own namespace, not the project's; names of machines are as good as unique.
		if err := r.List(ctx, &machines, client.MatchingFields{ByCluster: key.Cluster}); err != nil {
			log.Error(err, "list machines of a cluster")
			return
		}
		for i := range machines.Items {
			if machines.Items[i].Name == key.Name && !unplaced(&machines.Items[i]) {
				q.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&machines.Items[i])})
			}
		}
	})
	if err != nil && ctx.Err() == nil {
		log.Error(fmt.Errorf("follow machines: %w", err), "changes of machines are noticed late")
	}
}

// unplaced tells whether there was no room for the machine. What a driver tells of it then is its own attempt, and would
// lead to the next one at once.
func unplaced(m *v1alpha1.Machine) bool {
	ready := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
	return m.Status.ID == "" && ready != nil && ready.Reason == ReasonNoCapacity
}

// Addresses are the names and addresses that the node of a machine may serve under; none where there is no such machine.
// It is what package tenant asks for.
func Addresses(reader client.Reader) func(cluster types.NamespacedName, node string) []string {
	return func(cluster types.NamespacedName, node string) []string {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		m := &v1alpha1.Machine{}
		err := reader.Get(ctx, types.NamespacedName{Namespace: cluster.Namespace, Name: node}, m)
		if err != nil || m.Spec.Cluster != cluster.Name || m.Status.Address == "" {
			return nil
		}
		return []string{m.Name, m.Status.Address}
	}
}
