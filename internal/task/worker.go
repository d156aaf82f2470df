package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// Config is what a worker is made of.
type Config struct {
	Record  Record
	Planner Planner
	// Identity names the worker. No two that run at the same time have the same; but one that takes the place of a dead
	// one should have its name, such as a container that is restarted in its pod, because then it need not wait until
	// the dead one's leases have ended.
	Identity string
	// Version of the platform, which is recorded with the steps that it chose.
	Version string
	Clock   clock.WithTicker
	Log     *slog.Logger
	// Observer counts what the worker does; nobody does where it is nil.
	Observer Observer

	// Backoff between attempts of a step; DefaultBackoff where it is zero.
	Backoff Backoff
	// LeaseDuration is how long others wait before they take over what a dead worker held; 15 seconds where it is zero.
	LeaseDuration time.Duration
	// Grace is how long a step may go on when the worker shall stop; 20 seconds where it is zero.
	Grace time.Duration
}

// ReportInterval is the least time between two writes of what a step reports.
const ReportInterval = time.Second

// Worker does tasks. Its Handle is the handler of any number of queues' Runs.
type Worker struct {
	Config

	mu      sync.Mutex
	running map[string]bool // keys
}

// NewWorker returns a worker.
func NewWorker(config Config) (*Worker, error) {
	if config.Record == nil || config.Planner == nil || config.Identity == "" || config.Version == "" || config.Clock == nil || config.Log == nil {
		return nil, errors.New("make worker: record, planner, identity, version, clock and log are needed")
	}
	if config.Backoff == (Backoff{}) {
		config.Backoff = DefaultBackoff
	}
	if config.LeaseDuration == 0 {
		config.LeaseDuration = 15 * time.Second
	}
	if config.Grace == 0 {
		config.Grace = 20 * time.Second
	}
	if config.Observer == nil {
		config.Observer = blind{}
	}
	return &Worker{Config: config, running: map[string]bool{}}, nil
}

// Handle implements Handler: it does what is left of a task, until it is finished, has to wait, or ctx ends.
func (w *Worker) Handle(ctx context.Context, item Item) Result {
	if !w.enter(item.Key) {
		// The queue has lost its memory and delivers what is being done here.
		return Result{Retry: true, After: w.LeaseDuration / 3}
	}
	defer w.leave(item.Key)
	w.Observer.Busy(1)
	defer w.Observer.Busy(-1)
	result, err := w.handle(ctx, item)
	if err != nil {
		w.Log.Warn("cannot work on a task; it is tried again", "task", item.Task, "error", err)
		return Result{Retry: true}
	}
	return result
}

func (w *Worker) enter(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running[key] {
		return false
	}
	w.running[key] = true
	return true
}

func (w *Worker) leave(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running, key)
}

// handle returns an error if the record cannot be read or written.
func (w *Worker) handle(ctx context.Context, item Item) (Result, error) {
	if stopping(ctx) {
		return Result{Retry: true, After: soon}, nil
	}
	// The record is written also when the item's deadline has passed or the worker shall stop.
	recordCtx := context.WithoutCancel(ctx)
	t, err := w.Record.Task(recordCtx, item.Task)
	if errors.Is(err, ErrNotFound) {
		return Result{}, nil
	}
	if err != nil {
		return Result{}, err
	}
	if t.UID != item.UID || t.Status.Phase.Finished() {
		return Result{}, nil
	}
	// What waits is left alone without asking for a lease. If the task as read is old, the worst is that it waits.
	if left := w.waits(t); left > 0 {
		object, err := w.object(recordCtx, t)
		if err != nil {
			return Result{}, err
		}
		if _, ends := w.verdict(t, object); !ends {
			return Result{Retry: true, After: left}, nil
		}
	}
	lease, err := w.Record.Acquire(recordCtx, t, w.Identity, w.LeaseDuration)
	if held := (*HeldError)(nil); errors.As(err, &held) {
		w.Log.Debug("another worker has the resource", "task", item.Task, "holder", held.Holder, "until", held.Until)
		return Result{Retry: true, After: max(held.Until.Sub(w.Clock.Now()), ReportInterval)}, nil
	}
	if err != nil {
		return Result{}, err
	}
	s := newSession(w, t, lease)
	defer s.close()
	return s.run(ctx)
}

// waits is for how long the task has to wait still.
func (w *Worker) waits(t *v1alpha1.Task) time.Duration {
	if t.Status.RetryAt == nil {
		return 0
	}
	return t.Status.RetryAt.Sub(w.Clock.Now())
}

// object returns the task's resource, or nil if it is gone.
func (w *Worker) object(ctx context.Context, t *v1alpha1.Task) (Object, error) {
	object, err := w.Record.Object(ctx, t)
	if errors.Is(err, ErrNotFound) {
		return nil, nil
	}
	return object, err
}

// ending is why a task ends before its last step.
type ending struct {
	phase  v1alpha1.TaskPhase
	reason string
	stops  bool // what goes on elsewhere is to end too: see Step.Cancel
}

// verdict tells whether the task is to end before its next step. Deletions are not superseded: there is nothing newer
// to be wanted of what goes.
func (w *Worker) verdict(t *v1alpha1.Task, object Object) (ending, bool) {
	resource := t.Spec.Resource.Kind + " " + t.Spec.Resource.Name
	deletes := t.Spec.Operation == v1alpha1.OperationDelete
	switch {
	case object == nil:
		return ending{phase: v1alpha1.TaskCancelled, reason: resource + " is gone"}, true
	case !deletes && !object.GetDeletionTimestamp().IsZero():
		return ending{phase: v1alpha1.TaskCancelled, reason: resource + " is being deleted"}, true
	case !deletes && object.GetGeneration() > t.Spec.Generation:
		return ending{phase: v1alpha1.TaskSuperseded, reason: fmt.Sprintf("%s is asked to be at generation %d, not %d any more",
			resource, object.GetGeneration(), t.Spec.Generation)}, true
	case !deletes && t.Annotations[v1alpha1.AnnotationCancel] != "":
		return ending{phase: v1alpha1.TaskCancelled, reason: "somebody cancelled it", stops: true}, true
	case w.overdue(t):
		return ending{phase: v1alpha1.TaskFailed, reason: overdueMessage(t, t.Status.Error)}, true
	default:
		return ending{}, false
	}
}

func (w *Worker) overdue(t *v1alpha1.Task) bool {
	return t.Spec.Deadline != nil && !w.Clock.Now().Before(t.Spec.Deadline.Time)
}

func overdueMessage(t *v1alpha1.Task, last string) string {
	message := fmt.Sprintf("the deadline, %s, has passed", t.Spec.Deadline.UTC().Format(time.RFC3339))
	if last != "" {
		message += "; before that: " + last
	}
	return message
}
