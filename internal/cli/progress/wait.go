package progress

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
)

// Target is a resource that a command has asked something of, and how it shall become.
type Target struct {
	Noun      string // such as cluster
	Operation v1alpha1.Operation
	Name      string
	Namespace string // empty for what is in none
	UID       types.UID
	// Generation that it has to be brought to.
	Generation int64
	// List is the kind's list.
	List client.ObjectList
	// Tasks tells whether tasks bring it about.
	Tasks bool
	// Repair is the request that a repair answers, and Earlier the tasks there were before it.
	Repair  string
	Earlier map[types.UID]bool
}

// gone tells whether the target shall be there no more.
func (t Target) gone() bool { return t.Operation == v1alpha1.OperationDelete }

// Title names an operation on a resource.
func Title(operation v1alpha1.Operation, noun, name string) string {
	return fmt.Sprintf("%s %s %s", strings.ToLower(string(operation)), strings.ToLower(noun), name)
}

// Wait shows how the target fares until it is as it shall be, or will not be, or ctx ends.
func Wait(ctx context.Context, api Lister, display Display, target Target) (err error) {
	w := &waiter{target: target, display: display}
	defer func() { display.Close(err == nil) }()
	display.Update(w.state())
	following, cancel := context.WithCancel(ctx)
	defer cancel()
	events, failures := make(chan Event), make(chan error, 2)
	follow := func(list client.ObjectList, opts ...client.ListOption) {
		go func() {
			failures <- Follow(following, api, list, func(event Event) bool {
				if event.Complete && list != target.List {
					return false // that there is no task yet means nothing
				}
				select {
				case events <- event:
				case <-following.Done():
				}
				return false
			}, opts...)
		}()
	}
	follow(target.List, client.InNamespace(target.Namespace), client.MatchingFields{"metadata.name": target.Name})
	if target.Tasks {
		follow(&v1alpha1.TaskList{}, client.InNamespace(target.Namespace), client.MatchingFields{"spec.resource.name": target.Name})
	}
	for {
		select {
		case event := <-events:
			w.observe(event)
			display.Update(w.state())
			if done, err := w.outcome(); done {
				return err
			}
		case err := <-failures:
			if ctx.Err() == nil {
				return err
			}
			return w.gaveUp(ctx.Err())
		case <-ctx.Done():
			return w.gaveUp(ctx.Err())
		}
	}
}

// waiter puts together what is seen of a target.
type waiter struct {
	target  Target
	display Display
	seen    client.Object // nil before anything was
	deleted bool
	task    *v1alpha1.Task // the one that brings it about; nil before there is one
}

func (w *waiter) observe(event Event) {
	if event.Complete {
		w.deleted = w.deleted || w.seen == nil // it was gone before the first look
		return
	}
	task, ok := event.Object.(*v1alpha1.Task)
	switch {
	case !ok && event.Object.GetUID() == w.target.UID:
		w.seen, w.deleted = event.Object, event.Deleted
	case !ok || event.Deleted || types.UID(task.Spec.Resource.UID) != w.target.UID:
	case w.relevant(task) && (w.task == nil || w.task.Name == task.Name || !task.CreationTimestamp.Before(&w.task.CreationTimestamp)):
		w.task = task
	}
}

// relevant tells the tasks that bring the target about, or something newer, from earlier ones.
func (w *waiter) relevant(task *v1alpha1.Task) bool {
	if w.target.gone() {
		return task.Spec.Operation == v1alpha1.OperationDelete
	}
	return task.Spec.Operation.Changes() && task.Spec.Generation >= w.target.Generation && !w.target.Earlier[task.UID]
}

// outcome tells whether it is over, and how.
func (w *waiter) outcome() (over bool, err error) {
	status := statusOf(w.seen)
	switch {
	case w.deleted && w.target.gone():
		return true, nil
	case w.deleted:
		return true, fmt.Errorf("%s was deleted meanwhile", w.name())
	case w.task != nil && (w.task.Status.Phase == v1alpha1.TaskFailed || w.task.Status.Phase == v1alpha1.TaskCancelled):
		return true, w.failure()
	case w.target.gone() || w.seen == nil || status.observed < w.target.Generation || !w.repaired():
		return false, nil
	case w.target.Tasks:
		return status.phase == v1alpha1.PhaseRunning, nil
	case status.phase == v1alpha1.PhaseFailed:
		return true, fmt.Errorf("%s failed: %s", w.name(), status.message())
	default:
		return status.phase == v1alpha1.PhaseRunning || status.ready(), nil
	}
}

