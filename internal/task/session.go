package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// Reasons why a session, or a step, has to end.
var (
	errStopping = errors.New("the worker stops")
	errGone     = errors.New("the task is gone")
)

// soon is the delay of a retry that need not wait. Zero would leave it to the queue.
const soon = time.Millisecond

// session is one turn of a worker at a task: it holds the resource's lease.
type session struct {
	worker  *Worker
	lease   Lease
	log     *slog.Logger
	message message       // of the step that runs
	halt    chan struct{} // closed when the step that runs has to end, because the worker stops

	// mu guards what follows, and the order of writes. The session holds it all the time, except while a step runs:
	// then the keeper may write what the step reports.
	mu     sync.Mutex
	task   *v1alpha1.Task
	wrote  time.Time // when the status was written last
	object Object
	steps  []Step
	first  int // the step that was begun with the session
	// cancelled is how the task ends when its step has been cancelled; nil where nobody asked for that.
	cancelled *ending
}

func newSession(w *Worker, t *v1alpha1.Task, lease Lease) *session {
	return &session{
		worker: w, lease: lease, task: t.DeepCopy(), halt: make(chan struct{}),
		log: w.Log.With("task", t.Namespace+"/"+t.Name, "resource", t.Spec.Resource.Kind+"/"+t.Spec.Resource.Name,
			"operation", t.Spec.Operation),
	}
}

// close gives the lease back.
func (s *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), s.worker.LeaseDuration)
	defer cancel()
	if err := s.lease.Release(ctx); err != nil {
		s.log.Warn("cannot give back a lease; it ends by itself", "error", err)
	}
}

// run does what is left of the task.
func (s *session) run(outer context.Context) (Result, error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(outer))
	defer cancel(nil)
	stopKeeping := s.keep(outer, ctx, cancel)
	defer stopKeeping()
	s.mu.Lock()
	defer s.mu.Unlock()
	result, err := s.begin(ctx)
	if err == nil && result == nil {
		result, err = s.runSteps(outer, ctx)
	}
	switch {
	case err == nil:
		return *result, nil
	case errors.Is(err, errGone):
		return Result{}, nil
	case errors.Is(err, ErrLost):
		s.log.Warn("another worker may have taken over", "error", err)
		return Result{Retry: true, After: s.worker.LeaseDuration}, nil
	default:
		return Result{}, err
	}
}

// begin makes the task this worker's, and finds out what is to be done. It returns a result if nothing is.
func (s *session) begin(ctx context.Context) (*Result, error) {
	for {
		result, err := s.tryBegin(ctx)
		if !errors.Is(err, ErrConflict) {
			return result, err
		}
		// What was read was old: look again.
		latest, err := s.worker.Record.Latest(ctx, ItemOf(s.task).Task)
		if errors.Is(err, ErrNotFound) || err == nil && latest.UID != s.task.UID {
			return nil, errGone
		}
		if err != nil {
			return nil, err
		}
		if latest.Status.Fence > s.lease.Fence() {
			return nil, ErrLost
		}
		if latest.Status.Phase.Finished() {
			return &Result{}, nil
		}
		s.task = latest.DeepCopy()
	}
}

// tryBegin writes once at most: the task's end, or that this worker does it now. ErrConflict means that it decided on
// the ground of something old.
func (s *session) tryBegin(ctx context.Context) (*Result, error) {
	object, err := s.worker.object(ctx, s.task)
	if IsPermanent(err) {
		s.claim()
		result := s.setBack(err, 0)
		return &result, s.put(ctx)
	}
	if err != nil {
		return nil, err
	}
	s.object = object
	end, ends := s.worker.verdict(s.task, object)
	if begun := s.task.Status.StartedAt != nil; ends && (!end.stops || !begun) {
		s.end(end)
		return &Result{}, s.put(ctx)
	}
	if left := s.worker.waits(s.task); left > 0 && !ends {
		return &Result{Retry: true, After: left}, nil
	}
	isNew := s.task.Status.StartedAt == nil
	s.claim()
	steps, err := s.worker.Planner.Steps(s.task.DeepCopy(), object)
	if err == nil {
		err = s.adopt(steps)
	}
	if err != nil {
		result := s.setBack(fmt.Errorf("choose steps: %w", err), int(s.task.Status.Attempts))
		return &result, s.put(ctx)
	}
	s.steps = steps
	if ends && !s.stop(end, s.next()) {
		s.end(end)
		return &Result{}, s.put(ctx)
	}
	if err := s.startNext(ctx); err != nil {
		return nil, err
	}
	if isNew {
		s.worker.Observer.Started(s.task.Spec.Operation)
	}
	return nil, nil
}

// stop has the task end as it says once the given step is cancelled; false where there is nothing to cancel.
func (s *session) stop(end ending, step int) bool {
	if !end.stops || step == len(s.steps) || s.steps[step].Cancel == nil {
		return false
	}
	s.cancelled = &end
	return true
}

// next is the first step that is not finished; their number where all are.
func (s *session) next() int {
	for i := range s.steps {
		if s.task.Status.Steps[i].Phase != v1alpha1.TaskSucceeded {
			return i
		}
	}
	return len(s.steps)
}

