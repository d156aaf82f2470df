// Package pod is the machine driver whose machines are privileged pods of a Kubernetes cluster: each has an init, an
// address and a disk of its own, and the CPU and memory that it was asked for. What a machine does inside of its pod
// when it boots is in package guest.
package pod

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/machine"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// lostAfter is how long a machine may take to stop beyond what it was granted. After that its host is taken for lost,
// and its pod, which only the host could end, is struck off.
const lostAfter = 45 * time.Second

// A machine that has only begun to boot may not hear that it is to stop, and has nothing to end in order.
const (
	bootTime         = 5 * time.Second
	youngStopSeconds = 2
)

// Config is what all machines of a driver have in common.
type Config struct {
	// Image that machines boot whose description names none.
	Image string
	// PullPolicy of images; IfNotPresent where it is empty.
	PullPolicy corev1.PullPolicy
	// PriorityClass of the pods; the cluster's default where it is empty.
	PriorityClass string
	// SSH is how machines are worked on; without it they cannot be reached.
	SSH *remote.Pool
}

// Driver is a machine.Driver.
type Driver struct {
	client kubernetes.Interface
	clock  clock.PassiveClock
	config Config
}

var (
	_ machine.Driver = (*Driver)(nil)
	_ machine.Keyed  = (*Driver)(nil)
)

// New returns the driver of machines in the cluster that the client is for.
func New(client kubernetes.Interface, clk clock.PassiveClock, config Config) *Driver {
	return &Driver{client: client, clock: clk, config: config}
}

// Create implements machine.Driver. Where the cluster has no room for the machine, nothing of it is left.
func (d *Driver) Create(ctx context.Context, spec machine.Spec) (*machine.Machine, error) {
	pod, secret, err := d.describe(spec)
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		pod, err = d.create(ctx, pod, secret)
	}
	if err == nil {
		pod, err = d.awaitPlace(ctx, pod)
	}
	if err != nil {
		return nil, fmt.Errorf("create machine %s: %w", spec.Key, err)
	}
	return show(pod), nil
}

// create makes the pod unless it is there already.
func (d *Driver) create(ctx context.Context, wanted *corev1.Pod, secret *corev1.Secret) (*corev1.Pod, error) {
	pods := d.client.CoreV1().Pods(wanted.Namespace)
	found, err := pods.Get(ctx, wanted.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		if err := d.createSecret(ctx, secret); err != nil {
			return nil, err
		}
		found, err = pods.Create(ctx, wanted, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			found, err = pods.Get(ctx, wanted.Name, metav1.GetOptions{})
		}
	}
	if err != nil {
		return nil, translate(ctx, err)
	}
	switch {
	case !found.DeletionTimestamp.IsZero():
		return nil, fmt.Errorf("%w: the old one is being deleted", machine.ErrConflict)
	case keyOf(found) != keyOf(wanted):
		return nil, fmt.Errorf("%w: pod %s is there, and it is machine %s", machine.ErrConflict, found.Name, keyOf(found))
	case found.Annotations[annotationDescription] != wanted.Annotations[annotationDescription]:
		return nil, machine.ErrConflict
	}
	return found, d.bind(ctx, found, secret.Name)
}

func (d *Driver) createSecret(ctx context.Context, secret *corev1.Secret) error {
	_, err := d.client.CoreV1().Secrets(secret.Namespace).Create(ctx, secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return nil // its name says what is in it
	}
	return translate(ctx, err)
}

// bind makes the Secret go with the pod, whoever deletes that.
func (d *Driver) bind(ctx context.Context, pod *corev1.Pod, secret string) error {
	secrets := d.client.CoreV1().Secrets(pod.Namespace)
	have, err := secrets.Get(ctx, secret, metav1.GetOptions{})
	if err != nil {
		return translate(ctx, err)
	}
	if len(have.OwnerReferences) > 0 && have.OwnerReferences[0].UID == pod.UID {
		return nil
	}
	have.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}}
	_, err = secrets.Update(ctx, have, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) {
		return nil // somebody who creates the same machine does it at this moment
	}
	return translate(ctx, err)
}

