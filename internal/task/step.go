package task

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// Step is a part of an operation.
//
// Steps are idempotent: a worker may be killed at any point, and then the step that it was in runs again from its
// beginning. A step looks at what is there before it makes anything, and names what it makes so that it finds it again.
//
// A step's name is stored in tasks under way. Renaming or removing one makes those tasks fail, loudly; a new one is run
// also in tasks that were begun without it.
type Step struct {
	// Name is short, lower-case and unique within the operation, such as start-control-plane.
	Name string
	// Run does it. An error is retried with backoff, for as long as the task's deadline allows; Permanent and Wait
	// make other outcomes. It returns soon after its context ends.
	Run func(ctx context.Context, scope *Scope) error
	// Cancel, where it is given, is called in place of Run when somebody has cancelled the task: it brings to an end what
	// goes on outside of this process, and may have begun in an earlier step. The task has ended when it returns nil; Wait
	// and errors have it called again.
	Cancel func(ctx context.Context, scope *Scope) error
}

// Object is a resource that tasks work on.
type Object interface {
	metav1.Object
	runtime.Object
}

// Planner chooses the steps of an operation.
type Planner interface {
	// Steps returns the steps that the task takes, in their order. For the same operation on the same kind of resource
	// they are always the same; what depends on more than that is decided inside of a step. A permanent error means
	// that there is no way to do it.
	Steps(t *v1alpha1.Task, object Object) ([]Step, error)
}

// Scope is what a step works with.
type Scope struct {
	// Task as it was when the step began, and the resource as it was then. Both are the step's own copies.
	Task   *v1alpha1.Task
	Object Object
	// Attempt counts how often the step was begun, from 1.
	Attempt int32
	// Fence is a number that is higher for every later worker of the same resource. What can compare numbers can
	// refuse orders of a worker that was replaced without knowing.
	Fence int64
	// Log names task, resource and step already.
	Log *slog.Logger

	report func(message string)

	mu      sync.Mutex
	outputs map[string]string // what the step set
}

// Report tells people what the step does just now. It does not wait; of many messages a second, the last is kept.
func (s *Scope) Report(format string, args ...any) {
	if s.report != nil {
		s.report(fmt.Sprintf(format, args...))
	}
}

// Output returns a fact that this step or an earlier one found.
func (s *Scope) Output(name string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if value, ok := s.outputs[name]; ok {
		return value
	}
	return s.Task.Status.Outputs[name]
}

// SetOutput records a fact about the resource, such as its endpoint. It becomes part of the record when the step
// succeeds; the resource's controller copies it from there. Secrets do not belong here.
func (s *Scope) SetOutput(name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outputs == nil {
		s.outputs = map[string]string{}
	}
	s.outputs[name] = value
}

// Outputs returns what the step has set.
func (s *Scope) Outputs() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.outputs)
}

// permanentError marks what no further attempt will mend.
type permanentError struct{ error }

func (e permanentError) Unwrap() error { return e.error }

// Permanent says that trying again cannot help: the task fails.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanentError{err}
}

// IsPermanent tells whether the error, or one that it wraps, is permanent.
func IsPermanent(err error) bool {
	var permanent permanentError
	return errors.As(err, &permanent)
}

// waitError is no failure: what the step waits for is not there yet.
type waitError struct {
	after   time.Duration
	message string
}

func (e waitError) Error() string { return e.message }

// Wait says that the step has done its part and waits for something that takes its time, such as nodes that start. It
// is run again after the given time. Unlike a step that sleeps, one that returns Wait holds up no worker, and lets its
// task be superseded or cancelled meanwhile. The message tells people what it waits for.
func Wait(after time.Duration, format string, args ...any) error {
	return waitError{after: after, message: fmt.Sprintf(format, args...)}
}
