package machine

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/machine/sshkey"
)

// Rotation replaces the SSH keys of clusters whose owners ask for it. The new key and the one before it are both kept
// until every machine knows the new one; a machine that cannot be reached is tried again until it can, or is gone.
type Rotation struct {
	client.Client
	// API reads and writes the Secrets of clusters' own namespaces.
	API      kubernetes.Interface
	Drivers  map[v1alpha1.Provider]machine.Driver
	Recorder events.EventRecorder
}

// rekeyTimeout bounds what is done on one machine.
const rekeyTimeout = 30 * time.Second

// SetupWithManager registers the controller.
func (r *Rotation) SetupWithManager(manager ctrl.Manager) error {
	asked := predicate.NewPredicateFuncs(func(object client.Object) bool {
		return object.GetAnnotations()[v1alpha1.AnnotationRotateSSHKey] != "" && object.GetDeletionTimestamp().IsZero()
	})
	return ctrl.NewControllerManagedBy(manager).Named("ssh-key-rotation").For(&v1alpha1.Cluster{}).WithEventFilter(asked).
		WithOptions(controller.Options{
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Minute),
		}).
		Complete(r)
}

// Reconcile implements reconcile.Reconciler.
func (r *Rotation) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	c := &v1alpha1.Cluster{}
	if err := r.Get(ctx, request.NamespacedName, c); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	wanted := c.Annotations[v1alpha1.AnnotationRotateSSHKey]
	if wanted == "" || !OverSSH(c.Spec.Type) || !c.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	secrets := r.API.CoreV1().Secrets(v1alpha1.InfrastructureNamespace(c))
	secret, err := secrets.Get(ctx, sshkey.SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return ctrl.Result{RequeueAfter: time.Minute}, nil // the cluster is not made yet
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read the cluster's SSH key: %w", err)
	}
	if !sshkey.Replaced(secret.Data) && secret.Annotations[v1alpha1.AnnotationRotateSSHKey] != wanted {
		if secret, err = r.replace(ctx, c, secret, wanted); err != nil {
			return ctrl.Result{}, err
		}
	}
	if !sshkey.Replaced(secret.Data) {
		return ctrl.Result{}, nil
	}
	if err := r.tellMachines(ctx, c); err != nil {
		r.Recorder.Eventf(c, nil, "Warning", "SSHKeyNotReplaced", "RotateKey", "%s", firstOf(err.Error(), maxNote))
		return ctrl.Result{}, err
	}
	sshkey.Forget(secret.Data)
	if _, err := secrets.Update(ctx, secret, metav1.UpdateOptions{}); err != nil {
		return ctrl.Result{}, fmt.Errorf("forget the key before: %w", err)
	}
	r.Recorder.Eventf(c, nil, "Normal", "SSHKeyReplaced", "RotateKey", "all machines know the new SSH key, and no longer the one before")
	// One that was asked for meanwhile is made now.
	return ctrl.Result{RequeueAfter: time.Millisecond}, nil
}

func firstOf(text string, most int) string { return text[:min(len(text), most)] }

// replace makes the new key.
func (r *Rotation) replace(ctx context.Context, c *v1alpha1.Cluster, secret *corev1.Secret, wanted string) (*corev1.Secret, error) {
	if err := sshkey.Replace(secret.Data, "plasmacloud "+c.Name); err != nil {
		return nil, err
	}
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	secret.Annotations[v1alpha1.AnnotationRotateSSHKey] = wanted
	updated, err := r.API.CoreV1().Secrets(secret.Namespace).Update(ctx, secret, metav1.UpdateOptions{})
	if err != nil {
		return nil, fmt.Errorf("keep the new SSH key: %w", err)
	}
	return updated, nil
}

// tellMachines makes all machines of a cluster know its present key. One that was described with the key before, and is
// not there yet, is waited for.
func (r *Rotation) tellMachines(ctx context.Context, c *v1alpha1.Cluster) error {
	var machines v1alpha1.MachineList
	if err := r.List(ctx, &machines, client.InNamespace(c.Namespace), client.MatchingFields{ByCluster: c.Name}); err != nil {
		return err
	}
	var problems []error
	for i := range machines.Items {
		problems = append(problems, r.tell(ctx, c, &machines.Items[i]))
	}
	return errors.Join(problems...)
}

func (r *Rotation) tell(ctx context.Context, c *v1alpha1.Cluster, m *v1alpha1.Machine) error {
	if m.Status.ID == "" || !m.DeletionTimestamp.IsZero() {
		return nil
	}
	account := &v1alpha1.Account{}
	if err := r.Get(ctx, client.ObjectKey{Namespace: m.Namespace, Name: m.Spec.Account}, account); err != nil {
		return client.IgnoreNotFound(err)
	}
	keyed, ok := r.Drivers[account.Spec.Provider].(machine.Keyed)
	if !ok {
		return nil // it has keys of its own
	}
	ctx, cancel := context.WithTimeout(ctx, rekeyTimeout)
	defer cancel()
	err := keyed.Rekey(ctx, machine.Key{Namespace: v1alpha1.InfrastructureNamespace(c), Cluster: c.Name, Name: m.Name})
	if errors.Is(err, machine.ErrNotFound) {
		return nil
	}
	return err
}
