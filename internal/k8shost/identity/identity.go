// Package identity gets an agent the certificate that its own clients of the API share: kube-proxy, the pod network
// and the API load balancer. The kubelet gets its own by TLS bootstrap; this is the same thing for the rest of the
// node. Renewal included.
package identity

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/certificate"

	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

const pairName = "node-proxy"

// Proxy is the identity of a node's proxies.
type Proxy struct {
	NodeName string
	Server   string // the API's URL
	CAFile   string
	// Dir keeps the certificate, Kubeconfig is written to use it.
	Dir        string
	Kubeconfig string
	// Bootstrap is the kubeconfig of a join token; it asks for the first certificate.
	Bootstrap string

	manager certificate.Manager
}

// Obtain returns once the node has a certificate: at once where it has one that is valid, otherwise when the cluster
// has signed one.
func (p *Proxy) Obtain(ctx context.Context) error {
	store, err := certificate.NewFileStore(pairName, p.Dir, p.Dir, "", "")
	if err != nil {
		return fmt.Errorf("open the node's certificates: %w", err)
	}
	p.manager, err = certificate.NewManager(&certificate.Config{
		ClientsetFn:      p.client,
		SignerName:       certificatesv1.KubeAPIServerClientSignerName,
		GetTemplate:      p.template,
		Usages:           []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		CertificateStore: store,
	})
	if err != nil {
		return fmt.Errorf("get the node's certificate: %w", err)
	}
	if err := p.writeKubeconfig(); err != nil {
		return err
	}
	p.manager.Start()
	return p.await(ctx)
}

func (p *Proxy) await(ctx context.Context) error {
	// The manager has no channel to wait on; what it does takes about a second.
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for p.manager.Current() == nil {
		select {
		case <-ctx.Done():
			return fmt.Errorf("get the node's certificate from %s: %w: does a server approve it? `kubectl get csr` tells", p.Server, ctx.Err())
		case <-ticker.C:
		}
	}
	return nil
}

// Stop ends the renewal.
func (p *Proxy) Stop() {
	if p.manager != nil {
		p.manager.Stop()
	}
}

// Client returns a client of the API with this identity.
func (p *Proxy) Client() (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

func (p *Proxy) template() *x509.CertificateRequest {
	return &x509.CertificateRequest{Subject: pkix.Name{
		CommonName: pki.NodeProxyUserPrefix + p.NodeName, Organization: []string{pki.NodeProxyGroup},
	}}
}

// client asks for certificates: with the join token for the first, with the current one for its successor.
func (p *Proxy) client(current *tls.Certificate) (kubernetes.Interface, error) {
	if current == nil {
		if p.Bootstrap == "" {
			return nil, errors.New("this node has no valid certificate and no token to get one: give it --token")
		}
		config, err := clientcmd.BuildConfigFromFlags("", p.Bootstrap)
		if err != nil {
			return nil, err
		}
		return kubernetes.NewForConfig(config)
	}
	return kubernetes.NewForConfig(&rest.Config{
		Host: p.Server,
		TLSClientConfig: rest.TLSClientConfig{
			CAFile: p.CAFile, CertFile: p.certificateFile(), KeyFile: p.certificateFile(),
		},
	})
}

// certificateFile holds certificate and key; the store keeps it pointing at the newest.
func (p *Proxy) certificateFile() string { return p.Dir + "/" + pairName + "-current.pem" }

func (p *Proxy) writeKubeconfig() error {
	config := clientcmdapi.NewConfig()
	config.Clusters[pki.KubeconfigName] = &clientcmdapi.Cluster{Server: p.Server, CertificateAuthority: p.CAFile}
	config.AuthInfos[pairName] = &clientcmdapi.AuthInfo{ClientCertificate: p.certificateFile(), ClientKey: p.certificateFile()}
	config.Contexts[pki.KubeconfigName] = &clientcmdapi.Context{Cluster: pki.KubeconfigName, AuthInfo: pairName}
	config.CurrentContext = pki.KubeconfigName
	_, err := pki.WriteKubeconfig(p.Kubeconfig, config)
	return err
}
