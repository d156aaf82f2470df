// Package cloudapi asks the clouds themselves what OpenTofu is not asked for: tokens for the APIs of clusters, what
// carries a stack's tag, and what an account may do. A folder below is one cloud. Credentials come as the environment that deployers work with, which
// also says where the clouds are: behind which proxy, at which private endpoints. Nothing of it is stored.
package cloudapi

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// timeout of one request: people wait for the answers.
const timeout = 20 * time.Second

// Token is what a cluster's API takes somebody for an administrator by.
type Token struct {
	Value string
	// Expires is zero where the cloud does not tell.
	Expires time.Time
}

// String tells no secrets.
func (t Token) String() string { return "token" }

// GoString is String.
func (t Token) GoString() string { return t.String() }

// Client is how the clouds are reached from an environment: by its proxies, and trusting whom it trusts.
func Client(environment map[string]string) (*http.Client, error) {
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSHandshakeTimeout: timeout, TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12}}
	either := func(name, other string) string { return cmp.Or(environment[name], environment[other]) }
	proxy := (&httpproxy.Config{
		HTTPProxy: either("HTTP_PROXY", "http_proxy"), HTTPSProxy: either("HTTPS_PROXY", "https_proxy"), NoProxy: either("NO_PROXY", "no_proxy"),
	}).ProxyFunc()
	transport.Proxy = func(r *http.Request) (*url.URL, error) { return proxy(r.URL) }
	trusted, err := trust(environment)
	if err != nil {
		return nil, fmt.Errorf("read whom to trust: %w", err)
	}
	transport.TLSClientConfig.RootCAs = trusted
	return &http.Client{Transport: transport, Timeout: timeout}, nil
}

// EnvironmentCA is a variable among a cloud's settings: further certificate authorities, in PEM.
const EnvironmentCA = "PLASMACLOUD_CA_CERTIFICATES"

// trust is whom everybody trusts, and whom the environment names.
func trust(environment map[string]string) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, err
	}
	if certificates := environment[EnvironmentCA]; certificates != "" && !pool.AppendCertsFromPEM([]byte(certificates)) {
		return nil, fmt.Errorf("%s holds no certificate", EnvironmentCA)
	}
	if file := environment["SSL_CERT_FILE"]; file != "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if !pool.AppendCertsFromPEM(content) {
			return nil, fmt.Errorf("%s holds no certificate", file)
		}
	}
	return pool, nil
}
