package hosted

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/apply"
)

const (
	// manager is the name under which fields are set.
	manager = "plasmacloud-hosted"

	labelManagedBy          = "app.kubernetes.io/managed-by"
	labelPodSecurityEnforce = "pod-security.kubernetes.io/enforce"
)

// Names in a cluster's namespace.
const (
	controlPlaneName     = "control-plane" // Deployment, Service, Secret, PodDisruptionBudget
	pkiSecretName        = "pki"
	kubeconfigSecretName = "kubeconfig"
)

// labels of everything that a cluster has on the management cluster.
func (b *build) labels() map[string]string {
	return map[string]string{
		v1alpha1.LabelCluster: b.cluster.Name,
		v1alpha1.LabelProject: b.project(),
		labelManagedBy:        "plasmacloud",
	}
}

func (b *build) componentLabels(component string) map[string]string {
	labels := b.labels()
	labels[v1alpha1.LabelComponent] = component
	return labels
}

// project is the name of the project that the cluster is in.
func (b *build) project() string {
	return b.cluster.Namespace[min(len(v1alpha1.NamespacePrefix), len(b.cluster.Namespace)):]
}

func (b *build) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: b.namespace, Labels: b.labels()}
}

// owned is the description of an object beside the cluster itself, which goes with it.
func (b *build) owned(name string) metav1.ObjectMeta {
	yes := true
	return metav1.ObjectMeta{
		Name: name, Namespace: b.cluster.Namespace, Labels: b.labels(),
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "Cluster", Name: b.cluster.Name, UID: b.cluster.UID, Controller: &yes,
		}},
	}
}

// apply brings objects of the management cluster to what is given.
func (b *build) apply(ctx context.Context, objects ...runtime.Object) error {
	for _, object := range objects {
		content, err := apply.Typed(object)
		if err != nil {
			return err
		}
		if err := apply.Objects(ctx, b.Dynamic, manager, content); err != nil {
			return err
		}
	}
	return nil
}

// permitted does what needs permissions that were given a moment ago: API servers take a moment to hear of them.
func permitted(ctx context.Context, do func(ctx context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 25*time.Millisecond, 5*time.Second, true, func(ctx context.Context) (bool, error) {
		last = do(ctx)
		if apierrors.IsForbidden(last) {
			return false, nil
		}
		return true, last
	})
	if last != nil {
		return last
	}
	return err
}

// raced tells whether somebody else was faster.
func raced(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// secret returns a Secret of the cluster's namespace; one that is not there is empty.
func (b *build) secret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret, err := b.Client.CoreV1().Secrets(b.namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return &corev1.Secret{ObjectMeta: b.meta(name)}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read secret %s: %w", name, err)
	}
	return secret, nil
}

// keep changes a Secret of the cluster's namespace, which it makes if there is none, and returns what it holds then. It
// writes only what has changed.
func (b *build) keep(ctx context.Context, name string, change func(data map[string][]byte) error) (map[string][]byte, error) {
	secrets := b.Client.CoreV1().Secrets(b.namespace)
	var kept map[string][]byte
	err := retry.OnError(retry.DefaultRetry, raced, func() error {
		secret, err := b.secret(ctx, name)
		if err != nil {
			return err
		}
		data := maps.Clone(secret.Data)
		if data == nil {
			data = map[string][]byte{}
		}
		if err := change(data); err != nil {
			return err
		}
		kept = data
		if secret.ResourceVersion != "" && equality.Semantic.DeepEqual(secret.Data, data) {
			return nil
		}
		secret.Data = data
		if secret.ResourceVersion == "" {
			_, err = secrets.Create(ctx, secret, metav1.CreateOptions{FieldManager: manager})
		} else {
			_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{FieldManager: manager})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("keep secret %s: %w", name, err)
	}
	return kept, nil
}
