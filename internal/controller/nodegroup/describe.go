package nodegroup

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/machine"
	"plasmacloud.io/plasmacloud/internal/controller/status"
)

// Reasons of groups that are not ready, besides those that all kinds share.
const (
	// ReasonHeldBack: more machines are broken than may be replaced at once.
	ReasonHeldBack = "ReplacementHeldBack"
	// ReasonInvalid: no machine can be made from the group's description.
	ReasonInvalid = "InvalidDescription"
)

// invalid is a description that no machine can be made from.
type invalid struct{ error }

func (i invalid) Unwrap() error { return i.error }

// describe counts the machines, and sets phase and conditions.
func describe(s *scope, phase v1alpha1.Phase, reason, message string) {
	tally(s)
	s.group.Status.Phase = phase
	conditions := &s.group.Status.Conditions
	status.Set(conditions, s.group, v1alpha1.ConditionReady, phase == v1alpha1.PhaseRunning, reason, message)
	if reason == ReasonInvalid {
		status.Set(conditions, s.group, v1alpha1.ConditionStalled, true, reason, message)
	} else if m, why := stalled(s.machines); why != nil {
		status.Set(conditions, s.group, v1alpha1.ConditionStalled, true, why.Reason, fmt.Sprintf("machine %s: %s", m.Name, why.Message))
	} else {
		status.Set(conditions, s.group, v1alpha1.ConditionStalled, false, reason, "")
	}
}

// stalled finds a machine that will not be made, or fails again and again, until a person acts.
func stalled(machines []v1alpha1.Machine) (*v1alpha1.Machine, *metav1.Condition) {
	for i := range machines {
		m := &machines[i]
		ready := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || machine.Joined(m) || !m.DeletionTimestamp.IsZero() {
			continue
		}
		switch ready.Reason {
		case machine.ReasonNoCapacity, machine.ReasonInvalid, machine.ReasonFailed, machine.ReasonSetupFailed, v1alpha1.ReasonUnsupported:
			return m, ready
		}
	}
	return nil, nil
}

// tally counts the machines. Those that are being deleted are still there, but no longer ready.
func tally(s *scope) {
	hash := ""
	if s.cluster != nil {
		hash = machine.TemplateHash(&s.group.Spec.Template, machine.Version(s.cluster, s.group))
	}
	counts := &s.group.Status
	counts.Replicas, counts.ReadyReplicas, counts.UpdatedReplicas = int32(len(s.machines)), 0, 0
	for i := range s.machines {
		m := &s.machines[i]
		if !m.DeletionTimestamp.IsZero() {
			continue
		}
		if m.Spec.TemplateHash == hash {
			counts.UpdatedReplicas++
		}
		if meta.IsStatusConditionTrue(m.Status.Conditions, v1alpha1.ConditionReady) {
			counts.ReadyReplicas++
		}
	}
}

// report tells what became of a plan.
func (r *Reconciler) report(s *scope, wanted demand, p plan, failure error) {
	former := ""
	if was := meta.FindStatusCondition(s.group.Status.Conditions, v1alpha1.ConditionReady); was != nil {
		former = was.Reason
	}
	tally(s)
	phase, reason, message := state(s, wanted, p, failure)
	describe(s, phase, reason, message)
	if reason != former && (reason == ReasonHeldBack || reason == ReasonInvalid) {
		r.Recorder.Eventf(s.group, nil, "Warning", reason, "Replace", "%s", message[:min(len(message), maxNote)])
	}
}

const maxNote = 1000 // characters of an event

func state(s *scope, wanted demand, p plan, failure error) (phase v1alpha1.Phase, reason, message string) {
	now := s.group.Status
	phase = v1alpha1.PhaseUpdating
	if was := now.Phase; was == "" || was == v1alpha1.PhasePending || was == v1alpha1.PhaseProvisioning {
		phase = v1alpha1.PhaseProvisioning
	}
	var wrong invalid
	replicas := int32(wanted.replicas)
	switch {
	case errors.As(failure, &wrong):
		return v1alpha1.PhaseFailed, ReasonInvalid, fmt.Sprintf("no machine can be made: %v; change the group in the cluster's spec.nodeGroups", wrong.error)
	case failure != nil:
		return phase, v1alpha1.ReasonUpdating, failure.Error()
	case p.held > 0:
		return v1alpha1.PhaseRepairing, ReasonHeldBack, fmt.Sprintf(
			"%d machines are broken and wait: at most %d of %d are replaced at once, and the others when these are ready; %s",
			p.held, wanted.replaced, wanted.replicas, troubles(s.machines))
	case now.Replicas == replicas && now.ReadyReplicas == replicas && now.UpdatedReplicas == replicas:
		return v1alpha1.PhaseRunning, v1alpha1.ReasonReady, ""
	}
	message = fmt.Sprintf("%d of %d nodes are ready, %d of them as described now", now.ReadyReplicas, replicas, now.UpdatedReplicas)
	if leaving := now.Replicas - int32(live(s.machines)); leaving > 0 {
		message += fmt.Sprintf("; %d machines leave", leaving)
	}
	if trouble := troubles(s.machines); trouble != "" {
		message += "; " + trouble
	}
	if phase == v1alpha1.PhaseUpdating && slices.ContainsFunc(s.machines, ailing) {
		phase = v1alpha1.PhaseRepairing
	}
	return phase, reasonOf(phase), message
}

// ailing tells whether a machine has done its job and does not now.
func ailing(m v1alpha1.Machine) bool {
	return m.DeletionTimestamp.IsZero() && machine.Joined(&m) && meta.IsStatusConditionFalse(m.Status.Conditions, v1alpha1.ConditionReady)
}

func reasonOf(phase v1alpha1.Phase) string {
	if phase == v1alpha1.PhaseProvisioning {
		return v1alpha1.ReasonProvisioning
	}
	return v1alpha1.ReasonUpdating
}

func live(machines []v1alpha1.Machine) int {
	n := 0
	for i := range machines {
		if machines[i].DeletionTimestamp.IsZero() {
			n++
		}
	}
	return n
}

const maxNamed = 3 // machines that a condition names

// troubles tells what is wrong with machines, for people.
func troubles(machines []v1alpha1.Machine) string {
	telling := []string{
		machine.ReasonNoCapacity, machine.ReasonInvalid, machine.ReasonProviderError, machine.ReasonLost, machine.ReasonFailed,
		machine.ReasonNodeGone, machine.ReasonDraining, machine.ReasonSetupFailed, v1alpha1.ReasonUnsupported,
	}
	var lines []string
	for i := range machines {
		m := &machines[i]
		condition := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
		if condition == nil || !slices.Contains(telling, condition.Reason) && (condition.Reason != machine.ReasonNodeNotReady || !machine.Joined(m)) {
			continue
		}
		lines = append(lines, fmt.Sprintf("machine %s: %s", m.Name, condition.Message))
	}
	if len(lines) > maxNamed {
		lines = append(lines[:maxNamed], fmt.Sprintf("and %d more", len(lines)-maxNamed))
	}
	return strings.Join(lines, "; ")
}
