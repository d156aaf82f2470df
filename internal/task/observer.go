package task

import (
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// Observer is told what a worker does, to be counted. Its methods return at once.
type Observer interface {
	// Busy is called with 1 when the worker takes up a task and with -1 when it lets go of it.
	Busy(change int)
	// Started is called when a task is begun for the first time.
	Started(operation v1alpha1.Operation)
	// Retried is called when a task was set back and will be tried again.
	Retried(operation v1alpha1.Operation)
	// Finished is called when a task has ended.
	Finished(operation v1alpha1.Operation, phase v1alpha1.TaskPhase)
	// StepEnded is called whenever a step has returned.
	StepEnded(operation v1alpha1.Operation, step string, outcome StepOutcome, took time.Duration)
}

// StepOutcome is how a step returned.
type StepOutcome string

// The outcomes.
const (
	StepSucceeded StepOutcome = "succeeded"
	StepFailed    StepOutcome = "failed"
	StepWaits     StepOutcome = "waits" // it has done its part, and is run again
)

// Depth is how many items of a queue are in a state.
type Depth struct {
	// Queue is the class of its items, with the partition before it where there can be several.
	Queue string
	State DepthState
	Items int
}

// DepthState is what items wait for.
type DepthState string

// The states.
const (
	DepthReady   DepthState = "ready"   // for a worker
	DepthDelayed DepthState = "delayed" // for their time
	DepthRunning DepthState = "running" // being handled
)

// blind sees nothing.
type blind struct{}

func (blind) Busy(int)                                                         {}
func (blind) Started(v1alpha1.Operation)                                       {}
func (blind) Retried(v1alpha1.Operation)                                       {}
func (blind) Finished(v1alpha1.Operation, v1alpha1.TaskPhase)                  {}
func (blind) StepEnded(v1alpha1.Operation, string, StepOutcome, time.Duration) {}
