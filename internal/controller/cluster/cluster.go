// Package cluster turns the difference between what a cluster is asked to be and what it is into tasks, and tells in the
// cluster's status how they fare. It does none of the work itself: workers do, step by step.
package cluster

import (
	"context"
	"time"

	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/network"
	"plasmacloud.io/plasmacloud/internal/controller/status"
)

// NodeGroupsByCluster is the index of node groups by their cluster.
const NodeGroupsByCluster = "spec.cluster"

// progressInterval is how often a cluster's status shows how far its task is.
const progressInterval = time.Second

// Reconciler reconciles clusters.
type Reconciler struct {
	client.Client
	Recorder events.EventRecorder
	// Concurrency is how many clusters are looked at at once.
	Concurrency int
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	byResource := func(task *v1alpha1.Task) string { return task.Spec.Resource.UID }
	if err := status.IndexBy(manager, &v1alpha1.Task{}, status.TasksByResource, byResource); err != nil {
		return err
	}
	if err := IndexNodeGroups(manager); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(manager).For(&v1alpha1.Cluster{}).
		Owns(&v1alpha1.NodeGroup{}).
		Watches(&v1alpha1.Task{}, followTasks()).
		Watches(&v1alpha1.Bucket{}, status.Parent(func(bucket *v1alpha1.Bucket) client.ObjectKey {
			return client.ObjectKey{Namespace: bucket.Namespace, Name: bucket.Spec.Cluster}
		}), builder.WithPredicates(status.Gone())). // for which a cluster that is being deleted waits
		Watches(&v1alpha1.Network{}, handler.EnqueueRequestsFromMapFunc(r.clustersOfNetwork)).
		WithOptions(controller.Options{MaxConcurrentReconciles: max(r.Concurrency, 1)}).
		Complete(r)
}

// IndexNodeGroups lets node groups be listed by their cluster.
func IndexNodeGroups(manager ctrl.Manager) error {
	return status.IndexBy(manager, &v1alpha1.NodeGroup{}, NodeGroupsByCluster, func(group *v1alpha1.NodeGroup) string { return group.Spec.Cluster })
}

// followTasks wakes a cluster when something becomes of one of its tasks: at once when it ends or fails, soon when it only
// gets on, as many steps in a second need not each be told.
func followTasks() handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	wake := func(object client.Object, queue queue, after time.Duration) {
		if task, ok := object.(*v1alpha1.Task); ok && task.Spec.Resource.Kind == "Cluster" {
			queue.AddAfter(reconcile.Request{NamespacedName: client.ObjectKey{Namespace: task.Namespace, Name: task.Spec.Resource.Name}}, after)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, queue queue) { wake(e.Object, queue, 0) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, queue queue) { wake(e.Object, queue, 0) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, queue queue) {
			after := progressInterval
			before, ok := e.ObjectOld.(*v1alpha1.Task)
			if task, isTask := e.ObjectNew.(*v1alpha1.Task); ok && isTask &&
				(task.Status.Phase.Finished() != before.Status.Phase.Finished() || task.Status.Error != before.Status.Error) {
				after = 0
			}
			wake(e.ObjectNew, queue, after)
		},
	}
}

// clustersOfNetwork wakes the clusters that wait for their network.
func (r *Reconciler) clustersOfNetwork(ctx context.Context, object client.Object) []reconcile.Request {
	var clusters v1alpha1.ClusterList
	if err := r.List(ctx, &clusters, client.InNamespace(object.GetNamespace()), client.MatchingFields{network.ClustersByNetwork: object.GetName()}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list clusters of a network")
		return nil
	}
	var requests []reconcile.Request
	for i := range clusters.Items {
		if clusters.Items[i].Status.Phase == v1alpha1.PhasePending || clusters.Items[i].Status.Phase == "" {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&clusters.Items[i])})
		}
	}
	return requests
}

// scope carries what a reconciliation has loaded.
type scope struct {
	cluster *v1alpha1.Cluster
	network *v1alpha1.Network // nil where there is none
	tasks   []v1alpha1.Task   // of this cluster, oldest first
	groups  []v1alpha1.NodeGroup
	buckets []string // names of those of a cluster in a cloud that is being deleted
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, err error) {
	s, err := r.load(ctx, request)
	if err != nil || s == nil {
		return result, err
	}
	if s.cluster.DeletionTimestamp.IsZero() {
		if err := status.EnsureFinalizer(ctx, r.Client, s.cluster); err != nil {
			return result, err
		}
		if err := r.followNodeGroups(ctx, s); err != nil {
			return result, err
		}
	} else if gone := s.finished(v1alpha1.OperationDelete); gone || s.neverStarted() {
		return result, r.letGo(ctx, s)
	}
	patcher := status.NewPatcher(r.Client, s.cluster)
	if s.awaitBuckets() {
		return result, patcher.Patch(ctx)
	}
	if waiting := r.awaitParents(s); !waiting {
		if err := r.syncNodeGroups(ctx, s); err != nil {
			return result, err
		}
		if err := r.decide(ctx, s); err != nil {
			return result, err
		}
	}
	r.mirror(s)
	return result, patcher.Patch(ctx)
}
