// Package record reads and writes tasks, the resources that they work on, and the leases of workers, in the Kubernetes
// API. It is the only part of the task engine that knows how objects get there.
package record

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/task"
)

// requestTimeout bounds every request.
const requestTimeout = 10 * time.Second

// Record is a task.Record in the Kubernetes API.
type Record struct {
	client client.Client
	live   client.Reader
	clock  clock.PassiveClock
}

var _ task.Record = (*Record)(nil)

// New returns a record. The client may read from a cache, and should, because tasks and resources are read often; live
// reads from the API itself (a manager's APIReader). Without a cache they can be the same.
func New(cached client.Client, live client.Reader, clk clock.PassiveClock) *Record {
	return &Record{client: cached, live: live, clock: clk}
}

// Task implements task.Record.
func (r *Record) Task(ctx context.Context, name types.NamespacedName) (*v1alpha1.Task, error) {
	t := &v1alpha1.Task{}
	err := r.get(ctx, r.client, name, t)
	if apierrors.IsNotFound(err) {
		return r.Latest(ctx, name) // the cache may not have seen it yet
	}
	return t, wrap("read task", name, err)
}

// Latest implements task.Record.
func (r *Record) Latest(ctx context.Context, name types.NamespacedName) (*v1alpha1.Task, error) {
	t := &v1alpha1.Task{}
	return t, wrap("read task", name, r.get(ctx, r.live, name, t))
}

// Object implements task.Record.
func (r *Record) Object(ctx context.Context, t *v1alpha1.Task) (task.Object, error) {
	name := types.NamespacedName{Namespace: t.Namespace, Name: t.Spec.Resource.Name}
	// The cache may be behind: then the API itself is asked.
	for _, reader := range []client.Reader{r.client, r.live} {
		object, err := r.newObject(t.Spec.Resource.Kind)
		if err != nil {
			return nil, err
		}
		err = r.get(ctx, reader, name, object)
		if err != nil && !apierrors.IsNotFound(err) {
			return nil, wrap("read "+t.Spec.Resource.Kind, name, err)
		}
		if err == nil && string(object.GetUID()) == t.Spec.Resource.UID && object.GetGeneration() >= t.Spec.Generation {
			return object, nil
		}
	}
	return nil, fmt.Errorf("read %s %s of task %s: %w", t.Spec.Resource.Kind, name, t.Name, task.ErrNotFound)
}

func (r *Record) newObject(kind string) (client.Object, error) {
	made, err := r.client.Scheme().New(v1alpha1.GroupVersion.WithKind(kind))
	if runtime.IsNotRegisteredError(err) {
		return nil, task.Permanent(fmt.Errorf("tasks cannot work on resources of kind %q", kind))
	}
	if err != nil {
		return nil, err
	}
	object, ok := made.(client.Object)
	if !ok {
		return nil, task.Permanent(fmt.Errorf("tasks cannot work on resources of kind %q", kind))
	}
	return object, nil
}

// WriteStatus implements task.Record.
func (r *Record) WriteStatus(ctx context.Context, t *v1alpha1.Task) (*v1alpha1.Task, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	written := t.DeepCopy()
	err := r.client.Status().Update(ctx, written)
	return written, wrap("write status of task", client.ObjectKeyFromObject(t), err)
}

func (r *Record) get(ctx context.Context, reader client.Reader, name types.NamespacedName, object client.Object) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return reader.Get(ctx, name, object)
}

// wrap turns the API's errors into those of the task engine.
func wrap(what string, name types.NamespacedName, err error) error {
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s %s: %w", what, name, task.ErrNotFound)
	case apierrors.IsConflict(err):
		return fmt.Errorf("%s %s: %w", what, name, task.ErrConflict)
	default:
		return fmt.Errorf("%s %s: %w", what, name, err)
	}
}
