package datastore

import (
	"bytes"
	"context"
	"fmt"
	"net"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

const (
	// authoritySecret holds the keys of both authorities. Nothing mounts it.
	authoritySecret = "datastore-authority"
	// tlsSecret holds what members need to serve.
	tlsSecret = "datastore-tls"

	clientAuthority = "client-ca"
	peerAuthority   = "peer-ca"

	caFile     = "ca.crt"
	peerCAFile = "peer-ca.crt"
	serverFile = "server"
	peerFile   = "peer"
	certSuffix = ".crt"
	keySuffix  = ".key"
)

type authorities struct{ client, peer *authority }

func (s *server) labels() map[string]string {
	labels := map[string]string{v1alpha1.LabelComponent: v1alpha1.ComponentDatastore}
	for key, value := range s.config.Labels {
		labels[key] = value
	}
	return labels
}

// authorities reads them. Where there are none, the error is the API's NotFound.
func (s *server) authorities(ctx context.Context) (*authorities, error) {
	secret, err := s.config.API.CoreV1().Secrets(s.config.Namespace).Get(ctx, authoritySecret, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read the datastore's authorities: %w", err)
	}
	return parseAuthorities(secret)
}

func parseAuthorities(secret *corev1.Secret) (*authorities, error) {
	client, err := parseAuthority(pairOf(secret, clientAuthority))
	if err != nil {
		return nil, fmt.Errorf("secret %s: %w", secret.Name, err)
	}
	peer, err := parseAuthority(pairOf(secret, peerAuthority))
	if err != nil {
		return nil, fmt.Errorf("secret %s: %w", secret.Name, err)
	}
	return &authorities{client: client, peer: peer}, nil
}

func pairOf(secret *corev1.Secret, file string) Pair {
	return Pair{Cert: secret.Data[file+certSuffix], Key: secret.Data[file+keySuffix]}
}

// ensureAuthorities makes the authorities where there are none. Those that are lost are not made anew: all tenants'
// certificates would be worthless.
func (s *server) ensureAuthorities(ctx context.Context) (*authorities, error) {
	have, err := s.authorities(ctx)
	if !apierrors.IsNotFound(err) {
		return have, err
	}
	secrets := s.config.API.CoreV1().Secrets(s.config.Namespace)
	if _, err := secrets.Get(ctx, tlsSecret, metav1.GetOptions{}); err == nil {
		return nil, fmt.Errorf("secret %s is lost, with which all certificates of the datastore were made: restore it, or delete secret %s to begin anew", authoritySecret, tlsSecret)
	} else if !apierrors.IsNotFound(err) {
		return nil, err
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: authoritySecret, Labels: s.labels()}, Data: map[string][]byte{}}
	for _, authority := range []string{clientAuthority, peerAuthority} {
		pair, err := newAuthority("plasmacloud-datastore-"+authority, s.config.Clock.Now())
		if err != nil {
			return nil, fmt.Errorf("make the datastore's authorities: %w", err)
		}
		secret.Data[authority+certSuffix], secret.Data[authority+keySuffix] = pair.Cert, pair.Key
	}
	made, err := secrets.Create(ctx, secret, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return s.authorities(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("make the datastore's authorities: %w", err)
	}
	return parseAuthorities(made)
}

// ensureCertificates keeps the members' certificates from expiring. etcd reads them anew for every connection.
func (s *server) ensureCertificates(ctx context.Context, a *authorities) error {
	secrets := s.config.API.CoreV1().Secrets(s.config.Namespace)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		secret, err := secrets.Get(ctx, tlsSecret, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("read the datastore's certificates: %w", err)
		}
		missing := err != nil
		if missing {
			secret = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: tlsSecret, Labels: s.labels()}}
		}
		changed, err := s.renew(secret, a)
		if err != nil || !changed {
			return err
		}
		if missing {
			_, err = secrets.Create(ctx, secret, metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return apierrors.NewConflict(corev1.Resource("secrets"), tlsSecret, err)
			}
		} else {
			_, err = secrets.Update(ctx, secret, metav1.UpdateOptions{})
		}
		return err
	})
}

// renew brings the Secret up to date.
func (s *server) renew(secret *corev1.Secret, a *authorities) (changed bool, err error) {
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	now := s.config.Clock.Now()
	for _, each := range []struct {
		file, ca string
		signer   *authority
		leaf     leaf
	}{{serverFile, caFile, a.client, s.serverLeaf()}, {peerFile, peerCAFile, a.peer, s.peerLeaf()}} {
		pair, renewed, err := each.signer.keep(pairOf(secret, each.file), each.leaf, now)
		if err != nil {
			return false, err
		}
		changed = changed || renewed || !bytes.Equal(secret.Data[each.ca], each.signer.pem)
		secret.Data[each.ca] = each.signer.pem
		secret.Data[each.file+certSuffix], secret.Data[each.file+keySuffix] = pair.Cert, pair.Key
	}
	return changed, nil
}

// serverLeaf is all members': a client finds any of them under the Service's name. It is no client's certificate.
func (s *server) serverLeaf() leaf {
	namespace := s.config.Namespace
	return leaf{
		name: "datastore", server: true,
		dns: []string{name + "." + namespace + ".svc", name + "." + namespace, "*." + members + "." + namespace + ".svc", "localhost"},
		ips: []net.IP{net.IPv4(127, 0, 0, 1).To4(), net.IPv6loopback},
	}
}

func (s *server) peerLeaf() leaf {
	return leaf{name: "datastore-member", client: true, server: true, dns: []string{"*." + members + "." + s.config.Namespace + ".svc"}}
}