// Get implements machine.Driver.
func (d *Driver) Get(ctx context.Context, key machine.Key) (*machine.Machine, error) {
	pod, err := d.find(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("get machine %s: %w", key, err)
	}
	return show(pod), nil
}

// find returns the pod of a machine.
func (d *Driver) find(ctx context.Context, key machine.Key) (*corev1.Pod, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if key.Namespace == "" || key.Cluster == "" || key.Name == "" {
		return nil, machine.ErrNotFound
	}
	pod, err := d.client.CoreV1().Pods(key.Namespace).Get(ctx, Name(key), metav1.GetOptions{})
	if err == nil && keyOf(pod) != key {
		return nil, machine.ErrNotFound
	}
	return pod, translate(ctx, err)
}

// List implements machine.Driver.
func (d *Driver) List(ctx context.Context, filter machine.Filter) ([]machine.Machine, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	selector := labels.Set{v1alpha1.LabelComponent: v1alpha1.ComponentMachine}
	if filter.Cluster != "" {
		selector[v1alpha1.LabelCluster] = filter.Cluster
	}
	pods, err := d.client.CoreV1().Pods(filter.Namespace).List(ctx, metav1.ListOptions{LabelSelector: selector.String()})
	if err != nil {
		return nil, fmt.Errorf("list machines: %w", translate(ctx, err))
	}
	var machines []machine.Machine
	for i := range pods.Items {
		machines = append(machines, *show(&pods.Items[i]))
	}
	slices.SortFunc(machines, func(a, b machine.Machine) int { return a.Key.Compare(b.Key) })
	return machines, nil
}

// Delete implements machine.Driver.
func (d *Driver) Delete(ctx context.Context, key machine.Key) error {
	pod, err := d.find(ctx, key)
	if err == nil {
		err = d.deletePod(ctx, pod)
	}
	if err != nil && !errors.Is(err, machine.ErrNotFound) {
		return fmt.Errorf("delete machine %s: %w", key, err)
	}
	if err := d.deleteSecrets(ctx, key); err != nil {
		return fmt.Errorf("delete machine %s: %w", key, err)
	}
	return nil
}

func (d *Driver) deletePod(ctx context.Context, pod *corev1.Pod) error {
	options := metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	switch {
	case pod.DeletionTimestamp == nil && !d.booted(pod):
		options.GracePeriodSeconds = ptr(int64(youngStopSeconds))
	case pod.DeletionTimestamp == nil: // it has what it was granted when it was made
	case d.clock.Since(pod.DeletionTimestamp.Time) < lostAfter:
		return nil
	default:
		options.GracePeriodSeconds = new(int64)
	}
	err := d.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, options)
	if apierrors.IsConflict(err) {
		return nil // it is another machine by now
	}
	return translate(ctx, err)
}

// booted tells whether a machine has been up for long enough to do anything, and to hear that it is to stop.
func (d *Driver) booted(pod *corev1.Pod) bool {
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Running != nil {
			return status.RestartCount > 0 || d.clock.Since(status.State.Running.StartedAt.Time) > bootTime
		}
	}
	return false
}

// deleteSecrets removes the files of a machine, also those of one that was never completely made.
func (d *Driver) deleteSecrets(ctx context.Context, key machine.Key) error {
	if key.Namespace == "" {
		return nil
	}
	secrets := d.client.CoreV1().Secrets(key.Namespace)
	found, err := secrets.List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(ownLabels(key)).String()})
	if err != nil {
		return translate(ctx, err)
	}
	for _, secret := range found.Items {
		if err := secrets.Delete(ctx, secret.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return translate(ctx, err)
		}
	}
	return nil
}

// translate says what an answer of the API means for machines.
func translate(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err() // a client's own error need not say so
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%w: %w", machine.ErrNotFound, err)
	case apierrors.IsForbidden(err) && quotaExceeded(err):
		return fmt.Errorf("%w: %w", machine.ErrNoCapacity, err)
	case apierrors.IsInvalid(err):
		return fmt.Errorf("%w: %w", machine.ErrInvalid, err)
	default:
		return err
	}
}
