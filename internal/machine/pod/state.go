package pod

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"plasmacloud.io/plasmacloud/internal/machine"
)

// hopeless is how often a machine may end by itself before it is given up.
const hopeless = 5

// show tells what a pod says of its machine.
func show(pod *corev1.Pod) *machine.Machine {
	m := &machine.Machine{Key: keyOf(pod), ID: string(pod.UID)}
	m.State, m.Message = stateOf(pod)
	if m.State == machine.StateRunning || m.State == machine.StateDeleting {
		m.Address = pod.Status.PodIP
	}
	return m
}

func stateOf(pod *corev1.Pod) (machine.State, string) {
	switch {
	case pod.DeletionTimestamp != nil:
		return machine.StateDeleting, "it shuts down"
	case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
		return machine.StateFailed, ended(pod)
	}
	for _, status := range pod.Status.ContainerStatuses {
		switch {
		case status.State.Waiting != nil:
			return waiting(pod, status)
		case status.State.Terminated != nil:
			return machine.StatePending, "it restarts: " + reason(status.State.Terminated)
		case status.State.Running != nil && pod.Status.PodIP != "":
			return machine.StateRunning, ""
		}
	}
	if why := unplaced(pod); why != "" {
		return machine.StatePending, why
	}
	return machine.StatePending, "it is being made"
}

// waiting tells about a machine whose container does not run.
func waiting(pod *corev1.Pod, status corev1.ContainerStatus) (machine.State, string) {
	why := status.State.Waiting
	image := pod.Spec.Containers[0].Image
	switch why.Reason {
	case "ErrImageNeverPull", "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNotFound":
		return machine.StateFailed, fmt.Sprintf("image %s is not on node %s, and cannot be had (%s): import it there with `ctr --namespace k8s.io images import`, or let a registry serve it",
			image, pod.Spec.NodeName, detail(why.Reason, why.Message))
	case "CrashLoopBackOff":
		last := "it ended"
		if status.LastTerminationState.Terminated != nil {
			last = reason(status.LastTerminationState.Terminated)
		}
		if status.RestartCount >= hopeless {
			return machine.StateFailed, fmt.Sprintf("it does not stay up, it was started %d times: %s", status.RestartCount+1, last)
		}
		return machine.StatePending, "it restarts: " + last
	case "ContainerCreating", "PodInitializing", "":
		return machine.StatePending, "it is being made"
	default:
		return machine.StatePending, detail(why.Reason, why.Message)
	}
}

// ended tells why a machine is no more.
func ended(pod *corev1.Pod) string {
	if pod.Status.Reason != "" || pod.Status.Message != "" {
		return detail(pod.Status.Reason, pod.Status.Message)
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Terminated != nil {
			return reason(status.State.Terminated)
		}
	}
	return "it has ended"
}

func reason(ended *corev1.ContainerStateTerminated) string {
	return detail(fmt.Sprintf("%s, exit code %d", ended.Reason, ended.ExitCode), ended.Message)
}

func detail(reason, message string) string {
	message = strings.TrimSpace(message)
	switch {
	case message == "":
		return reason
	case reason == "":
		return message
	default:
		return reason + ": " + message
	}
}

// unplaced tells why no host takes the machine; nothing where one does, or that is not known yet.
func unplaced(pod *corev1.Pod) string {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && condition.Reason == corev1.PodReasonUnschedulable {
			return condition.Message
		}
	}
	return ""
}
