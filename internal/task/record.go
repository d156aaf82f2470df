package task

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// Errors that a Record returns, wrapped or not.
var (
	// ErrNotFound: there is no such object now. It may have been deleted.
	ErrNotFound = errors.New("not found")
	// ErrConflict: the object has changed since it was read.
	ErrConflict = errors.New("changed meanwhile")
	// ErrLost: the lease has ended, and another worker may have one.
	ErrLost = errors.New("lease lost")
)

// HeldError says that another worker has the lease.
type HeldError struct {
	Holder string
	// Until is when the lease ends unless it is renewed.
	Until time.Time
}

func (e *HeldError) Error() string {
	return fmt.Sprintf("the resource is held by worker %s until %s", e.Holder, e.Until.UTC().Format(time.RFC3339))
}

// Record is the truth about tasks and the resources that they work on. Its methods return within a few seconds,
// whatever has become of the API.
type Record interface {
	// Task returns a task. It may be somewhat old, which WriteStatus would find out; but one that exists is found.
	Task(ctx context.Context, name types.NamespacedName) (*v1alpha1.Task, error)

	// Latest returns a task as it is now.
	Latest(ctx context.Context, name types.NamespacedName) (*v1alpha1.Task, error)

	// Object returns the resource that a task works on. It may be somewhat old, but not older than the generation that
	// the task is for. ErrNotFound: the resource is gone, even if there is another one of its name. A permanent error:
	// there can be no such resource.
	Object(ctx context.Context, t *v1alpha1.Task) (Object, error)

	// WriteStatus writes the status of a task and returns the task as it is then. ErrConflict: the task has changed
	// since it was read, and nothing was written.
	WriteStatus(ctx context.Context, t *v1alpha1.Task) (*v1alpha1.Task, error)

	// Acquire gives the holder, and nobody else, the right to work on the task's resource for the given time. A holder
	// that has the right already gets it anew, at once: it must know that it does not use it. *HeldError: another one
	// has it.
	Acquire(ctx context.Context, t *v1alpha1.Task, holder string, duration time.Duration) (Lease, error)
}

// Lease is the right to work on a resource.
type Lease interface {
	// Fence is higher than that of any earlier lease of the resource.
	Fence() int64
	// Renew lets the lease last for its full time from now. ErrLost: somebody else has it.
	Renew(ctx context.Context) error
	// Release gives it back. One that was lost already is no error.
	Release(ctx context.Context) error
}
