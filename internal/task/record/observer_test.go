package record_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/task"
)

// witness writes down what it is told.
type witness struct {
	mu   sync.Mutex
	said []string
}

func (w *witness) say(format string, values ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, fmt.Sprintf(format, values...))
}

func (w *witness) Busy(change int)                      { w.say("busy %+d", change) }
func (w *witness) Started(operation v1alpha1.Operation) { w.say("%s started", operation) }
func (w *witness) Retried(operation v1alpha1.Operation) { w.say("%s retried", operation) }
func (w *witness) Finished(operation v1alpha1.Operation, phase v1alpha1.TaskPhase) {
	w.say("%s %s", operation, phase)
}
func (w *witness) StepEnded(operation v1alpha1.Operation, step string, outcome task.StepOutcome, _ time.Duration) {
	w.say("%s %s %s", operation, step, outcome)
}

func TestAnObserverIsToldWhatAWorkerDoes(t *testing.T) {
	r := newRoom(t)
	seen := &witness{}
	attempts := 0
	w := r.worker([]task.Step{step("a", nil), step("b", func(context.Context, *task.Scope) error {
		attempts++
		switch attempts {
		case 1:
			return errors.New("no luck")
		case 2:
			return task.Wait(time.Millisecond, "not yet")
		}
		return nil
	})}, func(config *task.Config) {
		config.Observer = seen
		config.Backoff = task.Backoff{First: time.Millisecond, Max: time.Millisecond}
	})
	r.handle(w, r.task(r.cluster("seen"), v1alpha1.OperationCreate))
	// Turns that came too early did nothing but take a worker's time.
	told := slices.DeleteFunc(seen.said, func(line string) bool { return line == "busy +1" || line == "busy -1" })
	want := []string{
		"Create started", "Create a succeeded", "Create b failed", "Create retried", "Create b waits", "Create b succeeded", "Create Succeeded",
	}
	if !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}
