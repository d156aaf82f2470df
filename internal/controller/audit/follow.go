package audit

import (
	"context"
	"math/rand/v2"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	"plasmacloud.io/plasmacloud/internal/tenant"
)

// calmDown is how long to wait after a change: what changes one thing often changes several.
const calmDown = time.Second

// What could not be looked at is looked at again after so long.
const (
	firstRetry = 5 * time.Second
	lastRetry  = 5 * time.Minute
)

type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	if r.Limits == (Limits{}) {
		r.Limits = DefaultLimits()
	}
	building := ctrl.NewControllerManagedBy(manager).Named("audit").
		Watches(&v1alpha1.Cluster{}, r.followClusters()).
		Watches(&v1alpha1.Machine{}, r.followMachines(),
			builder.WithPredicates(readyChanges(func(m *v1alpha1.Machine) []metav1.Condition { return m.Status.Conditions }))).
		Watches(&v1alpha1.NodeGroup{}, wake(func(g *v1alpha1.NodeGroup) string { return g.Spec.Cluster }),
			builder.WithPredicates(readyChanges(func(g *v1alpha1.NodeGroup) []metav1.Condition { return g.Status.Conditions }))).
		WatchesRawSource(source.Func(r.followTenants)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: max(r.Concurrency, 1),
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstRetry, lastRetry),
		})
	if r.Follow != nil {
		building = building.WatchesRawSource(source.Func(r.followChanges))
	}
	return building.Complete(r)
}

// followClusters wakes clusters that come to rest. Those that are there from the beginning are looked at one after the
// other, over an interval: what happens to them meanwhile is told by the other watches.
func (r *Reconciler) followClusters() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) {
			if e.IsInInitialList {
				q.AddAfter(requestFor(e.Object.GetNamespace(), e.Object.GetName()), time.Duration(rand.Int64N(int64(r.Limits.Interval)))) //nolint:gosec // it only has to spread
			}
		},
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			before, ok := e.ObjectOld.(*v1alpha1.Cluster)
			after, also := e.ObjectNew.(*v1alpha1.Cluster)
			if ok && also && (before.Status.Phase != after.Status.Phase || before.Status.Repaired != after.Status.Repaired ||
				before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero()) {
				q.AddAfter(requestFor(after.Namespace, after.Name), calmDown)
			}
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) {
			q.Add(requestFor(e.Object.GetNamespace(), e.Object.GetName()))
		},
	}
}

func requestFor(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// wake wakes the cluster that an object belongs to.
func wake[T client.Object](clusterOf func(T) string) handler.EventHandler {
	add := func(object client.Object, q queue) {
		if typed, ok := object.(T); ok {
			q.AddAfter(requestFor(object.GetNamespace(), clusterOf(typed)), calmDown)
		}
	}
	return handler.Funcs{
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { add(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { add(e.Object, q) },
	}
}

// followMachines wakes the cluster of a machine, and remembers that a worker was lost.
func (r *Reconciler) followMachines() handler.EventHandler {
	waking := wake(func(m *v1alpha1.Machine) string { return m.Spec.Cluster })
	return handler.Funcs{
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q queue) {
			if m, ok := e.ObjectNew.(*v1alpha1.Machine); ok {
				r.noteLost(m)
			}
			waking.Update(ctx, e, q)
		},
		DeleteFunc: waking.Delete,
	}
}

// readyChanges passes what becomes, or stops being, ready, or is not ready for another reason.
func readyChanges[T client.Object](conditions func(T) []metav1.Condition) predicate.Predicate {
	ready := func(object client.Object) (metav1.ConditionStatus, string) {
		typed, ok := object.(T)
		if !ok {
			return "", ""
		}
		condition := meta.FindStatusCondition(conditions(typed), v1alpha1.ConditionReady)
		if condition == nil {
			return "", ""
		}
		return condition.Status, condition.Reason
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		wasReady, wasWhy := ready(e.ObjectOld)
		isReady, isWhy := ready(e.ObjectNew)
		return wasReady != isReady || wasWhy != isWhy
	}}
}

// followTenants wakes clusters whose API comes or goes. Of nodes the machines tell.
func (r *Reconciler) followTenants(_ context.Context, q queue) error {
	r.Tenants.Subscribe(func(change tenant.Change) {
		if change.Node == "" {
			q.AddAfter(reconcile.Request{NamespacedName: change.Cluster}, calmDown)
		}
	})
	return nil
}

// followChanges wakes clusters of which a part was changed; that asks for a thorough look.
func (r *Reconciler) followChanges(ctx context.Context, q queue) error {
	go func() {
		err := r.Follow(ctx, func(key types.NamespacedName) {
			r.doubt(key)
			q.AddAfter(reconcile.Request{NamespacedName: key}, calmDown)
		})
		if err != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "changes of clusters' parts are noticed late")
		}
	}()
	return nil
}
