package base

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
	// LabelManagedBy is on everything that the platform makes.
	LabelManagedBy          = "app.kubernetes.io/managed-by"
	labelPodSecurityEnforce = "pod-security.kubernetes.io/enforce"
)

// Names in a cluster's namespace.
const (
	// ServiceName is the endpoint's Service.
	ServiceName = "control-plane"
	// KubeconfigSecret holds the administrators' kubeconfigs.
	KubeconfigSecret = "kubeconfig"
)

// Labels of everything that a cluster has on the management cluster.
func (b *Build) Labels() map[string]string {
	return map[string]string{
		v1alpha1.LabelCluster: b.Cluster.Name,
		v1alpha1.LabelProject: b.Project(),
		LabelManagedBy:        "plasmacloud",
	}
}

func (b *Build) ComponentLabels(component string) map[string]string {
	labels := b.Labels()
	labels[v1alpha1.LabelComponent] = component
	return labels
}

// Project is the name of the project that the cluster is in.
func (b *Build) Project() string {
	return b.Cluster.Namespace[min(len(v1alpha1.NamespacePrefix), len(b.Cluster.Namespace)):]
}

func (b *Build) Meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: b.Home, Labels: b.Labels()}
}

// Owned is the description of an object beside the cluster itself, which goes with it.
func (b *Build) Owned(name string) metav1.ObjectMeta {
	yes := true
	return metav1.ObjectMeta{
		Name: name, Namespace: b.Cluster.Namespace, Labels: b.Labels(),
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "Cluster", Name: b.Cluster.Name, UID: b.Cluster.UID, Controller: &yes,
		}},
	}
}

// Apply brings objects of the management cluster to what is given.
func (b *Build) Apply(ctx context.Context, objects ...runtime.Object) error {
	for _, object := range objects {
		content, err := apply.Typed(object)
		if err != nil {
			return err
		}
		if err := apply.Objects(ctx, b.Dynamic, b.Manager, content); err != nil {
			return err
		}
	}
	return nil
}

// Permitted does what needs permissions that were given a moment ago: API servers take a moment to hear of them.
func Permitted(ctx context.Context, do func(ctx context.Context) error) error {
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

// Raced tells whether somebody else was faster.
func Raced(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }

// Secret returns a Secret of the cluster's namespace; one that is not there is empty.
func (b *Build) Secret(ctx context.Context, name string) (*corev1.Secret, error) {
	secret, err := b.Client.CoreV1().Secrets(b.Home).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return &corev1.Secret{ObjectMeta: b.Meta(name)}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read secret %s: %w", name, err)
	}
	return secret, nil
}

// Keep changes a Secret of the cluster's namespace, which it makes if there is none, and returns what it holds then. It
// writes only what has changed.
func (b *Build) Keep(ctx context.Context, name string, change func(data map[string][]byte) error) (map[string][]byte, error) {
	secrets := b.Client.CoreV1().Secrets(b.Home)
	var kept map[string][]byte
	err := retry.OnError(retry.DefaultRetry, Raced, func() error {
		secret, err := b.Secret(ctx, name)
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
			_, err = secrets.Create(ctx, secret, metav1.CreateOptions{FieldManager: b.Manager})
		} else {
			_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{FieldManager: b.Manager})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("keep secret %s: %w", name, err)
	}
	return kept, nil
}

// KeepExactly makes a Secret hold the files and nothing else.
func (b *Build) KeepExactly(ctx context.Context, name string, files map[string][]byte) error {
	_, err := b.Keep(ctx, name, func(data map[string][]byte) error {
		clear(data)
		maps.Copy(data, files)
		return nil
	})
	return err
}
