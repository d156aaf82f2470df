// Package task keeps the queue of tasks true to the record: every Task object that is not finished is in the queue,
// whatever happened to the queue. It also clears away tasks that finished long ago.
package task

import (
	"context"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

const (
	// readdInterval is how often an unfinished task is put into the queue again, in case the queue lost it.
	readdInterval = 20 * time.Second
	// retention is how long a finished task can be looked at.
	retention = 7 * 24 * time.Hour
)

// Adder is the part of the queue that the controller needs. Adding what is in the queue already changes nothing.
type Adder interface {
	Add(ctx context.Context, task *v1alpha1.Task) error
}

// Reconciler reconciles tasks.
type Reconciler struct {
	client.Client
	Queue Adder
	Now   func() time.Time
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(manager ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(manager).For(&v1alpha1.Task{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 4}).
		Complete(r)
}

// Reconcile implements reconcile.Reconciler.
func (r *Reconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	task := &v1alpha1.Task{}
	if err := r.Get(ctx, request.NamespacedName, task); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if task.Status.Phase.Finished() {
		return r.retire(ctx, task)
	}
	if err := r.Queue.Add(ctx, task); err != nil {
		return ctrl.Result{}, err // tried again with backoff: the queue may be away for a while
	}
	return ctrl.Result{RequeueAfter: r.again(task)}, nil
}

// again is how long the queue is trusted with the task: a while, or, where it is to be tried again at a later time, until
// then.
func (r *Reconciler) again(task *v1alpha1.Task) time.Duration {
	if task.Status.RetryAt == nil {
		return readdInterval
	}
	return max(readdInterval, task.Status.RetryAt.Sub(r.Now()))
}

func (r *Reconciler) retire(ctx context.Context, task *v1alpha1.Task) (ctrl.Result, error) {
	if task.Status.FinishedAt == nil {
		return ctrl.Result{}, nil
	}
	if left := retention - r.Now().Sub(task.Status.FinishedAt.Time); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	return ctrl.Result{}, client.IgnoreNotFound(r.Delete(ctx, task))
}
