package pods

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"plasmacloud.io/plasmacloud/internal/deployer"
)

// Where a deployer finds things.
const (
	accessPath  = "/access"
	releasePath = "/release"
	workPath    = "/work"
)

// graceSeconds is how long a deployer may go on that is asked to end: it waits for what the cloud is making.
const graceSeconds = 3600

// name of what an attempt consists of. Two operations on a stack never have the same.
func name(r *record) string {
	return fmt.Sprintf("deploy-%s-%s-%d", id(r.Request.Stack)[:10], id(r.Request.ID)[:6], r.Attempt)
}

// pod is that of the record's attempt, or nil where there is none.
func (d *Deployments) pod(ctx context.Context, r *record) (*corev1.Pod, error) {
	pod, err := d.API.CoreV1().Pods(d.Namespace).Get(ctx, name(r), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read deployer of stack %s: %w", r.Request.Stack, err)
	}
	return pod, nil
}

// waiting is why a pod does not run yet, where that is worth telling.
func waiting(pod *corev1.Pod) string {
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Waiting != nil && status.State.Waiting.Message != "" {
			return "the deployer does not start: " + status.State.Waiting.Message
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Status == corev1.ConditionFalse {
			return "the deployer finds no room: " + condition.Message
		}
	}
	return ""
}

// start makes the pod of an attempt, and gives it its token. Both may be there already.
func (d *Deployments) start(ctx context.Context, r *record) error {
	service, err := d.API.CoreV1().Services(d.Namespace).Get(ctx, d.Service, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("find the service for deployers: %w", err)
	}
	ca, err := d.CA()
	if err != nil {
		return fmt.Errorf("find the authority of the service for deployers: %w", err)
	}
	pod := d.describe(r, service.Spec.ClusterIP)
	pod, err = d.API.CoreV1().Pods(d.Namespace).Create(ctx, pod, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		pod, err = d.API.CoreV1().Pods(d.Namespace).Get(ctx, name(r), metav1.GetOptions{})
	}
	if err != nil {
		return fmt.Errorf("start deployer of stack %s: %w", r.Request.Stack, err)
	}
	_, err = d.API.CoreV1().Secrets(d.Namespace).Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: name(r), Labels: map[string]string{LabelStack: id(r.Request.Stack)},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}, // it goes with the pod
		},
		Type: secretType,
		Data: map[string][]byte{deployer.TokenFile: []byte(d.Token(r.Request.Stack, tokenLifetime)), deployer.CAFile: ca},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("give the deployer of stack %s its token: %w", r.Request.Stack, err)
	}
	return nil
}

// describe is the pod of an attempt. It has no identity in the management cluster, and reaches the platform's service by
// its name without asking anybody's DNS.
func (d *Deployments) describe(r *record, address string) *corev1.Pod {
	host := d.Service + "." + d.Namespace + ".svc"
	const nobody = int64(65532)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name(r), Labels: map[string]string{LabelStack: id(r.Request.Stack), "app": "deployer"},
			Annotations: map[string]string{annotationStack: r.Request.Stack},
		},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, TerminationGracePeriodSeconds: ptr.To(int64(graceSeconds)),
			AutomountServiceAccountToken: ptr.To(false), EnableServiceLinks: ptr.To(false),
			HostAliases: []corev1.HostAlias{{IP: address, Hostnames: []string{host}}},
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To(nobody), RunAsGroup: ptr.To(nobody), FSGroup: ptr.To(nobody),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Tolerations: []corev1.Toleration{{Key: "node-role.kubernetes.io/control-plane", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
			Containers: []corev1.Container{{
				Name: "deployer", Image: d.Image, ImagePullPolicy: d.PullPolicy,
				Args: deployer.Args("https://"+host, accessPath, r.Request.Stack, r.turn(), releasePath, workPath),
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("50m"), corev1.ResourceMemory: resource.MustParse("256Mi")},
					Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2Gi")},
				},
				SecurityContext: &corev1.SecurityContext{
					AllowPrivilegeEscalation: ptr.To(false), ReadOnlyRootFilesystem: ptr.To(true),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
				},
				VolumeMounts: []corev1.VolumeMount{
					{Name: "access", MountPath: accessPath, ReadOnly: true}, {Name: "release", MountPath: releasePath, ReadOnly: true},
					{Name: "work", MountPath: workPath},
				},
			}},
			Volumes: []corev1.Volume{
				{Name: "access", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: name(r), DefaultMode: ptr.To(int32(0o440))}}},
				{Name: "release", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: d.ReleaseClaim, ReadOnly: true}}},
				// Plans and states are secret: they are in memory.
				{Name: "work", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: ptr.To(resource.MustParse("512Mi"))}}},
			},
		},
	}
}

// removePods removes the deployers of a stack, which have ended or are to end. Their tokens go with them.
func (d *Deployments) removePods(ctx context.Context, stack string) error {
	pods, err := d.API.CoreV1().Pods(d.Namespace).List(ctx, metav1.ListOptions{LabelSelector: LabelStack + "=" + id(stack)})
	if err != nil {
		return fmt.Errorf("list deployers of stack %s: %w", stack, err)
	}
	for i := range pods.Items {
		err := d.API.CoreV1().Pods(d.Namespace).Delete(ctx, pods.Items[i].Name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pods.Items[i].UID))})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("remove deployer of stack %s: %w", stack, err)
		}
	}
	return nil
}
