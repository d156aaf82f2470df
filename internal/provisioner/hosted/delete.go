package hosted

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
	// forcedAttempts are how often a forced deletion tries the orderly way.
	forcedAttempts = 3
	// forcedPatience is for how long it waits for others to let go.
	forcedPatience = 10 * time.Second
)

// removeNodes deletes the node groups and machines, and waits until their controllers have removed what they made.
func (b *build) removeNodes(ctx context.Context) error {
	begun := b.Clock.Now()
	if started := b.stepStarted("remove-nodes"); started != nil {
		begun = started.Time
	}
	watchers := []watcher{b.watchResource(resourceNodeGroups), b.watchResource(resourceMachines)}
	return b.await(ctx, time.Second, watchers, func(ctx context.Context) (bool, string, error) {
		var left []string
		for _, resource := range []string{resourceNodeGroups, resourceMachines} {
			names, err := b.removeAll(ctx, resource, b.forced() && b.Clock.Since(begun) > forcedPatience)
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
func (b *build) removeAll(ctx context.Context, resource string, orphan bool) ([]string, error) {
	client := b.ofCluster(resource)
	list, err := client.List(ctx, b.clusterSelector())
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
			b.scope.Log.Warn("the deletion goes on without waiting for cleanup", "kind", item.GetKind(), "name", item.GetName())
			_, err = client.Patch(ctx, item.GetName(), types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{FieldManager: manager})
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return nil, fmt.Errorf("remove %s %s: %w", item.GetKind(), item.GetName(), err)
		}
	}
	return left, nil
}

// owns tells whether an object is this cluster's, and not of one that has its name now or had it before.
func (b *build) owns(item *unstructured.Unstructured) bool {
	for _, owner := range item.GetOwnerReferences() {
		if owner.Kind == "Cluster" && owner.UID != b.cluster.UID {
			return false
		}
	}
	return true
}

// enter tells whether the cluster's namespace is there, and whether it is being removed already: that takes everything
// along, the daemon's permissions in it included.
func (b *build) enter(ctx context.Context) (there, going bool, err error) {
	namespace, err := b.Client.CoreV1().Namespaces().Get(ctx, b.namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return false, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("read namespace %s: %w", b.namespace, err)
	}
	if namespace.DeletionTimestamp != nil {
		return true, true, nil
	}
	// A creation may have been cut short before it was given.
	return true, false, b.apply(ctx, b.permissions()[0])
}

// removeControlPlane ends the control plane. Nobody is served any more, so it need not end gracefully.
func (b *build) removeControlPlane(ctx context.Context) error {
	there, going, err := b.enter(ctx)
	if err != nil || !there {
		return err
	}
	if !going && b.cluster.Spec.ControlPlane.Datastore.Mode != v1alpha1.DatastoreDedicated {
		// Kubernetes waits for five seconds before it clears a namespace. They begin now; a dedicated datastore still
		// needs the namespace to remove its data.
		if err := gone(b.Client.CoreV1().Namespaces().Delete(ctx, b.namespace, metav1.DeleteOptions{})); err != nil {
			return fmt.Errorf("remove namespace %s: %w", b.namespace, err)
		}
		going = true
	}
	if !going {
		if err := b.removeDeployment(ctx); err != nil {
			return err
		}
	}
	return b.await(ctx, time.Second, []watcher{b.watchPods}, func(ctx context.Context) (bool, string, error) {
		left, err := b.endControlPlane(ctx, going)
		if err != nil || len(left) == 0 {
			return err == nil, "", err
		}
		return false, "waiting for " + strings.Join(left, ", ") + " to end", nil
	})
}

// removeDeployment removes the Deployment; its pods follow, by the garbage collector.
func (b *build) removeDeployment(ctx context.Context) error {
	background := metav1.DeletePropagationBackground
	err := permitted(ctx, func(ctx context.Context) error {
		return gone(b.Client.AppsV1().Deployments(b.namespace).Delete(ctx, controlPlaneName, metav1.DeleteOptions{PropagationPolicy: &background}))
	})
	if err != nil {
		return fmt.Errorf("remove the control plane: %w", err)
	}
	return nil
}

// endControlPlane ends the control plane's pods and returns those that are left. In a namespace that goes, no other pod
// takes their place; elsewhere, they are left alone until their owner is gone.
func (b *build) endControlPlane(ctx context.Context, going bool) ([]string, error) {
	pods, err := b.controlPlanePods(ctx)
	if err != nil {
		return nil, b.cleared(err, going)
	}
	var left []string
	for i := range pods {
		left = append(left, pods[i].Name)
		if pods[i].DeletionTimestamp == nil && !going {
			continue
		}
		if err := b.cleared(b.endPod(ctx, &pods[i]), going); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// cleared takes for done what cannot be done because it is gone, or because the permission to went with the namespace.
func (b *build) cleared(err error, going bool) error {
	if going && apierrors.IsForbidden(err) {
		return nil
	}
	return gone(err)
}

// endPod ends a pod soon, or at once where its node is lost and nobody is there to end it.
func (b *build) endPod(ctx context.Context, pod *corev1.Pod) error {
	grace := int64(1)
	if b.forced() && pod.DeletionTimestamp != nil && b.Clock.Since(pod.DeletionTimestamp.Time) > forcedPatience {
		grace = 0
	} else if pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds <= grace {
		return nil
	}
	err := b.Client.CoreV1().Pods(b.namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &grace, Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	if gone(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("end pod %s: %w", pod.Name, err)
	}
	return nil
}

// removeIdentity refuses the API server's certificates from now on, and removes the administrator's kubeconfigs.
func (b *build) removeIdentity(ctx context.Context) error {
	if b.Identities != nil {
		if err := b.Identities.Revoke(ctx, b.identityName()); err != nil {
			return err
		}
	}
	name := v1alpha1.AdminKubeconfigSecret(b.cluster.Name)
	err := b.Client.CoreV1().Secrets(b.cluster.Namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if b.cleared(err, true) != nil { // forbidden: it was never made, nor the permission to
		return fmt.Errorf("remove secret %s: %w", name, err)
	}
	access := b.Client.RbacV1()
	if err := access.RoleBindings(b.cluster.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); gone(err) != nil {
		return fmt.Errorf("remove role binding %s: %w", name, err)
	}
	if err := access.Roles(b.cluster.Namespace).Delete(ctx, name, metav1.DeleteOptions{}); gone(err) != nil {
		return fmt.Errorf("remove role %s: %w", name, err)
	}
	b.setInventory(kindTenant, kindIdentity, kindSecret)
	return nil
}

// removeNamespace removes what is left, and waits until nothing is.
func (b *build) removeNamespace(ctx context.Context) error {
	namespaces := b.Client.CoreV1().Namespaces()
	return b.await(ctx, time.Second, []watcher{b.watchNamespace}, func(ctx context.Context) (bool, string, error) {
		namespace, err := namespaces.Get(ctx, b.namespace, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			b.setInventory(kindTenant, kindIdentity, kindSecret, kindNamespace)
			return true, "", nil
		}
		if err != nil {
			return false, "", fmt.Errorf("read namespace %s: %w", b.namespace, err)
		}
		if namespace.DeletionTimestamp == nil {
			if err := namespaces.Delete(ctx, b.namespace, metav1.DeleteOptions{}); gone(err) != nil {
				return false, "", fmt.Errorf("remove namespace %s: %w", b.namespace, err)
			}
		}
		if b.forced() {
			if err := b.cleared(b.endLostPods(ctx), true); err != nil {
				return false, "", err
			}
		}
		return false, "waiting for namespace " + b.namespace + " to be removed" + remaining(namespace), nil
	})
}

// endLostPods ends all pods of the namespace that nobody ends.
func (b *build) endLostPods(ctx context.Context) error {
	pods, err := b.Client.CoreV1().Pods(b.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		if err := b.endPod(ctx, &pods.Items[i]); err != nil {
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

// gone takes what is not there for removed.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
