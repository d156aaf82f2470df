package machines

import (
	"cmp"
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/balancer"
	"plasmacloud.io/plasmacloud/internal/provisioner"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
)

// ensureEndpoint gives the cluster its address and port, and puts the balancer behind it. Workers boot from now on, while
// the control plane is made.
func (b *build) ensureEndpoint(ctx context.Context) error {
	_, version, err := b.Offered()
	if err != nil {
		return err
	}
	site, err := b.FindSite(ctx)
	if err != nil {
		return err
	}
	e, err := b.EnsureService(ctx, site, exposure())
	if err != nil {
		return err
	}
	if err := b.Apply(ctx, b.MachinePolicy(site, e, b.fromPlatform())); err != nil {
		return err
	}
	if err := b.ensureBalancer(ctx, e); err != nil {
		return err
	}
	b.Scope.SetOutput(provisioner.OutputEndpoint, e.URL())
	if b.Cluster.Status.Version == "" {
		b.Scope.SetOutput(provisioner.OutputVersion, version)
	}
	return nil
}

// exposure leads to the balancer.
func exposure() base.Exposure { return base.Exposure{Component: balancer.Name} }

// ensureBalancer runs the balancer, with the permission to hear which servers there are.
func (b *build) ensureBalancer(ctx context.Context, e base.Endpoint) error {
	access := rbacv1.SchemeGroupVersion.String()
	deployment := b.describeBalancer(e)
	for _, object := range []runtime.Object{
		&corev1.ServiceAccount{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: b.Meta(balancer.Name)},
		&rbacv1.Role{
			TypeMeta: metav1.TypeMeta{APIVersion: access, Kind: "Role"}, ObjectMeta: b.Meta(balancer.Name),
			Rules: []rbacv1.PolicyRule{{
				APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{balancer.Name}, Verbs: []string{"get", "list", "watch"},
			}},
		},
		&rbacv1.RoleBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: access, Kind: "RoleBinding"}, ObjectMeta: b.Meta(balancer.Name),
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: b.Home, Name: balancer.Name}},
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: balancer.Name},
		},
		b.Disruption(deployment),
	} {
		if err := b.Apply(ctx, object); err != nil {
			return err
		}
	}
	if err := b.ApplyDeployment(ctx, deployment); err != nil {
		return fmt.Errorf("run the balancer: %w", err)
	}
	return nil
}

// describeBalancer is one replica where there is one API server, and two where there are more: then neither is missed.
func (b *build) describeBalancer(e base.Endpoint) *appsv1.Deployment {
	replicas, history := int32(1), int32(2)
	if b.highlyAvailable() {
		replicas = 2
	}
	yes := true
	container := corev1.Container{
		Name: balancer.Name, Image: b.own.Image, ImagePullPolicy: cmp.Or(b.PullPolicy, corev1.PullIfNotPresent),
		Args:  balancer.Args(e.Port(), b.Home),
		Env:   []corev1.EnvVar{{Name: "GOGC", Value: "50"}},
		Ports: []corev1.ContainerPort{{Name: base.PortAPI, ContainerPort: int32(e.Port()), Protocol: corev1.ProtocolTCP}},
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("256Mi")},
		},
		// It listens once it knows a server.
		ReadinessProbe: &corev1.Probe{
			ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(int32(e.Port()))}},
			PeriodSeconds: 1, FailureThreshold: 3,
		},
		SecurityContext:          base.Unprivileged(),
		TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
	}
	pod := base.PodSpec(balancer.Name, []corev1.Container{container}, nil)
	pod.ServiceAccountName, pod.AutomountServiceAccountToken = balancer.Name, &yes
	labels := b.ComponentLabels(balancer.Name)
	return &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"},
		ObjectMeta: b.Meta(balancer.Name),
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, RevisionHistoryLimit: &history, Strategy: base.OneMore(),
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelComponent: balancer.Name}},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
		},
	}
}

// highlyAvailable tells whether the control plane is to have more than one machine.
func (b *build) highlyAvailable() bool { return b.Cluster.Spec.ControlPlane.Replicas > 1 }
