package machine

import (
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/machine"
)

// A machine's condition Ready is Unknown for as long as the machine cannot be expected to be ready: it could not be made
// yet, or its cluster's API does not answer. It is False, from the moment on that its transition time tells, when the
// machine should be ready and is not.

// ConditionJoined is True once the machine's node was ready for the first time. It stays.
const ConditionJoined = "Joined"

// Reasons of machines that are not ready, besides those that all kinds share.
const (
	// ReasonNoCapacity: the provider cannot give one more machine of that size now.
	ReasonNoCapacity = v1alpha1.ReasonMachineNoCapacity
	// ReasonInvalid: the machine cannot be made as it is described, however often it is tried.
	ReasonInvalid = v1alpha1.ReasonMachineInvalid
	// ReasonProviderError: it cannot be made, or asked for, for another reason.
	ReasonProviderError = "ProviderError"
	// ReasonLost: the machine was there, and is no longer.
	ReasonLost = v1alpha1.ReasonMachineLost
	// ReasonFailed: the provider says that it will not run.
	ReasonFailed = v1alpha1.ReasonMachineFailed
	// ReasonSetupFailed: what is done on the machine to make it a node has failed; it is tried again.
	ReasonSetupFailed = "SetupFailed"
	// ReasonNodeNotReady: the node does not do its job.
	ReasonNodeNotReady = "NodeNotReady"
	// ReasonNodeGone: the node was taken out of the cluster.
	ReasonNodeGone = "NodeGone"
	// ReasonDraining: the node's pods leave it, before the machine is removed.
	ReasonDraining = "Draining"
)

const maxNote = 1000 // characters of an event

func set(m *v1alpha1.Machine, kind string, value metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&m.Status.Conditions, metav1.Condition{
		Type: kind, Status: value, Reason: reason, Message: message, ObservedGeneration: m.Generation,
	})
}

// describe sets phase and condition.
func describe(m *v1alpha1.Machine, phase v1alpha1.Phase, ready metav1.ConditionStatus, reason, message string) {
	m.Status.Phase = phase
	set(m, v1alpha1.ConditionReady, ready, reason, message)
}

// Joined tells whether the machine's node was ever ready.
func Joined(m *v1alpha1.Machine) bool {
	return meta.IsStatusConditionTrue(m.Status.Conditions, ConditionJoined)
}

// unprovided tells why there is no machine, and when it is tried again.
func unprovided(s *scope, err error) (ctrl.Result, error) {
	m := s.machine
	var wait waiting
	switch {
	case errors.As(err, &wait):
		describe(m, v1alpha1.PhasePending, metav1.ConditionUnknown, wait.reason, wait.message)
		return ctrl.Result{RequeueAfter: wait.again}, nil
	case errors.Is(err, machine.ErrNoCapacity):
		describe(m, v1alpha1.PhasePending, metav1.ConditionUnknown, ReasonNoCapacity,
			err.Error()+"; it is made as soon as there is room: free some, or choose a smaller instance type for the node group")
		return ctrl.Result{RequeueAfter: capacityInterval}, nil
	case errors.Is(err, machine.ErrInvalid):
		describe(m, v1alpha1.PhaseFailed, metav1.ConditionUnknown, ReasonInvalid, err.Error()+"; change the node group's description")
		return ctrl.Result{RequeueAfter: invalidInterval}, nil
	case m.Status.ID == "":
		describe(m, v1alpha1.PhasePending, metav1.ConditionUnknown, ReasonProviderError, err.Error()+"; it is tried again")
	}
	return ctrl.Result{}, err
}