// startNext records that the first unfinished step begins, together with the claim.
func (s *session) startNext(ctx context.Context) error {
	if i := s.next(); i < len(s.steps) {
		s.start(i)
		s.first = i
	}
	return s.put(ctx)
}

// runSteps runs what is left. When it is called, the first unfinished step is recorded as running; from then on the end
// of each step and the beginning of the next one are one write.
func (s *session) runSteps(outer, ctx context.Context) (*Result, error) {
	for i, step := range s.steps {
		if s.task.Status.Steps[i].Phase == v1alpha1.TaskSucceeded {
			continue
		}
		if i != s.first {
			if result, err := s.boundary(outer, ctx, i); result != nil || err != nil {
				return result, err
			}
		}
		if s.cancelled != nil {
			step.Run = step.Cancel
		}
		if err := s.runStep(ctx, i, step); err != nil {
			return s.afterError(outer, ctx, i, err)
		}
		if s.cancelled != nil {
			s.task.Status.Steps[i].Phase = v1alpha1.TaskCancelled
			s.end(*s.cancelled)
			s.log.Info("task cancelled", "step", step.Name)
			return &Result{}, s.write(ctx)
		}
		s.log.Info("step done", "step", step.Name)
	}
	s.succeed()
	s.log.Info("task done")
	return &Result{}, s.write(ctx)
}

// boundary is between two steps: it ends the task if that is called for, or records what has been done and that the
// given step begins.
func (s *session) boundary(outer, ctx context.Context, next int) (*Result, error) {
	object, err := s.worker.object(ctx, s.task)
	if err != nil {
		return nil, errors.Join(err, s.write(ctx)) // what is done stays done
	}
	// Nobody may have written since somebody cancelled it.
	if known, err := s.worker.Record.Task(ctx, ItemOf(s.task).Task); err == nil && known.UID == s.task.UID {
		s.task.Annotations = known.Annotations
	}
	if end, ends := s.worker.verdict(s.task, object); ends && !s.stop(end, next) {
		s.end(end)
		s.log.Info("task ends early", "phase", end.phase, "reason", end.reason)
		return &Result{}, s.write(ctx)
	}
	if stopping(outer) {
		return &Result{Retry: true, After: soon}, s.write(ctx)
	}
	s.object = object
	s.start(next)
	return nil, s.write(ctx)
}

// stopping tells whether the worker shall stop. That the task's own deadline has passed does not mean that.
func stopping(outer context.Context) bool {
	return outer.Err() != nil && !errors.Is(outer.Err(), context.DeadlineExceeded)
}

// runStep runs a step and takes over what it found.
func (s *session) runStep(ctx context.Context, i int, step Step) error {
	object, _ := s.object.DeepCopyObject().(Object)
	scope := &Scope{
		Task: s.task.DeepCopy(), Object: object, Attempt: s.task.Status.Steps[i].Attempts, Fence: s.lease.Fence(),
		Log: s.log.With("step", step.Name), report: s.message.set,
	}
	if deadline := s.task.Spec.Deadline; deadline != nil {
		left := deadline.Sub(s.worker.Clock.Now())
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, left)
		defer cancel()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-s.halt:
			cancel(errStopping)
		case <-ctx.Done():
		}
	}()
	s.mu.Unlock()
	begun := s.worker.Clock.Now()
	err := call(ctx, step, scope)
	took := s.worker.Clock.Since(begun)
	s.mu.Lock()
	s.worker.Observer.StepEnded(s.task.Spec.Operation, step.Name, outcomeOf(err), took)
	if err == nil {
		s.finish(i, scope.Outputs())
	}
	return err
}

func outcomeOf(err error) StepOutcome {
	var waiting waitError
	switch {
	case err == nil:
		return StepSucceeded
	case errors.As(err, &waiting):
		return StepWaits
	default:
		return StepFailed
	}
}

// call runs a step; a panic is an error.
func call(ctx context.Context, step Step, scope *Scope) (err error) {
	defer func() {
		if reason := recover(); reason != nil {
			scope.Log.Error("step panicked", "reason", reason, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %v", reason)
		}
	}()
	if err := ctx.Err(); err != nil {
		return err
	}
	return step.Run(ctx, scope)
}

// afterError decides what becomes of a task whose step has returned an error.
func (s *session) afterError(outer, ctx context.Context, i int, err error) (*Result, error) {
	if cause := context.Cause(ctx); errors.Is(cause, ErrLost) || errors.Is(cause, errGone) {
		return nil, cause
	}
	name := s.steps[i].Name
	status := &s.task.Status.Steps[i]
	var waiting waitError
	var result Result
	switch {
	case stopping(outer):
		// Whatever it was: the step was told to stop. It is begun anew, by another worker perhaps.
		s.interrupt(i)
		result = Result{Retry: true, After: soon}
		s.log.Info("step interrupted", "step", name, "error", err)
	case s.worker.overdue(s.task):
		s.fail(i, overdueMessage(s.task, err.Error()))
	case errors.As(err, &waiting):
		result = s.wait(i, waiting)
	default:
		status.Phase, status.Message = v1alpha1.TaskPending, err.Error()
		result = s.setBack(fmt.Errorf("step %s: %w", name, err), int(status.Attempts))
		s.log.Warn("step failed", "step", name, "attempt", status.Attempts, "permanent", IsPermanent(err), "error", err)
	}
	return &result, s.write(ctx)
}
