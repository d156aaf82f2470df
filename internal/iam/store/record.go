// Package store is the identity service's hold on the Kubernetes API: the Secrets that its replicas share (Record), and
// the few things it writes to users and access tokens (Writer). Reading them is the directory's business; what the
// content of a Secret means is for the package that owns it.
package store

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/retry"
)

// LabelKind marks the Secrets of the identity service, and says what is in them.
const LabelKind = "plasmacloud.io/iam"

// What is in a Secret, by LabelKind.
const (
	KindSigningKeys = "signing-keys"
	KindAuthority   = "authority"
	KindClient      = "client"
	KindPassword    = "password"
)

// Record is a Secret that several replicas read and change.
type Record struct {
	client          kubernetes.Interface
	namespace, name string
	kind            string
}

// NewRecord names the Secret; it need not exist.
func NewRecord(client kubernetes.Interface, namespace, name, kind string) *Record {
	return &Record{client: client, namespace: namespace, name: name, kind: kind}
}

// Watch calls changed with the Secret as it is and whenever it changes, and with nil when it is gone, until ctx ends.
// While the API server is away nothing is called: what was last heard holds.
func (r *Record) Watch(ctx context.Context, changed func(*corev1.Secret)) error {
	informer := coreinformers.NewFilteredSecretInformer(r.client, r.namespace, 0, nil, func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, r.name).String()
	})
	handle := func(object any) {
		if secret, ok := object.(*corev1.Secret); ok && secret.Name == r.name {
			changed(secret)
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    handle,
		UpdateFunc: func(_, object any) { handle(object) },
		DeleteFunc: func(object any) {
			if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = last.Obj
			}
			if secret, ok := object.(*corev1.Secret); ok && secret.Name == r.name {
				changed(nil)
			}
		},
	})
	if err != nil {
		return fmt.Errorf("watch secret %s/%s: %w", r.namespace, r.name, err)
	}
	informer.RunWithContext(ctx)
	return nil
}

// Update reads the Secret, lets change work on it, and writes it if that returns true. Where another replica was
// faster, it starts over with what that one wrote: change may be called several times. A Secret that does not exist is
// handed over empty, and made.
func (r *Record) Update(ctx context.Context, change func(*corev1.Secret) (bool, error)) error {
	secrets := r.client.CoreV1().Secrets(r.namespace)
	faster := func(err error) bool { return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) }
	err := retry.OnError(retry.DefaultBackoff, faster, func() error {
		secret, err := secrets.Get(ctx, r.name, metav1.GetOptions{})
		missing := apierrors.IsNotFound(err)
		if missing {
			secret, err = r.empty(), nil
		}
		if err != nil {
			return err
		}
		if secret.Data == nil {
			secret.Data = map[string][]byte{}
		}
		write, err := change(secret)
		if err != nil || !write {
			return err
		}
		if missing {
			_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
		} else {
			_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("update secret %s/%s: %w", r.namespace, r.name, err)
	}
	return nil
}

func (r *Record) empty() *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: r.name, Labels: map[string]string{LabelKind: r.kind}},
		Type:       corev1.SecretTypeOpaque,
	}
}
