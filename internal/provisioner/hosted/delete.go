package hosted

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
)

// removeControlPlane ends the control plane. Nobody is served any more, so it need not end gracefully.
func (b *build) removeControlPlane(ctx context.Context) error {
	there, going, err := b.Enter(ctx)
	if err != nil || !there {
		return err
	}
	if !going && b.Cluster.Spec.ControlPlane.Datastore.Mode != v1alpha1.DatastoreDedicated {
		// Kubernetes waits for five seconds before it clears a namespace. They begin now; a dedicated datastore still
		// needs the namespace to remove its data.
		if err := base.Gone(b.Client.CoreV1().Namespaces().Delete(ctx, b.Home, metav1.DeleteOptions{})); err != nil {
			return fmt.Errorf("remove namespace %s: %w", b.Home, err)
		}
		going = true
	}
	if !going {
		if err := b.removeDeployment(ctx); err != nil {
			return err
		}
	}
	return b.Await(ctx, time.Second, []base.Watcher{b.WatchPods}, func(ctx context.Context) (bool, string, error) {
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
	err := base.Permitted(ctx, func(ctx context.Context) error {
		return base.Gone(b.Client.AppsV1().Deployments(b.Home).Delete(ctx, controlPlaneName, metav1.DeleteOptions{PropagationPolicy: &background}))
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
		return nil, b.Cleared(err, going)
	}
	var left []string
	for i := range pods {
		left = append(left, pods[i].Name)
		if pods[i].DeletionTimestamp == nil && !going {
			continue
		}
		if err := b.Cleared(b.EndPod(ctx, &pods[i]), going); err != nil {
			return nil, err
		}
	}
	return left, nil
}

// removeIdentity refuses the API server's certificates from now on, and removes the administrator's kubeconfigs.
func (b *build) removeIdentity(ctx context.Context) error {
	if b.Identities != nil {
		if err := b.Identities.Revoke(ctx, b.identityName()); err != nil {
			return err
		}
	}
	if err := b.RemoveKubeconfigs(ctx); err != nil {
		return err
	}
	b.setInventory(kindTenant, kindIdentity, base.KindSecret)
	return nil
}

// removeNamespace removes what is left.
func (b *build) removeNamespace(ctx context.Context) error {
	if err := b.RemoveNamespace(ctx); err != nil {
		return err
	}
	b.setInventory(kindTenant, kindIdentity, base.KindSecret, base.KindNamespace)
	return nil
}