// observe tells how the machine and its node fare. problem is why the cluster's API does not answer.
func observe(s *scope, problem error) {
	m, joined := s.machine, Joined(s.machine)
	switch {
	case s.found == nil:
		describe(m, v1alpha1.PhaseFailed, metav1.ConditionFalse, ReasonLost, "the machine is no longer there; its node group replaces it")
	case s.found.State == machine.StateDeleting:
		describe(m, v1alpha1.PhaseFailed, metav1.ConditionFalse, ReasonLost, "somebody else removes the machine; its node group replaces it")
	case s.found.State == machine.StateFailed:
		describe(m, v1alpha1.PhaseFailed, metav1.ConditionFalse, ReasonFailed, fmt.Sprintf("the machine has failed: %s; its node group replaces it", s.found.Message))
	case s.connection == nil && joined:
		// Nobody can tell how the node is; what was last seen stays.
	case s.setup.Err != nil && !joined && s.node == nil:
		describe(m, v1alpha1.PhaseProvisioning, metav1.ConditionFalse, ReasonSetupFailed, fmt.Sprintf("it cannot be made a node: %v; it is tried again", s.setup.Err))
	case s.connection == nil:
		describe(m, v1alpha1.PhaseProvisioning, metav1.ConditionUnknown, v1alpha1.ReasonWaiting, "waiting for the cluster's API; "+progress(s)+why(problem))
	case s.node == nil && joined:
		describe(m, v1alpha1.PhaseFailed, metav1.ConditionFalse, ReasonNodeGone, "its node was taken out of the cluster")
	case s.node == nil:
		describe(m, v1alpha1.PhaseProvisioning, metav1.ConditionFalse, v1alpha1.ReasonProvisioning, progress(s))
	case nodeReady(s.node):
		describe(m, v1alpha1.PhaseRunning, metav1.ConditionTrue, v1alpha1.ReasonReady, "")
	case s.awaitsPodNetwork():
		describe(m, v1alpha1.PhaseRunning, metav1.ConditionTrue, v1alpha1.ReasonReady, "its node waits for a pod network: the cluster was made with --cni none, so install yours")
	case joined:
		describe(m, v1alpha1.PhaseFailed, metav1.ConditionFalse, ReasonNodeNotReady, "its node is not ready: "+nodeMessage(s.node))
	default:
		describe(m, v1alpha1.PhaseProvisioning, metav1.ConditionFalse, ReasonNodeNotReady, "its node has joined and is not ready yet: "+nodeMessage(s.node))
	}
}

func why(problem error) string {
	if problem == nil {
		return ""
	}
	return ": " + problem.Error()
}

func progress(s *scope) string {
	found := s.found
	switch {
	case found.State == machine.StateRunning && s.setup.Message != "":
		return "the machine runs, its node has not joined yet: " + s.setup.Message
	case found.State == machine.StateRunning && s.overSSH() && s.controlPlane():
		return "the machine runs; the cluster's task makes it a part of the control plane"
	case found.State == machine.StateRunning:
		return "the machine runs, its node has not joined yet"
	case found.Message != "":
		return "the machine is being made: " + found.Message
	default:
		return "the machine is being made"
	}
}

// tell records events of what has changed.
func (r *Reconciler) tell(before *v1alpha1.Machine, s *scope) {
	m := s.machine
	if before.Status.ID == "" && m.Status.ID != "" {
		r.Recorder.Eventf(m, nil, "Normal", "Created", "Create", "the machine was made: %s", m.Status.ID)
	}
	was, is := meta.FindStatusCondition(before.Status.Conditions, v1alpha1.ConditionReady), meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
	if is == nil || was != nil && was.Reason == is.Reason {
		return
	}
	switch is.Reason {
	case v1alpha1.ReasonReady:
		r.Recorder.Eventf(m, nil, "Normal", is.Reason, "Join", "node %s is ready", m.Status.NodeName)
	case ReasonNoCapacity, ReasonInvalid, ReasonProviderError, ReasonLost, ReasonFailed, ReasonNodeGone, ReasonSetupFailed, v1alpha1.ReasonUnsupported:
		r.Recorder.Eventf(m, nil, "Warning", is.Reason, "Provide", "%s", is.Message[:min(len(is.Message), maxNote)])
	case ReasonNodeNotReady:
		if Joined(before) {
			r.Recorder.Eventf(m, nil, "Warning", is.Reason, "Watch", "%s", is.Message[:min(len(is.Message), maxNote)])
		}
	}
}

const (
	capacityInterval = 15 * time.Second
	invalidInterval  = time.Minute
)
