// Package secret keeps states in Secrets of the management API: a record is one Secret, whose resource version decides
// who may replace it; a content is one, or several where it is larger than an object may be. The API encrypts Secrets at
// rest once more.
package secret

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"

	"plasmacloud.io/plasmacloud/internal/terraform/state"
)

const (
	// Type of the Secrets.
	Type corev1.SecretType = "plasmacloud.io/terraform-state"
	// LabelStack holds a piece of the stack's name: labels are shorter than names may be.
	LabelStack = "plasmacloud.io/stack"
	// AnnotationStack holds all of it.
	AnnotationStack = "plasmacloud.io/stack"

	annotationParts = "plasmacloud.io/parts"
	dataKey         = "data"
	partSize        = 900 << 10 // an object may have a megabyte and a half
)

// Store is a state.Store.
type Store struct {
	secrets corev1client.SecretInterface
}

var _ state.Store = (*Store)(nil)

// New keeps states in the namespace of the client.
func New(secrets corev1client.SecretInterface) *Store { return &Store{secrets: secrets} }

// id is a piece of the stack's name that fits into names and labels.
func id(stack string) string {
	sum := sha256.Sum256([]byte(stack))
	return hex.EncodeToString(sum[:10])
}

func recordName(stack string) string { return "tfstate-" + id(stack) }

func partName(stack, content string, part int) string {
	return fmt.Sprintf("tfstate-%s-%s-%d", id(stack), content, part)
}

func object(name, stack string, data []byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{LabelStack: id(stack)}, Annotations: map[string]string{AnnotationStack: stack}},
		Type:       Type, Data: map[string][]byte{dataKey: data},
	}
}

// Load implements state.Store.
func (s *Store) Load(ctx context.Context, stack string) (*state.Record, error) {
	secret, err := s.secrets.Get(ctx, recordName(stack), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, state.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("load record of %s: %w", stack, err)
	}
	record := &state.Record{Revision: secret.ResourceVersion}
	if err := json.Unmarshal(secret.Data[dataKey], record); err != nil {
		return nil, fmt.Errorf("load record of %s: %w", stack, err)
	}
	return record, nil
}

// Save implements state.Store.
func (s *Store) Save(ctx context.Context, stack string, record *state.Record) error {
	data, err := json.Marshal(record)
	if err != nil {
		return err
	}
	secret := object(recordName(stack), stack, data)
	if record.Revision == "" {
		secret, err = s.secrets.Create(ctx, secret, metav1.CreateOptions{})
	} else {
		secret.ResourceVersion = record.Revision
		secret, err = s.secrets.Update(ctx, secret, metav1.UpdateOptions{})
	}
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return state.ErrConflict
	case err != nil:
		return fmt.Errorf("save record of %s: %w", stack, err)
	}
	record.Revision = secret.ResourceVersion
	return nil
}

// Remove implements state.Store.
func (s *Store) Remove(ctx context.Context, stack string) error {
	return s.delete(ctx, recordName(stack))
}

func (s *Store) delete(ctx context.Context, name string) error {
	if err := s.secrets.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove %s: %w", name, err)
	}
	return nil
}

// ReadContent implements state.Store.
func (s *Store) ReadContent(ctx context.Context, stack, name string) ([]byte, error) {
	var content []byte
	for part, parts := 0, 1; part < parts; part++ {
		secret, err := s.secrets.Get(ctx, partName(stack, name, part), metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil, state.ErrNotFound
		}
		if err != nil {
			return nil, fmt.Errorf("read content of %s: %w", stack, err)
		}
		if parts, err = strconv.Atoi(secret.Annotations[annotationParts]); err != nil {
			return nil, fmt.Errorf("read content of %s: %w", stack, err)
		}
		content = append(content, secret.Data[dataKey]...)
	}
	return content, nil
}

// WriteContent implements state.Store. The first part comes last: a content is there once all of it is.
func (s *Store) WriteContent(ctx context.Context, stack, name string, data []byte) error {
	parts := max(1, (len(data)+partSize-1)/partSize)
	for part := parts - 1; part >= 0; part-- {
		secret := object(partName(stack, name, part), stack, data[part*partSize:min(len(data), (part+1)*partSize)])
		secret.Annotations[annotationParts] = strconv.Itoa(parts)
		if _, err := s.secrets.Create(ctx, secret, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("write content of %s: %w", stack, err)
		}
	}
	return nil
}

// RemoveContent implements state.Store.
func (s *Store) RemoveContent(ctx context.Context, stack, name string) error {
	secret, err := s.secrets.Get(ctx, partName(stack, name, 0), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("remove content of %s: %w", stack, err)
	}
	parts, err := strconv.Atoi(secret.Annotations[annotationParts])
	if err != nil {
		return fmt.Errorf("remove content of %s: %w", stack, err)
	}
	for part := parts - 1; part >= 0; part-- { // the first one, which says how many there are, last
		if err := s.delete(ctx, partName(stack, name, part)); err != nil {
			return err
		}
	}
	return nil
}
