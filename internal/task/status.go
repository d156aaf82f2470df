package task

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// What follows changes the status in memory; put and write make it the record.

func (s *session) now() *metav1.Time { return &metav1.Time{Time: s.worker.Clock.Now()} }

// claim makes the task this session's: writes of an earlier one are conflicts from now on.
func (s *session) claim() {
	status := &s.task.Status
	if waited := status.RetryAt != nil && status.Error == ""; !waited {
		status.Attempts++
	}
	status.Phase = v1alpha1.TaskRunning
	status.Worker = s.worker.Identity
	status.Fence = s.lease.Fence()
	status.RetryAt = nil
	if status.StartedAt == nil {
		status.StartedAt = s.now()
	}
}

// adopt lines up the stored steps with those that this version of the platform would take. A stored one that it does
// not know is an error; one that is not stored yet is added.
func (s *session) adopt(steps []Step) error {
	status := &s.task.Status
	stored := map[string]v1alpha1.StepStatus{}
	for _, step := range status.Steps {
		stored[step.Name] = step
	}
	var names []string
	planned := make([]v1alpha1.StepStatus, 0, len(steps))
	for _, step := range steps {
		if step.Name == "" || step.Run == nil || slices.Contains(names, step.Name) {
			return Permanent(fmt.Errorf("step %q has no name or no content, or is there twice: this is an error in the platform", step.Name))
		}
		names = append(names, step.Name)
		had, ok := stored[step.Name]
		if !ok {
			had = v1alpha1.StepStatus{Name: step.Name, Phase: v1alpha1.TaskPending}
		}
		planned = append(planned, had)
		delete(stored, step.Name)
	}
	for _, unknown := range status.Steps {
		if _, left := stored[unknown.Name]; left {
			return Permanent(fmt.Errorf("step %q, which version %s recorded, is unknown to version %s, which knows %s; "+
				"let version %s finish the task, or ask for the operation again",
				unknown.Name, status.PlannedBy, s.worker.Version, strings.Join(names, ", "), status.PlannedBy))
		}
	}
	if status.PlannedBy == "" || len(planned) != len(status.Steps) {
		status.PlannedBy = s.worker.Version
	}
	status.Steps = planned
	return nil
}

func (s *session) start(i int) {
	step := &s.task.Status.Steps[i]
	step.Phase = v1alpha1.TaskRunning
	step.Attempts++
	s.message.take() // what another step said is no news of this one
	if step.StartedAt == nil {
		step.StartedAt = s.now()
	}
	s.task.Status.Step = step.Name
	s.task.Status.Progress = fmt.Sprintf("%d/%d", i+1, len(s.task.Status.Steps))
}

func (s *session) finish(i int, outputs map[string]string) {
	step := &s.task.Status.Steps[i]
	step.Phase = v1alpha1.TaskSucceeded
	step.FinishedAt = s.now()
	if text, unsaid := s.message.take(); unsaid {
		step.Message = text
	}
	s.task.Status.Error = ""
	for name, value := range outputs {
		if s.task.Status.Outputs == nil {
			s.task.Status.Outputs = map[string]string{}
		}
		s.task.Status.Outputs[name] = value
	}
}

func (s *session) succeed() {
	n := len(s.task.Status.Steps)
	s.task.Status.Progress = fmt.Sprintf("%d/%d", n, n)
	s.task.Status.Step = ""
	s.task.Status.Error = ""
	s.ended(v1alpha1.TaskSucceeded)
}

// end ends the task before its last step.
func (s *session) end(end ending) {
	s.task.Status.Error = end.reason
	s.ended(end.phase)
}

// fail ends the task in a step.
func (s *session) fail(i int, reason string) {
	step := &s.task.Status.Steps[i]
	step.Phase, step.Message, step.FinishedAt = v1alpha1.TaskFailed, reason, s.now()
	s.end(ending{phase: v1alpha1.TaskFailed, reason: reason})
}

func (s *session) ended(phase v1alpha1.TaskPhase) {
	s.task.Status.Phase = phase
	s.task.Status.RetryAt = nil
	s.task.Status.FinishedAt = s.now()
	if s.task.Status.StartedAt == nil {
		s.task.Status.StartedAt = s.task.Status.FinishedAt
	}
}

// setBack records a failure and when to try again; a permanent one ends the task, in the step that it happened in.
func (s *session) setBack(err error, failures int) Result {
	status := &s.task.Status
	if IsPermanent(err) {
		for i := range status.Steps {
			if status.Steps[i].Name == status.Step && status.Steps[i].Phase != v1alpha1.TaskSucceeded {
				status.Steps[i].Phase, status.Steps[i].FinishedAt = v1alpha1.TaskFailed, s.now()
			}
		}
		s.end(ending{phase: v1alpha1.TaskFailed, reason: err.Error()})
		return Result{}
	}
	status.Error = err.Error()
	return s.retryIn(s.worker.Backoff.Delay(failures))
}

// wait records what a step waits for. That is no attempt that failed.
func (s *session) wait(i int, waiting waitError) Result {
	step := &s.task.Status.Steps[i]
	step.Phase, step.Message = v1alpha1.TaskPending, waiting.message
	step.Attempts--
	s.task.Status.Error = ""
	return s.retryIn(max(waiting.after, soon))
}

// interrupt records that a step was told to stop.
func (s *session) interrupt(i int) {
	s.task.Status.Steps[i].Phase = v1alpha1.TaskPending
}

// retryIn records when the task is to be taken up again, which is at its deadline at the latest.
func (s *session) retryIn(after time.Duration) Result {
	at := s.worker.Clock.Now().Add(after)
	if deadline := s.task.Spec.Deadline; deadline != nil && deadline.Time.Before(at) {
		at = deadline.Time
		after = max(at.Sub(s.worker.Clock.Now()), soon)
	}
	s.task.Status.RetryAt = &metav1.Time{Time: at}
	return Result{Retry: true, After: after}
}
