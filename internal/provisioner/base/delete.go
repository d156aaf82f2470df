package base

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

const (
	// ForcedAttempts are how often a forced deletion tries the orderly way.
	ForcedAttempts = 3
	// forcedPatience is for how long it waits for others to let go.
	forcedPatience = 10 * time.Second
)

// StepRemoveNodes is the step that RemoveNodes is.
const StepRemoveNodes = "remove-nodes"

// RemoveNodes deletes the node groups and machines, and waits until their controllers have removed what they made.
func (b *Build) RemoveNodes(ctx context.Context) error {
	begun := b.StepStarted(StepRemoveNodes)
	watchers := []Watcher{b.WatchResource(ResourceNodeGroups), b.WatchResource(ResourceMachines)}
	return b.Await(ctx, time.Second, watchers, func(ctx context.Context) (bool, string, error) {
		var left []string
		for _, resource := range []string{ResourceNodeGroups, ResourceMachines} {
			names, err := b.removeAll(ctx, resource, b.Forced() && b.Clock.Since(begun) > forcedPatience)
			if err != nil {
				return false, "", err
			}
			left = append(left, names...)
		}
		if len(left) == 0 {
			return true, "", nil
		}
		return false, "waiting for " + strings.Join(left, ", ") + " to be removed", nil
	})
}

// removeAll deletes all objects of the cluster of one kind and returns those that are there still. With orphan, it does
// not wait for who should clean up after them: what they made is in the cluster's namespace, which goes too.
func (b *Build) removeAll(ctx context.Context, resource string, orphan bool) ([]string, error) {
	client := b.OfCluster(resource)
	list, err := client.List(ctx, b.ClusterSelector())
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", resource, err)
	}
	var left []string
	for i := range list.Items {
		item := &list.Items[i]
		if !b.owns(item) {
			continue
		}
		left = append(left, strings.ToLower(item.GetKind())+" "+item.GetName())
		if item.GetDeletionTimestamp() == nil {
			uid := item.GetUID()
			err = client.Delete(ctx, item.GetName(), metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}})
		} else if orphan && len(item.GetFinalizers()) > 0 {
			b.Scope.Log.Warn("the deletion goes on without waiting for cleanup", "kind", item.GetKind(), "name", item.GetName())
			_, err = client.Patch(ctx, item.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{FieldManager: b.Manager})
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return nil, fmt.Errorf("remove %s %s: %w", item.GetKind(), item.GetName(), err)
		}
	}
	return left, nil
}

// owns tells whether an object is this cluster's, and not of one that has its name now or had it before.
func (b *Build) owns(item *unstructured.Unstructured) bool {
	for _, owner := range item.GetOwnerReferences() {
		if owner.Kind == "Cluster" && owner.UID != b.Cluster.UID {
			return false
		}
	}
	return true
}

// Enter tells whether the cluster's namespace is there, and whether it is being removed already: that takes everything
// along, the daemon's permissions in it included.
func (b *Build) Enter(ctx context.Context) (there, going bool, err error) {
	namespace, err := b.Client.CoreV1().Namespaces().Get(ctx, b.Home, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("read namespace %s: %w", b.Home, err)
	}
	if namespace.DeletionTimestamp != nil {
		return true, true, nil
	}
	// A creation may have been cut short before it was given.
	return true, false, b.Apply(ctx, b.permissions()[0])
}

// Cleared takes for done what cannot be done because it is gone, or because the permission to went with the namespace.
func (b *Build) Cleared(err error, going bool) error {
	if going && apierrors.IsForbidden(err) {
		return nil
	}
	return Gone(err)
}

// EndPod ends a pod soon, or at once where its node is lost and nobody is there to end it.
func (b *Build) EndPod(ctx context.Context, pod *corev1.Pod) error {
	grace := int64(1)
	if b.Forced() && pod.DeletionTimestamp != nil && b.Clock.Since(pod.DeletionTimestamp.Time) > forcedPatience {
		grace = 0
	} else if pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds <= grace {
		return nil
	}
	err := b.Client.CoreV1().Pods(b.Home).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &grace, Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	if Gone(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("end pod %s: %w", pod.Name, err)
	}
	return nil
}

// RemoveKubeconfigs removes what the administrator was handed, and the permission to hand it over.
func (b *Build) RemoveKubeconfigs(ctx context.Context) error {
	name := v1alpha1.AdminKubeconfigSecret(b.Cluster.Name)
	err := b.Client.CoreV1().Secrets(b.Cluster.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if b.Cleared(err, true) != nil { // forbidden: it was never made, nor the permission to
		return fmt.Errorf("remove secret %s: %w", name, err)
	}
	access := b.Client.RbacV1()
	if err := access.RoleBindings(b.Cluster.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); Gone(err) != nil {
		return fmt.Errorf("remove role binding %s: %w", name, err)
	}
	if err := access.Roles(b.Cluster.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); Gone(err) != nil {
		return fmt.Errorf("remove role %s: %w", name, err)
	}
	return nil
}

// RemoveNamespace removes what is left, and waits until nothing is.
func (b *Build) RemoveNamespace(ctx context.Context) error {
	namespaces := b.Client.CoreV1().Namespaces()
	return b.Await(ctx, time.Second, []Watcher{b.watchNamespace}, func(ctx context.Context) (bool, string, error) {
		namespace, err := namespaces.Get(ctx, b.Home, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return true, "", nil
		}
		if err != nil {
			return false, "", fmt.Errorf("read namespace %s: %w", b.Home, err)
		}
		if namespace.DeletionTimestamp == nil {
			if err := namespaces.Delete(ctx, b.Home, metav1.DeleteOptions{}); Gone(err) != nil {
				return false, "", fmt.Errorf("remove namespace %s: %w", b.Home, err)
			}
		}
		if b.Forced() {
			if err := b.Cleared(b.endLostPods(ctx), true); err != nil {
				return false, "", err
			}
		}
		return false, "waiting for namespace " + b.Home + " to be removed" + remaining(namespace), nil
	})
}

// endLostPods ends all pods of the namespace that nobody ends.
func (b *Build) endLostPods(ctx context.Context) error {
	pods, err := b.Client.CoreV1().Pods(b.Home).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		if err := b.EndPod(ctx, &pods.Items[i]); err != nil {
			return err
		}
	}
	return nil
}

// remaining is what the namespace's controller says stands in the way.
func remaining(namespace *corev1.Namespace) string {
	var reasons []string
	for _, condition := range namespace.Status.Conditions {
		if condition.Status == corev1.ConditionTrue {
			reasons = append(reasons, condition.Message)
		}
	}
	if len(reasons) == 0 {
		return ""
	}
	return ": " + strings.Join(reasons, "; ")
}

// Gone takes what is not there for removed.
func Gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
