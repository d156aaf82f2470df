package machine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

const maxNamed = 5 // pods that a condition names

// drain keeps new pods from the machine's node and evicts those that are there, and tells whether some are left to wait
// for. There is nothing to wait for where the machine is lost, the API is away, or the time is over.
func (r *Reconciler) drain(ctx context.Context, s *scope) (left bool, err error) {
	if s.connection == nil || s.node == nil || !s.alive() {
		return false, nil
	}
	late := r.Clock.Since(s.machine.DeletionTimestamp.Time) > r.drainTimeout()
	if late {
		r.Recorder.Eventf(s.machine, nil, "Warning", "DrainTimeout", "Drain", "pods have not left node %s within %s; it is removed with them", s.node.Name, r.drainTimeout())
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 3*tenantTimeout)
	defer cancel()
	if err := cordon(ctx, s.connection.Client(), s.node); err != nil {
		return false, err
	}
	leaving, held, err := evict(ctx, s.connection.Client(), s.node)
	if err != nil {
		return false, err
	}
	if len(leaving)+len(held) == 0 {
		return false, nil
	}
	message := fmt.Sprintf("%d pods leave the node", len(leaving))
	if len(held) > 0 {
		message += fmt.Sprintf("; %d cannot yet: %s; the machine goes without them at %s", len(held), enumerate(held),
			s.machine.DeletionTimestamp.Add(r.drainTimeout()).UTC().Format("15:04:05 MST"))
	}
	describe(s.machine, v1alpha1.PhaseDeleting, metav1.ConditionFalse, ReasonDraining, message)
	return true, nil
}

func enumerate(names []string) string {
	slices.Sort(names)
	text := strings.Join(names[:min(len(names), maxNamed)], ", ")
	if len(names) > maxNamed {
		text += fmt.Sprintf(" and %d more", len(names)-maxNamed)
	}
	return text
}

// cordon keeps new pods from a node.
func cordon(ctx context.Context, api kubernetes.Interface, node *corev1.Node) error {
	if node.Spec.Unschedulable {
		return nil
	}
	_, err := api.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`),
		metav1.PatchOptions{FieldManager: "plasmacloud"})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cordon node %s: %w", node.Name, err)
	}
	return nil
}

// evict asks the pods of a node to leave. leaving are on their way, held are those that may not go yet, with the reason.
func evict(ctx context.Context, api kubernetes.Interface, node *corev1.Node) (leaving, held []string, err error) {
	pods, err := api.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", node.Name).String(),
	})
	if err != nil {
		return nil, nil, fmt.Errorf("list pods of node %s: %w", node.Name, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		name := pod.Namespace + "/" + pod.Name
		switch {
		case stays(pod):
		case !pod.DeletionTimestamp.IsZero():
			if nodeReady(node) { // otherwise nobody is there to end it
				leaving = append(leaving, name)
			}
		default:
			err := api.PolicyV1().Evictions(pod.Namespace).Evict(ctx, &policyv1.Eviction{
				ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
				DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
			})
			switch {
			case err == nil && nodeReady(node), apierrors.IsConflict(err):
				leaving = append(leaving, name)
			case err == nil, apierrors.IsNotFound(err):
			default:
				held = append(held, fmt.Sprintf("%s (%v)", name, err))
			}
		}
	}
	return leaving, held, nil
}

// stays tells whether a pod need not leave: it is the node's own, its DaemonSet would put it back, or it has ended.
func stays(pod *corev1.Pod) bool {
	if _, mirrored := pod.Annotations[corev1.MirrorPodAnnotationKey]; mirrored {
		return true
	}
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
