package machine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/k8shost/token"
)

const (
	// tokenLifetime is how long a token lets a machine join; it is renewed after half of it while the machine has not.
	tokenLifetime = time.Hour
	tokenKey      = "token"

	// kubeadmGroup is the group whose tokens let nodes join a cluster that kubeadm made.
	kubeadmGroup = "system:bootstrappers:kubeadm:default-node-token"
)

func tokenSecretName(machine string) string { return machine + "-token" }

// token returns the machine's own token, and makes it where there is none. It is kept until the machine has joined: the
// machine may be made before there is an API that knows the token.
func (r *Reconciler) token(ctx context.Context, s *scope, caHash string) (token.Token, error) {
	secrets := r.API.CoreV1().Secrets(s.key().Namespace)
	name := tokenSecretName(s.machine.Name)
	kept, err := secrets.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		made, problem := token.NewBootstrap(caHash)
		if problem != nil {
			return token.Token{}, problem
		}
		kept, err = secrets.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				v1alpha1.LabelCluster: s.cluster.Name, v1alpha1.LabelMachine: s.machine.Name,
			}},
			Data: map[string][]byte{tokenKey: []byte(made.Format())},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		return token.Token{}, fmt.Errorf("keep the machine's token: %w", err)
	}
	return token.Parse(string(kept.Data[tokenKey]))
}

// publish lets the machine's cluster accept its token.
func (r *Reconciler) publish(ctx context.Context, s *scope) error {
	join, err := r.join(ctx, s)
	if wait := (waiting{}); s.overSSH() && errors.As(err, &wait) {
		return nil // it does not know how to join, either
	}
	if err != nil {
		return err
	}
	own, err := r.token(ctx, s, join.CAHash)
	if err != nil {
		return err
	}
	wanted, err := r.published(s, own)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, tenantTimeout)
	defer cancel()
	secrets := s.connection.Client().CoreV1().Secrets(metav1.NamespaceSystem)
	have, err := secrets.Get(ctx, wanted.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		_, err = secrets.Create(ctx, wanted, metav1.CreateOptions{})
	case err == nil && r.expiresSoon(have):
		have.Data = wanted.Data
		_, err = secrets.Update(ctx, have, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("publish the machine's token: %w", err)
	}
	return nil
}

// published is the machine's token as its cluster knows it.
func (r *Reconciler) published(s *scope, own token.Token) (*corev1.Secret, error) {
	secret, err := token.BootstrapSecret(own, "machine "+s.machine.Name, r.Clock.Now().Add(tokenLifetime))
	if err == nil && s.cluster.Spec.Type == v1alpha1.ClusterKubeadm {
		secret.Data[bootstrapapi.BootstrapTokenExtraGroupsKey] = []byte(kubeadmGroup)
	}
	return secret, err
}

func (r *Reconciler) expiresSoon(secret *corev1.Secret) bool {
	expires, err := time.Parse(time.RFC3339, string(secret.Data[bootstrapapi.BootstrapTokenExpirationKey]))
	return err != nil || expires.Sub(r.Clock.Now()) < tokenLifetime/2
}

// withdraw ends the machine's token, in its cluster, where that answers, and here.
func (r *Reconciler) withdraw(ctx context.Context, s *scope) error {
	secrets := r.API.CoreV1().Secrets(s.key().Namespace)
	name := tokenSecretName(s.machine.Name)
	kept, err := secrets.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("end the machine's token: %w", err)
	}
	if s.connection != nil {
		tenantCtx, cancel := context.WithTimeout(ctx, tenantTimeout)
		defer cancel()
		text := strings.TrimSpace(string(kept.Data[tokenKey]))
		if err := token.Delete(tenantCtx, s.connection.Client(), text); err != nil && !errors.Is(err, token.ErrNotFound) && !errors.Is(err, token.ErrInvalid) {
			return fmt.Errorf("end the machine's token: %w", err)
		}
	}
	if err := secrets.Delete(ctx, name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("end the machine's token: %w", err)
	}
	return nil
}
