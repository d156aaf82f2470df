package join

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/k8shost/token"
)

// The sealed bundle in the cluster.
const (
	serverBundleSecret = "k8shost-server-bootstrap"
	serverBundleKey    = "bundle"
	serverBundleRole   = "k8shost:server-bootstrap"
)

// VerifyToken asks the server whether it accepts the token that client, from
// NewClient, authenticates with.
func VerifyToken(ctx context.Context, client kubernetes.Interface) error {
	_, err := client.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("verify token: %w", explainAPI(err))
	}
	return nil
}

// explainAPI puts an API error into the terms of this package.
func explainAPI(err error) error {
	var status apierrors.APIStatus
	var verification *tls.CertificateVerificationError
	switch {
	case errors.As(err, &verification):
		return explainUntrusted(err, "API server", "")
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%w: it is wrong or has expired: make a new one with `k8shost token create` on a server, or use the one in <data-dir>/server/token", ErrTokenRefused)
	case errors.As(err, &status):
		return fmt.Errorf("%w: %w", ErrNotReady, err)
	default:
		return unreachable("API server", err)
	}
}

// FetchServerBundle reads the cluster's keys for a joining server; client is one
// of NewClient with the same token.
func FetchServerBundle(ctx context.Context, client kubernetes.Interface, tok token.Token) (*pki.Bundle, error) {
	if !tok.JoinsServers() {
		return nil, agentToken()
	}
	secret, err := client.CoreV1().Secrets(metav1.NamespaceSystem).Get(ctx, serverBundleSecret, metav1.GetOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return nil, fmt.Errorf("%w: the server does not let this token read the cluster's keys: %w", agentToken(), err)
	case apierrors.IsNotFound(err):
		return nil, fmt.Errorf("fetch the cluster's keys: %w: no server has published them", ErrNotReady)
	case err != nil:
		return nil, fmt.Errorf("fetch the cluster's keys: %w", explainAPI(err))
	}
	bundle, err := openBundle(secret, tok.Password())
	if err != nil {
		return nil, fmt.Errorf("fetch the cluster's keys: %w", err)
	}
	if hash, err := token.HashCA(bundle.ClusterCA()); err != nil || hash != tok.CAHash() {
		return nil, fmt.Errorf("fetch the cluster's keys: %w: it names CA %s, the keys are those of %s", ErrForeignToken, tok.CAHash(), hash)
	}
	return bundle, nil
}

func agentToken() error {
	return fmt.Errorf("%w: a server joins with the cluster's own token, <data-dir>/server/token on a server", ErrAgentToken)
}

func openBundle(secret *corev1.Secret, password string) (*pki.Bundle, error) {
	data, err := token.Open(password, secret.Data[serverBundleKey])
	if err != nil {
		return nil, err
	}
	return pki.UnmarshalBundle(data)
}

// PublishServerBundle offers the cluster's keys, sealed with the password, to
// servers that join.
func PublishServerBundle(ctx context.Context, client kubernetes.Interface, bundle *pki.Bundle, password string) error {
	data, err := bundle.Marshal()
	if err != nil {
		return fmt.Errorf("publish the cluster's keys: %w", err)
	}
	sealed, err := token.Seal(password, data)
	if err != nil {
		return fmt.Errorf("publish the cluster's keys: %w", err)
	}
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: serverBundleSecret},
		Data:       map[string][]byte{serverBundleKey: sealed},
	}
	err = apply(ctx, client.CoreV1().Secrets(want.Namespace), want, func(have *corev1.Secret) bool {
		if published, err := openBundle(have, password); err == nil && published.Equal(bundle) {
			return false
		}
		have.Data = want.Data
		return true
	})
	if err != nil {
		return fmt.Errorf("publish the cluster's keys: %w", err)
	}
	return applyRole(ctx, client, metav1.NamespaceSystem, serverBundleRole,
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{serverBundleSecret}, Verbs: []string{"get"}},
		rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: token.ServerGroup})
}
