package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// maxRevoked is how many revoked sessions a User's status lists, as the API says.
const maxRevoked = 100

// NewIdentityClient returns a client of plasmacloud.io.
func NewIdentityClient(config *rest.Config) (rest.Interface, error) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("make client of identities: %w", err)
	}
	config = rest.CopyConfig(config)
	config.GroupVersion = &v1alpha1.GroupVersion
	config.APIPath = "/apis"
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType = runtime.ContentTypeJSON // custom resources speak nothing else
	client, err := rest.RESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("make client of identities: %w", err)
	}
	return client, nil
}

// Writer writes what the identity service has to say about users and access tokens.
type Writer struct {
	identities rest.Interface
	client     kubernetes.Interface
	namespace  string
}

// NewWriter returns a Writer that keeps passwords in the platform's own namespace.
func NewWriter(identities rest.Interface, client kubernetes.Interface, namespace string) *Writer {
	return &Writer{identities: identities, client: client, namespace: namespace}
}

// RecordLogin notes when the user logged in last.
func (w *Writer) RecordLogin(ctx context.Context, user string, at time.Time) error {
	return w.patchStatus(ctx, "users", user, map[string]any{"lastLogin": metav1.NewTime(at)})
}

// RecordUse notes when the access token was used last.
func (w *Writer) RecordUse(ctx context.Context, token string, at time.Time) error {
	return w.patchStatus(ctx, "accesstokens", token, map[string]any{"lastUsed": metav1.NewTime(at)})
}

// EndTokens refuses every token of the user that was issued before.
func (w *Writer) EndTokens(ctx context.Context, user string, before time.Time) error {
	return w.patchStatus(ctx, "users", user, map[string]any{"tokensValidAfter": metav1.NewTime(before)})
}

func (w *Writer) patchStatus(ctx context.Context, resource, name string, status map[string]any) error {
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return fmt.Errorf("write status of %s %s: %w", resource, name, err)
	}
	err = w.identities.Patch(types.MergePatchType).Resource(resource).Name(name).SubResource("status").Body(patch).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("write status of %s %s: %w", resource, name, err)
	}
	return nil
}

// RevokeSession refuses the tokens of a session that would have ended at until. Where there are too many such sessions
// to list, all tokens of the user end.
func (w *Writer) RevokeSession(ctx context.Context, name, session string, now, until time.Time) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		user := &v1alpha1.User{}
		if err := w.identities.Get().Resource("users").Name(name).Do(ctx).Into(user); err != nil {
			return err
		}
		status := &user.Status
		status.RevokedSessions = slices.DeleteFunc(status.RevokedSessions, func(r v1alpha1.RevokedSession) bool {
			return r.ID == session || r.Until.Time.Before(now)
		})
		if len(status.RevokedSessions) >= maxRevoked {
			status.RevokedSessions = nil
			after := metav1.NewTime(Ceil(now))
			status.TokensValidAfter = &after
		} else {
			status.RevokedSessions = append(status.RevokedSessions, v1alpha1.RevokedSession{ID: session, Until: metav1.NewTime(Ceil(until))})
		}
		return w.identities.Put().Resource("users").Name(name).SubResource("status").Body(user).Do(ctx).Error()
	})
	if err != nil {
		return fmt.Errorf("revoke session of %s: %w", name, err)
	}
	return nil
}

// Ceil is the next full second: times in the API and in tokens have no parts of one.
func Ceil(t time.Time) time.Time { return t.Add(time.Second - time.Nanosecond).Truncate(time.Second) }

// SavePassword keeps the hash of a user's password under a key of a Secret, which goes when the user does.
func (w *Writer) SavePassword(ctx context.Context, name, secretName, key, hash string) error {
	user := &v1alpha1.User{}
	if err := w.identities.Get().Resource("users").Name(name).Do(ctx).Into(user); err != nil {
		return fmt.Errorf("save password of %s: %w", name, err)
	}
	record := NewRecord(w.client, w.namespace, secretName, KindPassword)
	return record.Update(ctx, func(secret *corev1.Secret) (bool, error) {
		if secret.Labels[LabelKind] != KindPassword {
			return false, fmt.Errorf("it is none of a password: label it %s=%s", LabelKind, KindPassword)
		}
		if owner := PasswordOwner(secret); owner != "" && owner != user.UID {
			return false, errors.New("it holds the password of another user")
		}
		secret.OwnerReferences = []metav1.OwnerReference{{
			APIVersion: v1alpha1.GroupVersion.String(), Kind: "User", Name: user.Name, UID: user.UID,
		}}
		secret.Data[key] = []byte(hash)
		return true, nil
	})
}

// PasswordOwner is the UID of the user whose password the Secret holds, or "".
func PasswordOwner(secret *corev1.Secret) types.UID {
	for _, owner := range secret.OwnerReferences {
		if owner.Kind == "User" && owner.APIVersion == v1alpha1.GroupVersion.String() {
			return owner.UID
		}
	}
	return ""
}

// CreateAccessToken makes an access token, and returns it as the API did.
func (w *Writer) CreateAccessToken(ctx context.Context, token *v1alpha1.AccessToken) (*v1alpha1.AccessToken, error) {
	made := &v1alpha1.AccessToken{}
	if err := w.identities.Post().Resource("accesstokens").Body(token).Do(ctx).Into(made); err != nil {
		return nil, fmt.Errorf("make access token: %w", err)
	}
	return made, nil
}

// RevokeAccessToken refuses an access token for good.
func (w *Writer) RevokeAccessToken(ctx context.Context, name string) error {
	patch := []byte(`{"spec":{"revoked":true}}`)
	if err := w.identities.Patch(types.MergePatchType).Resource("accesstokens").Name(name).Body(patch).Do(ctx).Error(); err != nil {
		return fmt.Errorf("revoke access token %s: %w", name, err)
	}
	return nil
}
