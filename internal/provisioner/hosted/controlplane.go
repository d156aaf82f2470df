package hosted

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
	"plasmacloud.io/plasmacloud/internal/task"
)

// startControlPlane starts the control plane, or brings it to what it should be. A new one begins with one replica: the
// others would only compete with it for the processor until it answers.
func (b *build) startControlPlane(ctx context.Context) error {
	deployment, err := b.describeControlPlane(ctx)
	if err != nil {
		return err
	}
	have, err := b.Client.AppsV1().Deployments(b.Home).Get(ctx, controlPlaneName, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		*deployment.Spec.Replicas = 1
	case err != nil:
		return fmt.Errorf("read the control plane: %w", err)
	case have.Status.ReadyReplicas == 0 && have.Spec.Replicas != nil:
		*deployment.Spec.Replicas = min(max(*have.Spec.Replicas, 1), *deployment.Spec.Replicas)
	}
	if err := b.Apply(ctx, b.Disruption(deployment)); err != nil {
		return err
	}
	return b.ApplyDeployment(ctx, deployment)
}

// describeControlPlane writes the control plane's files and says what its Deployment should be.
func (b *build) describeControlPlane(ctx context.Context) (*appsv1.Deployment, error) {
	offered, version, err := b.Offered()
	if err != nil {
		return nil, err
	}
	e, err := b.Endpoint(ctx)
	if err != nil {
		return nil, err
	}
	files, issued, err := b.controlPlaneFiles(ctx, e)
	if err != nil {
		return nil, err
	}
	if err := b.KeepExactly(ctx, controlPlaneName, files); err != nil {
		return nil, err
	}
	kubeconfigs, err := b.kubeconfigs(e, issued)
	if err != nil {
		return nil, err
	}
	if err := b.KeepExactly(ctx, base.KubeconfigSecret, kubeconfigs); err != nil {
		return nil, err
	}
	return b.describeDeployment(offered, version, e, files)
}

func (b *build) describeDeployment(offered *catalogue.Catalogue, version string, e base.Endpoint, files map[string][]byte) (*appsv1.Deployment, error) {
	p := plane{build: b, version: version, endpoint: e, files: files}
	if err := p.choose(offered); err != nil {
		return nil, task.Permanent(err)
	}
	return p.deployment()
}

// scaleOut gives the control plane all of its replicas.
func (b *build) scaleOut(ctx context.Context) (*appsv1.Deployment, error) {
	deployments := b.Client.AppsV1().Deployments(b.Home)
	deployment, err := deployments.Get(ctx, controlPlaneName, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the control plane: %w", err)
	}
	if deployment.Spec.Replicas != nil && *deployment.Spec.Replicas == b.Cluster.Spec.ControlPlane.Replicas {
		return deployment, nil
	}
	wanted, err := b.describeControlPlane(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.ApplyDeployment(ctx, wanted); err != nil {
		return nil, err
	}
	return deployments.Get(ctx, controlPlaneName, metav1.GetOptions{})
}

// complete tells whether all replicas of a control plane run what it describes, and else what is missing.
func complete(d *appsv1.Deployment) (bool, string) {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	s := d.Status
	if s.ObservedGeneration < d.Generation {
		return false, "the control plane's change is not noticed yet"
	}
	if s.UpdatedReplicas < want || s.AvailableReplicas < want || s.Replicas > want {
		return false, fmt.Sprintf("%d of %d replicas of the control plane are ready, %d old ones are left", min(s.UpdatedReplicas, s.AvailableReplicas), want, max(s.Replicas-s.UpdatedReplicas, 0))
	}
	return true, ""
}
