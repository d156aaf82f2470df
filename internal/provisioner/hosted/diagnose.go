package hosted

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// logLines are how many of the last lines of a program that died are told.
const logLines = 5

// look says in a few words what the control plane's pods do just now, and fails for what keeps them from running. What
// may pass by itself counts only where it has lasted.
func (b *build) look(ctx context.Context, lasted bool) (string, error) {
	pods, err := b.controlPlanePods(ctx)
	if err != nil {
		return "", err
	}
	var problems []error
	for i := range pods {
		if err := b.podTrouble(ctx, &pods[i], lasted); err != nil {
			problems = append(problems, err)
		}
	}
	if len(problems) == 0 && lasted {
		problems = append(problems, b.deploymentTrouble(ctx))
	}
	return progress(pods), errors.Join(problems...)
}

// progress is what the newest pod does.
func progress(pods []corev1.Pod) string {
	if len(pods) == 0 {
		return "the control plane's pod is being made"
	}
	newest := pods[0]
	for _, pod := range pods {
		if newest.CreationTimestamp.Before(&pod.CreationTimestamp) {
			newest = pod
		}
	}
	for _, status := range containerStatuses(&newest) {
		if status.Name != containerAPIServer {
			continue
		}
		switch {
		case status.State.Waiting != nil:
			return fmt.Sprintf("%s: %s", status.Name, strings.TrimSpace(status.State.Waiting.Reason+" "+firstLine(status.State.Waiting.Message)))
		case status.State.Running != nil && !status.Ready:
			return status.Name + " starts"
		}
	}
	return "pod " + newest.Name + " is " + string(newest.Status.Phase)
}

func (b *build) controlPlanePods(ctx context.Context) ([]corev1.Pod, error) {
	list, err := b.Client.CoreV1().Pods(b.Home).List(ctx, metav1.ListOptions{
		LabelSelector: v1alpha1.LabelComponent + "=" + v1alpha1.ComponentControlPlane,
	})
	if err != nil {
		return nil, fmt.Errorf("list the control plane's pods: %w", err)
	}
	return list.Items, nil
}

// deploymentTrouble is what keeps pods from being made at all, such as a quota.
func (b *build) deploymentTrouble(ctx context.Context) error {
	deployment, err := b.Client.AppsV1().Deployments(b.Home).Get(ctx, controlPlaneName, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the control plane: %w", err)
	}
	for _, condition := range deployment.Status.Conditions {
		if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == corev1.ConditionTrue {
			return fmt.Errorf("the control plane's pods cannot be made: %s", condition.Message)
		}
	}
	return nil
}

func (b *build) podTrouble(ctx context.Context, pod *corev1.Pod, lasted bool) error {
	if pod.DeletionTimestamp != nil {
		return nil
	}
	if pod.Status.Phase == corev1.PodFailed && lasted {
		return fmt.Errorf("pod %s was ended: %s", pod.Name, strings.TrimSpace(pod.Status.Reason+" "+firstLine(pod.Status.Message)))
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse && lasted {
			return fmt.Errorf("no node of the management cluster has room for pod %s: %s%s", pod.Name, condition.Message, b.pressures(ctx))
		}
	}
	for _, status := range containerStatuses(pod) {
		if err := b.containerTrouble(ctx, pod, status, lasted); err != nil {
			return err
		}
	}
	if lasted && pod.Status.Phase == corev1.PodPending {
		return b.eventTrouble(ctx, pod)
	}
	return nil
}

// pressures are what nodes of the management cluster run short of, with what to do about it.
func (b *build) pressures(ctx context.Context) string {
	nodes, err := b.Client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return ""
	}
	remedies := map[corev1.NodeConditionType]string{
		corev1.NodeDiskPressure:   "its disk is full: remove what is not needed on it, or give it a larger one",
		corev1.NodeMemoryPressure: "its memory is full: delete clusters, or give it more",
		corev1.NodePIDPressure:    "it has too many processes: end some",
	}
	var text strings.Builder
	for i := range nodes.Items {
		for _, condition := range nodes.Items[i].Status.Conditions {
			if remedy, known := remedies[condition.Type]; known && condition.Status == corev1.ConditionTrue {
				fmt.Fprintf(&text, "; node %s: %s", nodes.Items[i].Name, remedy)
			}
		}
	}
	return text.String()
}

func (b *build) containerTrouble(ctx context.Context, pod *corev1.Pod, status corev1.ContainerStatus, lasted bool) error {
	if status.State.Waiting == nil || status.State.Waiting.Reason == "ContainerCreating" || status.State.Waiting.Reason == "PodInitializing" {
		return nil
	}
	waiting := status.State.Waiting
	switch waiting.Reason {
	case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName":
		if !lasted && waiting.Reason == "ErrImagePull" {
			return nil
		}
		return fmt.Errorf("image %s of %s is not on node %s and cannot be fetched (%s): bring it there with `cloud up`: %s",
			status.Image, status.Name, pod.Spec.NodeName, waiting.Reason, firstLine(waiting.Message))
	case "CrashLoopBackOff":
		if !lasted {
			return nil
		}
		return fmt.Errorf("%s ends again and again%s", status.Name, b.lastWords(ctx, pod, status))
	default:
		if !lasted {
			return nil
		}
		return fmt.Errorf("%s cannot be started: %s: %s", status.Name, waiting.Reason, firstLine(waiting.Message))
	}
}

// lastWords are the exit code of a container that died, and what it said last.
func (b *build) lastWords(ctx context.Context, pod *corev1.Pod, status corev1.ContainerStatus) string {
	var text string
	if ended := status.LastTerminationState.Terminated; ended != nil {
		text = fmt.Sprintf(" (%s, exit code %d)", ended.Reason, ended.ExitCode)
	}
	lines := int64(logLines)
	logs, err := b.Client.CoreV1().Pods(pod.Namespace).GetLogs(pod.Name, &corev1.PodLogOptions{
		Container: status.Name, Previous: true, TailLines: &lines,
	}).Stream(ctx)
	if err != nil {
		return text
	}
	defer func() { _ = logs.Close() }()
	said, err := io.ReadAll(io.LimitReader(logs, 4096))
	if err != nil || len(said) == 0 {
		return text
	}
	return text + ": " + strings.ReplaceAll(strings.TrimSpace(string(said)), "\n", " | ")
}

// eventTrouble is the last warning about a pod that does not get to run, such as a volume that cannot be mounted.
func (b *build) eventTrouble(ctx context.Context, pod *corev1.Pod) error {
	list, err := b.Client.CoreV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.uid=" + string(pod.UID) + ",type=Warning"})
	if err != nil {
		return fmt.Errorf("list events: %w", err)
	}
	var last *corev1.Event
	for i := range list.Items {
		// Probes fail until what they ask for has started.
		if event := &list.Items[i]; event.Reason != "Unhealthy" && (last == nil || last.LastTimestamp.Before(&event.LastTimestamp)) {
			last = event
		}
	}
	if last == nil {
		return nil
	}
	return fmt.Errorf("pod %s does not start: %s: %s", pod.Name, last.Reason, firstLine(last.Message))
}

// containerStatuses are those of all containers, in the order in which they start.
func containerStatuses(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
