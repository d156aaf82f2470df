// Package bucket keeps buckets: it waits until the cluster that a bucket is for is there, and then has a task make it.
package bucket

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/stack"
	"plasmacloud.io/plasmacloud/internal/controller/status"
	"plasmacloud.io/plasmacloud/internal/provisioner"
)

// BucketsByCluster is the index of buckets by their cluster.
const BucketsByCluster = "spec.cluster"

// Reconciler reconciles buckets.
type Reconciler struct {
	client.Client
	Keeper *stack.Keeper
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	byCluster := func(bucket *v1alpha1.Bucket) string { return bucket.Spec.Cluster }
	if err := status.IndexBy(manager, &v1alpha1.Bucket{}, BucketsByCluster, byCluster); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(manager).For(&v1alpha1.Bucket{}).
		Watches(&v1alpha1.Task{}, stack.Tasks("Bucket")).
		Watches(&v1alpha1.Cluster{}, handler.EnqueueRequestsFromMapFunc(r.bucketsOf)).
		Complete(r)
}

// bucketsOf wakes the buckets that wait for their cluster.
func (r *Reconciler) bucketsOf(ctx context.Context, object client.Object) []reconcile.Request {
	if cluster, ok := object.(*v1alpha1.Cluster); !ok || !cluster.Spec.Type.InCloud() {
		return nil
	}
	var buckets v1alpha1.BucketList
	if err := r.List(ctx, &buckets, client.InNamespace(object.GetNamespace()), client.MatchingFields{BucketsByCluster: object.GetName()}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "list buckets of a cluster")
		return nil
	}
	return status.Requests(buckets.Items)
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (result ctrl.Result, err error) {
	bucket := &v1alpha1.Bucket{}
	if err := r.Get(ctx, request.NamespacedName, bucket); err != nil {
		return result, client.IgnoreNotFound(err)
	}
	if bucket.DeletionTimestamp.IsZero() {
		if err := status.EnsureFinalizer(ctx, r.Client, bucket); err != nil {
			return result, err
		}
	}
	patcher := status.NewPatcher(r.Client, bucket)
	waiting, err := r.awaitCluster(ctx, bucket)
	if err != nil {
		return result, err
	}
	if !waiting {
		gone, err := r.Keeper.Keep(ctx, resource(bucket))
		if err != nil {
			return result, err
		}
		if gone {
			return result, status.Release(ctx, r.Client, bucket)
		}
	}
	return result, patcher.Patch(ctx)
}

// awaitCluster tells, and says in the status, whether a new bucket has to wait for its cluster.
func (r *Reconciler) awaitCluster(ctx context.Context, bucket *v1alpha1.Bucket) (bool, error) {
	if !bucket.DeletionTimestamp.IsZero() || bucket.Status.ObservedGeneration > 0 || bucket.Status.Task != "" {
		return false, nil
	}
	wait := func(reason, message string) (bool, error) {
		bucket.Status.Phase = v1alpha1.PhasePending
		status.Set(&bucket.Status.Conditions, bucket, v1alpha1.ConditionReady, false, reason, message)
		return true, nil
	}
	cluster := &v1alpha1.Cluster{}
	err := r.Get(ctx, client.ObjectKey{Namespace: bucket.Namespace, Name: bucket.Spec.Cluster}, cluster)
	switch {
	case apierrors.IsNotFound(err):
		return wait(v1alpha1.ReasonParentMissing, fmt.Sprintf("spec.cluster: there is no cluster %q in this project; create it", bucket.Spec.Cluster))
	case err != nil:
		return false, err
	case cluster.Status.ObservedGeneration == 0:
		return wait(v1alpha1.ReasonParentNotReady, fmt.Sprintf("cluster %s is not there yet", cluster.Name))
	}
	return false, nil
}

func resource(bucket *v1alpha1.Bucket) stack.Resource {
	s := &bucket.Status
	return stack.Resource{
		Object: bucket, Kind: "Bucket", Stack: &s.StackStatus, Phase: &s.Phase, Observed: &s.ObservedGeneration, Conditions: &s.Conditions,
		Adopt: func(outputs map[string]string) {
			if id, ok := outputs[provisioner.OutputID]; ok {
				s.ID = id
			}
			if endpoint, ok := outputs[provisioner.OutputEndpoint]; ok {
				s.Endpoint = endpoint
			}
		},
	}
}
