// Package controlplane knows how the programs of a control plane are started: a file a program, each turning the
// node's configuration into a component. It starts nothing by itself and talks to no API.
package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/config"
	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

// Plane is a server's control plane: what its programs have in common.
type Plane struct {
	Config *config.Server
	Dir    datadir.Dir
	Log    *slog.Logger
	PKI    *pki.Store

	Kube string // the multi-call binary
	Etcd string
	Kine string
}

func (p *Plane) process(spec component.Spec) *component.Process {
	spec.LogDir, spec.RunDir = p.Dir.Logs(), p.Dir.Run()
	return component.NewProcess(p.Log, spec)
}

// clients are the control plane's own, each with a kubeconfig named after its certificate.
var clients = []string{pki.ControllerManager, pki.Scheduler, pki.Supervisor, pki.KubeletClient, pki.NodeProxy}

// Kubeconfig is the credentials file of one of the server's own clients, by the name of its certificate.
func (p *Plane) Kubeconfig(certificate string) string {
	return p.Dir.Path("server", "cred", certificate+".kubeconfig")
}

// WriteKubeconfigs writes the credentials of the server's own clients, and the administrator's.
func (p *Plane) WriteKubeconfigs() error {
	if err := os.MkdirAll(p.Dir.Credentials(), 0o700); err != nil {
		return fmt.Errorf("make directory of credentials: %w", err)
	}
	for _, client := range clients {
		if _, err := pki.WriteKubeconfig(p.Kubeconfig(client), p.PKI.Kubeconfig(client, p.LocalURL())); err != nil {
			return err
		}
	}
	admin, err := p.PKI.EmbeddedKubeconfig(pki.Admin, p.LocalURL())
	if err != nil {
		return err
	}
	_, err = pki.WriteKubeconfig(p.Dir.AdminKubeconfig(), admin)
	return err
}

// LocalURL is the API server of this very node.
func (p *Plane) LocalURL() string {
	host := "127.0.0.1"
	if !p.Config.BindAddress.IsUnspecified() {
		host = p.Config.BindAddress.String()
	}
	return "https://" + net.JoinHostPort(host, strconv.Itoa(p.Config.HTTPSListenPort))
}

// healthy returns a probe that wants a 200 from a component's own health endpoint on this node.
func healthy(url string, tlsConfig *tls.Config) func(context.Context) error {
	client := &http.Client{
		Timeout:   3 * time.Second,
		Transport: &http.Transport{TLSClientConfig: tlsConfig, DisableKeepAlives: true},
	}
	return func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		response, err := client.Do(request)
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("%s answers %s", url, response.Status)
		}
		return nil
	}
}

// healthyTo asks for the health of one of the control plane's servers, over verified TLS, with the named client
// certificate.
func (p *Plane) healthyTo(ctx context.Context, url string, authority pki.Authority, client string) error {
	ca, err := os.ReadFile(p.PKI.CAPath(authority))
	if err != nil {
		return err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return fmt.Errorf("no certificate in %s", p.PKI.CAPath(authority))
	}
	certificate, err := tls.LoadX509KeyPair(p.PKI.CertPath(client), p.PKI.KeyPath(client))
	if err != nil {
		return fmt.Errorf("load own certificate: %w", err)
	}
	return healthy(url, &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: []tls.Certificate{certificate}})(ctx)
}
