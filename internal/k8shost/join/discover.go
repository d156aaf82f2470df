package join

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	certutil "k8s.io/client-go/util/cert"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"plasmacloud.io/plasmacloud/internal/k8shost/token"
)

const (
	clusterInfoPath = "/api/v1/namespaces/" + metav1.NamespacePublic + "/configmaps/" + bootstrapapi.ConfigMapClusterInfo

	// maxClusterInfo bounds what is read from a server that is not trusted yet;
	// the API allows no larger object.
	maxClusterInfo = 2 << 20
)

// Discover returns the CA certificate of the cluster that the token belongs to,
// in PEM, after the server at serverURL has proved to be part of that cluster.
// It sends no credential, and so gives nothing away to a server that is another.
func Discover(ctx context.Context, serverURL string, tok token.Token) ([]byte, error) {
	server, err := ParseServerURL(serverURL)
	if err != nil {
		return nil, err
	}
	if tok.CAHash() == "" {
		return nil, fmt.Errorf("%w: without it the server could be anyone: use the full token from <data-dir>/server/token on a server, or of `k8shost token create`", ErrNoHash)
	}
	info, err := fetchClusterInfo(ctx, server, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // what is read is believed only if it has the token's hash
	if err != nil {
		return nil, err
	}
	ca, err := info.authority(server, tok.CAHash())
	if err != nil {
		return nil, err
	}
	if err := checkTime(ca, "the cluster's CA certificate", server, info.serverTime); err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	if _, err := fetchClusterInfo(ctx, server, &tls.Config{RootCAs: pool}); err != nil {
		return nil, explainUntrusted(err, server, info.serverTime)
	}
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: ca.Raw}), nil
}

// clusterInfo is what a server says about its cluster.
type clusterInfo struct {
	kubeconfig string
	serverTime string // by the server's clock; "" if it does not say
}

// fetchClusterInfo reads the public ConfigMap without authenticating.
func fetchClusterInfo(ctx context.Context, server string, config *tls.Config) (*clusterInfo, error) {
	config.MinVersion = tls.VersionTLS12
	transport := &http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	client := &http.Client{
		Transport: transport,
		Timeout:   requestTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server+clusterInfoPath, nil)
	if err != nil {
		return nil, fmt.Errorf("ask %s: %w", server, err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, explainRequest(err, server)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxClusterInfo))
	if err != nil {
		return nil, unreachable(server, err)
	}
	return readClusterInfo(server, resp, body)
}

// explainRequest tells a server that speaks something else from one that cannot
// be reached. Certificate errors go through, for explainUntrusted.
func explainRequest(err error, server string) error {
	var header tls.RecordHeaderError
	var verification *tls.CertificateVerificationError
	switch {
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &header):
		return fmt.Errorf("%w: %s does not speak TLS", ErrNotKubernetes, server)
	case errors.As(err, &verification):
		return err
	default:
		return unreachable(server, err)
	}
}

func readClusterInfo(server string, resp *http.Response, body []byte) (*clusterInfo, error) {
	var object struct {
		metav1.TypeMeta `json:",inline"`
		Message         string            `json:"message"`
		Data            map[string]string `json:"data"`
	}
	if err := json.Unmarshal(body, &object); err != nil || (object.Kind != "ConfigMap" && object.Kind != "Status") {
		if resp.StatusCode >= http.StatusInternalServerError {
			return nil, fmt.Errorf("%w: %s answers %s", ErrNotReady, server, resp.Status)
		}
		return nil, fmt.Errorf("%w: %s answers %s, but not as Kubernetes does", ErrNotKubernetes, server, resp.Status)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%w: %s does not show its cluster-info yet: %s: %s", ErrNotReady, server, resp.Status, object.Message)
	}
	kubeconfig := object.Data[bootstrapapi.KubeConfigKey]
	if kubeconfig == "" {
		return nil, fmt.Errorf("%w: the cluster-info of %s is empty", ErrNotReady, server)
	}
	return &clusterInfo{kubeconfig: kubeconfig, serverTime: resp.Header.Get("Date")}, nil
}

// authority finds the certificate with the token's hash among those the server
// shows.
func (c *clusterInfo) authority(server, want string) (*x509.Certificate, error) {
	config, err := clientcmd.Load([]byte(c.kubeconfig))
	if err != nil {
		return nil, fmt.Errorf("%w: the cluster-info of %s is not a kubeconfig", ErrNotKubernetes, server)
	}
	var hashes []string
	for _, cluster := range config.Clusters {
		certs, err := certutil.ParseCertsPEM(cluster.CertificateAuthorityData)
		if err != nil {
			return nil, fmt.Errorf("%w: the cluster-info of %s holds no CA certificate", ErrNotKubernetes, server)
		}
		for _, cert := range certs {
			hash := token.HashDER(cert.Raw)
			if hash == want {
				return cert, nil
			}
			hashes = append(hashes, hash)
		}
	}
	if len(hashes) == 0 {
		return nil, fmt.Errorf("%w: the cluster-info of %s holds no CA certificate", ErrNotKubernetes, server)
	}
	return nil, fmt.Errorf("%w: it names CA %s, the server %s has %s", ErrForeignToken, want, server, strings.Join(hashes, ", "))
}

// checkTime fails where the clocks of this host and of the issuer are apart.
func checkTime(cert *x509.Certificate, what, server, serverTime string) error {
	now := time.Now()
	if !now.Before(cert.NotBefore) && !now.After(cert.NotAfter) {
		return nil
	}
	clocks := fmt.Sprintf("this host's clock says %s", now.UTC().Format(time.RFC3339))
	if at, err := http.ParseTime(serverTime); err == nil {
		clocks += fmt.Sprintf(", the server's %s", at.UTC().Format(time.RFC3339))
	}
	return fmt.Errorf("%w: %s (%s) is valid from %s to %s, and %s: set the clocks right", ErrClock, what, server,
		cert.NotBefore.UTC().Format(time.RFC3339), cert.NotAfter.UTC().Format(time.RFC3339), clocks)
}

// explainUntrusted explains why the certificate of a server was not accepted
// although its cluster-info was right.
func explainUntrusted(err error, server, serverTime string) error {
	var (
		invalid   x509.CertificateInvalidError
		hostname  x509.HostnameError
		authority x509.UnknownAuthorityError
	)
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		if clock := checkTime(invalid.Cert, "the server's certificate", server, serverTime); clock != nil {
			return clock
		}
	case errors.As(err, &hostname):
		return fmt.Errorf("%w: %s: its certificate is not made for %s: start the server with --tls-san=%s, or use one of its names: %s",
			ErrUntrusted, server, hostname.Host, hostname.Host, strings.Join(certificateNames(hostname.Certificate), ", "))
	case errors.As(err, &authority):
		return fmt.Errorf("%w: %s shows the right CA, but its certificate is signed by another: something stands between this host and the cluster", ErrUntrusted, server)
	case errors.Is(err, ErrUnreachable), errors.Is(err, ErrNotReady), errors.Is(err, ErrNotKubernetes):
		return err
	}
	return fmt.Errorf("%w: %s: %w", ErrUntrusted, server, err)
}

func certificateNames(cert *x509.Certificate) []string {
	names := append([]string{}, cert.DNSNames...)
	for _, ip := range cert.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}
