package base

import (
	"context"
	"fmt"
	"net/http"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// ProbeTimeout is how long an API may take to say that it is ready.
const ProbeTimeout = 2 * time.Second

// ApplyDeployment makes the Deployment exactly what is wanted: unlike server-side apply, it removes what somebody else
// has added. An update that changes nothing is none.
func (b *Build) ApplyDeployment(ctx context.Context, wanted *appsv1.Deployment) error {
	deployments := b.Client.AppsV1().Deployments(b.Home)
	return retry.OnError(retry.DefaultRetry, Raced, func() error {
		have, err := deployments.Get(ctx, wanted.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			_, err = deployments.Create(ctx, wanted, metav1.CreateOptions{FieldManager: b.Manager})
			return err
		}
		if err != nil {
			return fmt.Errorf("read deployment %s: %w", wanted.Name, err)
		}
		have.Spec, have.Labels = wanted.Spec, wanted.Labels
		_, err = deployments.Update(ctx, have, metav1.UpdateOptions{FieldManager: b.Manager})
		return err
	})
}

// Ready asks an API whether it is.
func Ready(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", url, response.Status)
	}
	return nil
}

// user is who programs run as: nobody in particular, but not root.
const user = 65532

// PodSpec is what the pods of a component have in common that are not machines: they run as nobody, are spread over the
// nodes, and leave a lost one soon.
func PodSpec(component string, containers []corev1.Container, volumes []corev1.Volume) corev1.PodSpec {
	yes, no := true, false
	id, grace, soon := int64(user), int64(30), int64(15)
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelComponent: component}}
	return corev1.PodSpec{
		Containers: containers, Volumes: volumes,
		AutomountServiceAccountToken: &no, EnableServiceLinks: &no,
		PriorityClassName:             "system-cluster-critical",
		TerminationGracePeriodSeconds: &grace,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: &yes, RunAsUser: &id, RunAsGroup: &id, FSGroup: &id,
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Tolerations: []corev1.Toleration{
			{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
			{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &soon},
			{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &soon},
		},
		Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
				Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{LabelSelector: selector, TopologyKey: corev1.LabelHostname},
			}},
		}},
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: selector, MatchLabelKeys: []string{appsv1.DefaultDeploymentUniqueLabelKey},
		}},
	}
}

// Unprivileged is what a container may not.
func Unprivileged() *corev1.SecurityContext {
	yes, no := true, false
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: &no, ReadOnlyRootFilesystem: &yes,
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// OneMore replaces pods with one more than there should be, and never with fewer.
func OneMore() appsv1.DeploymentStrategy {
	none, one := intstr.FromInt32(0), intstr.FromInt32(1)
	return appsv1.DeploymentStrategy{
		Type:          appsv1.RollingUpdateDeploymentStrategyType,
		RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &none, MaxSurge: &one},
	}
}

// Disruption lets one pod of a Deployment go at a time: a node can be drained even of one that has no other.
func (b *Build) Disruption(deployment *appsv1.Deployment) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		TypeMeta: metav1.TypeMeta{APIVersion: policyv1.SchemeGroupVersion.String(), Kind: "PodDisruptionBudget"}, ObjectMeta: b.Meta(deployment.Name),
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &intstr.IntOrString{IntVal: 1}, Selector: deployment.Spec.Selector},
	}
}
