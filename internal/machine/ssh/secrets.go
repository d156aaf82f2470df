package ssh

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// contentKey is where a Secret has a record's content.
const contentKey = "record"

// secrets keeps records as Secrets of one namespace: a machine's files are in them, and the API encrypts those at rest.
type secrets struct {
	client typed.SecretInterface
}

// NewRecords returns the records that are kept in a namespace. All drivers that may lease the same hosts share it.
func NewRecords(client kubernetes.Interface, namespace string) Records {
	return secrets{client: client.CoreV1().Secrets(namespace)}
}

func (s secrets) Get(ctx context.Context, name string) (Record, error) {
	secret, err := s.client.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return Record{}, told(ctx, err)
	}
	return recordOf(secret), nil
}

func (s secrets) List(ctx context.Context, kind Kind) ([]Record, error) {
	selector := labels.Set{v1alpha1.LabelComponent: string(kind)}.String()
	list, err := s.client.List(ctx, metav1.ListOptions{LabelSelector: selector})
	if err != nil {
		return nil, told(ctx, err)
	}
	records := make([]Record, 0, len(list.Items))
	for i := range list.Items {
		records = append(records, recordOf(&list.Items[i]))
	}
	return records, nil
}

func recordOf(secret *corev1.Secret) Record {
	return Record{
		Name: secret.Name, Version: secret.ResourceVersion, Kind: Kind(secret.Labels[v1alpha1.LabelComponent]),
		Cluster: secret.Labels[v1alpha1.LabelCluster], Content: secret.Data[contentKey],
	}
}

func (s secrets) Put(ctx context.Context, record Record) (string, error) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: record.Name, ResourceVersion: record.Version, Labels: map[string]string{v1alpha1.LabelComponent: string(record.Kind)}},
		Data:       map[string][]byte{contentKey: record.Content},
	}
	if record.Cluster != "" {
		secret.Labels[v1alpha1.LabelCluster] = record.Cluster
	}
	var err error
	if record.Version == "" {
		secret, err = s.client.Create(ctx, secret, metav1.CreateOptions{})
	} else {
		secret, err = s.client.Update(ctx, secret, metav1.UpdateOptions{})
	}
	if err != nil {
		return "", told(ctx, err)
	}
	return secret.ResourceVersion, nil
}

func (s secrets) Remove(ctx context.Context, record Record) error {
	err := s.client.Delete(ctx, record.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &record.Version}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return told(ctx, err)
}

// told says what an answer of the API means for records.
func told(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err() // a client's own error need not say so
	case apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return fmt.Errorf("%w: %w", ErrNoRecord, err)
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return fmt.Errorf("%w: %w", ErrStale, err)
	default:
		return err
	}
}