func (w *waiter) repaired() bool {
	if w.target.Repair == "" {
		return true
	}
	switch seen := w.seen.(type) {
	case *v1alpha1.Cluster:
		return seen.Status.Repaired == w.target.Repair
	case *v1alpha1.Network:
		return seen.Status.Repaired == w.target.Repair
	case *v1alpha1.Bucket:
		return seen.Status.Repaired == w.target.Repair
	}
	return true
}

func (w *waiter) failure() error {
	task := w.task
	hint := fmt.Sprintf("`cloud task show %s` tells more", task.Name)
	if _, isCluster := w.seen.(*v1alpha1.Cluster); isCluster && !w.target.gone() {
		hint += fmt.Sprintf("; once it is mended, `cloud k8s repair %s` tries again", w.target.Name)
	}
	what := fmt.Sprintf("%s: %s", Title(task.Spec.Operation, w.target.Noun, w.target.Name), strings.ToLower(string(task.Status.Phase)))
	if task.Status.Step != "" {
		what += " at step " + task.Status.Step
	}
	if task.Status.Error != "" {
		what += ": " + task.Status.Error
	}
	return exit.With(exit.Failed, hint, errors.New(what))
}

// gaveUp explains why waiting ended before the thing did.
func (w *waiter) gaveUp(cause error) error {
	what := fmt.Sprintf("%s is %s", w.name(), strings.ToLower(string(statusOf(w.seen).phaseOr("waiting"))))
	hint := "it goes on without this command"
	if w.task != nil {
		if w.task.Status.Step != "" {
			what += fmt.Sprintf(" (%s %s)", w.task.Status.Progress, w.task.Status.Step)
		}
		hint += fmt.Sprintf("; `cloud task watch %s` follows it", w.task.Name)
	}
	if errors.Is(cause, context.DeadlineExceeded) {
		return exit.With(exit.TimedOut, hint, fmt.Errorf("stopped waiting: the time is up, and %s", what))
	}
	return exit.With(exit.Interrupted, hint, fmt.Errorf("stopped waiting: %s", what))
}

func (w *waiter) name() string { return w.target.Noun + " " + w.target.Name }

func (w *waiter) state() State {
	state := State{Title: Title(w.target.Operation, w.target.Noun, w.target.Name)}
	if w.task != nil {
		current := Task(w.task)
		state.Steps, state.Message = current.Steps, current.Message
		return state
	}
	state.Message = statusOf(w.seen).message()
	return state
}

// status is what kinds have in common.
type status struct {
	phase      v1alpha1.Phase
	observed   int64
	conditions []metav1.Condition
}

func statusOf(object client.Object) status {
	switch o := object.(type) {
	case *v1alpha1.Cluster:
		return status{o.Status.Phase, o.Status.ObservedGeneration, o.Status.Conditions}
	case *v1alpha1.Network:
		return status{o.Status.Phase, o.Status.ObservedGeneration, o.Status.Conditions}
	case *v1alpha1.Account:
		return status{o.Status.Phase, o.Status.ObservedGeneration, o.Status.Conditions}
	case *v1alpha1.Bucket:
		return status{o.Status.Phase, o.Status.ObservedGeneration, o.Status.Conditions}
	case *v1alpha1.Project:
		return status{o.Status.Phase, o.Status.ObservedGeneration, o.Status.Conditions}
	case *v1alpha1.Organization:
		return status{"", o.Status.ObservedGeneration, o.Status.Conditions}
	case *v1alpha1.User:
		return status{"", o.Status.ObservedGeneration, o.Status.Conditions}
	default:
		return status{}
	}
}

func (s status) phaseOr(other v1alpha1.Phase) v1alpha1.Phase {
	if s.phase == "" {
		return other
	}
	return s.phase
}

// message is why it is not ready.
func (s status) message() string {
	for _, condition := range s.conditions {
		if condition.Type == v1alpha1.ConditionReady && condition.Status == metav1.ConditionFalse {
			return condition.Message
		}
	}
	return ""
}

func (s status) ready() bool {
	for _, condition := range s.conditions {
		if condition.Type == v1alpha1.ConditionReady {
			return condition.Status == metav1.ConditionTrue
		}
	}
	return false
}
