// Package progress shows how far something slow is: on a terminal as steps that are redrawn in place, elsewhere as one
// plain line for each thing that happens. It also follows objects of the management API, which is how commands know.
package progress

import (
	"fmt"
	"io"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// State is how far it is.
type State struct {
	// Title names the whole, such as "create cluster dev".
	Title string
	// Message says what it waits for, where there are no steps yet.
	Message string
	Steps   []Step
}

// Step is one of its parts.
type Step struct {
	Name     string
	Phase    v1alpha1.TaskPhase
	Message  string
	Attempts int32
	Started  time.Time // zero before it has
	Finished time.Time // zero while it runs
}

// ofTask is the state of a task's steps.
func ofTask(task *v1alpha1.Task) []Step {
	var steps []Step
	for _, status := range task.Status.Steps {
		step := Step{Name: status.Name, Phase: status.Phase, Message: status.Message, Attempts: status.Attempts}
		if step.Phase == "" {
			step.Phase = v1alpha1.TaskPending
		}
		if status.StartedAt != nil {
			step.Started = status.StartedAt.Time
		}
		if status.FinishedAt != nil {
			step.Finished = status.FinishedAt.Time
		}
		steps = append(steps, step)
	}
	return steps
}

// Task is the state of a task.
func Task(task *v1alpha1.Task) State {
	state := State{Title: Title(task.Spec.Operation, task.Spec.Resource.Kind, task.Spec.Resource.Name), Steps: ofTask(task)}
	if task.Status.Error != "" && !task.Status.Phase.Finished() {
		state.Message = "tries again after: " + task.Status.Error
	}
	return state
}

// took is how long a step took, or takes already.
func (s Step) took(now time.Time) string {
	switch {
	case s.Started.IsZero():
		return ""
	case !s.Finished.IsZero():
		now = s.Finished
	}
	return seconds(now.Sub(s.Started))
}

// seconds shows tenths where they are known: the API's times have none.
func seconds(d time.Duration) string {
	d = max(d, 0)
	if d >= time.Minute || d%time.Second == 0 {
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%.1fs", d.Seconds())
}

// done is how many steps have ended well.
func (s State) done() int {
	done := 0
	for _, step := range s.Steps {
		if step.Phase == v1alpha1.TaskSucceeded {
			done++
		}
	}
	return done
}

// Display shows states.
type Display interface {
	// Update shows the state as it is now.
	Update(state State)
	// Close shows how it ended, and leaves the terminal to others.
	Close(succeeded bool)
}

// Terminal is where a display goes.
type Terminal struct {
	Out   io.Writer
	Live  bool // a terminal on which lines can be redrawn
	Color bool
	Width func() int
	Now   func() time.Time
}

// New returns the display that fits.
func New(terminal Terminal) Display {
	if terminal.Live {
		return newLive(terminal)
	}
	return &plain{out: terminal.Out, now: terminal.Now}
}
