package authority

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/kubernetes"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/iam/store"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

const (
	// clientGroup is in every certificate that may ask about tokens.
	clientGroup        = "plasmacloud:apiservers"
	clientPrefix       = "apiserver:"
	organizationPrefix = "org:"
	projectPrefix      = "project:"

	// ClientSecretPrefix is followed by a client's name in the name of its Secret.
	ClientSecretPrefix = "iam-client-"

	// ManagementClient is the name of the management cluster's API server.
	ManagementClient = "management"
)

// Client is an API server that asks about tokens.
type Client struct {
	// Name of the API server, and the audience of tokens made for it alone. There is one of a name in an installation:
	// <project>.<cluster> for a tenant's.
	Name string
	// Organization and Project are whose it is; everybody's where they are empty.
	Organization, Project string
}

// Validate tells what is wrong with a client.
func (c Client) Validate() error {
	if problems := validation.IsDNS1123Subdomain(c.Name); len(problems) > 0 {
		return fmt.Errorf("name of API server %q: %s", c.Name, problems[0])
	}
	if c.Project != "" && c.Organization == "" {
		return fmt.Errorf("API server %s: its project has no organization", c.Name)
	}
	return nil
}

// Leaf is the client's certificate.
func (c Client) Leaf() pki.Leaf {
	organizations := []string{clientGroup}
	if c.Organization != "" {
		organizations = append(organizations, organizationPrefix+c.Organization)
	}
	if c.Project != "" {
		organizations = append(organizations, projectPrefix+c.Project)
	}
	return pki.Leaf{Name: "apiserver-client", CA: pki.ClusterCA, CommonName: clientPrefix + c.Name, Organizations: organizations, Client: true}
}

// ClientOf reads from a certificate which API server it is, if it is one.
func ClientOf(cert *x509.Certificate) (Client, bool) {
	name, named := strings.CutPrefix(cert.Subject.CommonName, clientPrefix)
	c := Client{Name: name}
	member := false
	for _, organization := range cert.Subject.Organization {
		if organization == clientGroup {
			member = true
		} else if name, ok := strings.CutPrefix(organization, organizationPrefix); ok {
			c.Organization = name
		} else if name, ok := strings.CutPrefix(organization, projectPrefix); ok {
			c.Project = name
		}
	}
	return c, named && member && c.Validate() == nil
}

// Clients keeps the certificates of API servers in Secrets, to be mounted or copied to where they run.
type Clients struct {
	authority *Authority
	client    kubernetes.Interface
	namespace string
	clock     clock.Clock
	logger    *slog.Logger
}

// NewClients keeps them in the platform's own namespace.
func NewClients(a *Authority, client kubernetes.Interface, namespace string, clk clock.Clock, logger *slog.Logger) *Clients {
	return &Clients{authority: a, client: client, namespace: namespace, clock: clk, logger: logger}
}

// Ensure returns the Secret with a good certificate (tls.crt, tls.key) for the client, and the authority's (ca.crt). It
// may be called at any time, by any replica.
func (c *Clients) Ensure(ctx context.Context, client Client) (*corev1.Secret, error) {
	if err := client.Validate(); err != nil {
		return nil, err
	}
	ca, err := c.authority.CA()
	if err != nil {
		return nil, err
	}
	var kept *corev1.Secret
	err = c.record(client.Name).Update(ctx, func(secret *corev1.Secret) (bool, error) {
		have := Pair{Cert: secret.Data[corev1.TLSCertKey], Key: secret.Data[corev1.TLSPrivateKeyKey]}
		if cert, err := parse(have.Cert); err == nil {
			if other, ok := ClientOf(cert); ok && other != client {
				return false, fmt.Errorf("the name %s is taken by an API server of another project", client.Name)
			}
			if c.authority.Revoked(cert) {
				have = Pair{}
			}
		}
		pair, reason, err := c.authority.Issue(client.Leaf(), have)
		if err != nil {
			return false, err
		}
		kept = secret
		if reason == "" && string(secret.Data[caKey]) == string(ca) {
			return false, nil
		}
		secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey], secret.Data[caKey] = pair.Cert, pair.Key, ca
		c.logger.InfoContext(ctx, "certificate of API server issued", "name", client.Name, "reason", reason)
		return true, nil
	})
	return kept, err
}

func (c *Clients) record(name string) *store.Record {
	return store.NewRecord(c.client, c.namespace, ClientSecretPrefix+name, store.KindClient)
}

// Revoke refuses all certificates that the client ever had, and removes the last. A client that is unknown has none.
func (c *Clients) Revoke(ctx context.Context, name string) error {
	secrets := c.client.CoreV1().Secrets(c.namespace)
	secret, err := secrets.Get(ctx, ClientSecretPrefix+name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("revoke certificate of API server %s: %w", name, err)
	}
	cert, err := parse(secret.Data[corev1.TLSCertKey])
	if err != nil {
		return fmt.Errorf("revoke certificate of API server %s: %w", name, err)
	}
	if err := c.authority.Revoke(ctx, cert); err != nil {
		return err
	}
	c.logger.InfoContext(ctx, "certificates of API server revoked", "name", name)
	if err := secrets.Delete(ctx, secret.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove certificate of API server %s: %w", name, err)
	}
	return nil
}

// Run renews all clients' certificates in time, until ctx ends.
func (c *Clients) Run(ctx context.Context) {
	timer := c.clock.NewTimer(retryInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
		}
		wait := pki.RenewInterval
		if err := c.renew(ctx); err != nil {
			c.logger.ErrorContext(ctx, "renew certificates of API servers", "error", err)
			wait = retryInterval
		}
		timer.Reset(wait)
	}
}

func (c *Clients) renew(ctx context.Context) error {
	selector := metav1.ListOptions{LabelSelector: store.LabelKind + "=" + store.KindClient}
	list, err := c.client.CoreV1().Secrets(c.namespace).List(ctx, selector)
	if err != nil {
		return err
	}
	var failed []error
	for _, secret := range list.Items {
		cert, err := parse(secret.Data[corev1.TLSCertKey])
		if err != nil {
			failed = append(failed, fmt.Errorf("secret %s: %w", secret.Name, err))
			continue
		}
		client, ok := ClientOf(cert)
		if !ok || ClientSecretPrefix+client.Name != secret.Name {
			failed = append(failed, fmt.Errorf("secret %s: it is not of the API server %q", secret.Name, cert.Subject.CommonName))
			continue
		}
		if _, err := c.Ensure(ctx, client); err != nil {
			failed = append(failed, err)
		}
	}
	return errors.Join(failed...)
}

func parse(certPEM []byte) (*x509.Certificate, error) {
	certs, err := certutil.ParseCertsPEM(certPEM)
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	return certs[0], nil
}
