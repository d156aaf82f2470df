// Package join is how a node becomes a member of a k8shost cluster, and how the
// cluster lets it in. All of it goes through the Kubernetes API of one of the
// servers; there is no port of our own.
//
// A joining node finds the CA (Discover), checks its token (VerifyToken), and
// then either hands the kubelet a kubeconfig for TLS bootstrap
// (BootstrapKubeconfig) or, as a server, fetches the cluster's keys
// (FetchServerBundle). A server offers this with the Publish functions. An agent
// reaches the servers through its own LoadBalancer, so that the loss of any one
// of them goes unnoticed.
//
// What belongs here: everything between two nodes up to the point where the
// Kubernetes components take over. Making certificates is pki's work, reading
// tokens is token's.
package join

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/k8shost/token"
)

// What can go wrong, for callers that treat it differently: after ErrUnreachable
// and ErrNotReady it makes sense to try again, after the others it does not.
var (
	// ErrUnreachable: no connection to the server.
	ErrUnreachable = errors.New("server unreachable")
	// ErrNotReady: the server answers, but does not offer yet what is needed.
	ErrNotReady = errors.New("server not ready")
	// ErrNotKubernetes: what answers is not a Kubernetes API.
	ErrNotKubernetes = errors.New("not a Kubernetes API")
	// ErrUntrusted: the server cannot prove to be one of the token's cluster.
	ErrUntrusted = errors.New("server not trusted")
	// ErrForeignToken: the token belongs to another cluster.
	ErrForeignToken = errors.New("the token belongs to another cluster")
	// ErrNoHash: the token does not say which CA the cluster has.
	ErrNoHash = errors.New("the token lacks the hash of the cluster's CA")
	// ErrClock: a certificate and this host's clock disagree.
	ErrClock = errors.New("certificate not valid at this host's time")
	// ErrTokenRefused: the server does not accept the token.
	ErrTokenRefused = errors.New("token refused")
	// ErrAgentToken: a server cannot join with this token.
	ErrAgentToken = errors.New("the token joins agents only")
)

const (
	httpsPort      = "443" // what an https URL without a port means
	requestTimeout = 15 * time.Second
)

// ParseServerURL checks a server URL as users give it and returns its plain form,
// https://host:port.
func ParseServerURL(text string) (string, error) {
	u, err := url.Parse(text)
	if err != nil {
		// The error of url.Parse repeats the URL, which may hold a password.
		return "", errors.New("invalid server URL: it cannot be read; want https://host:port")
	}
	switch {
	case u.Scheme != "https":
		return "", fmt.Errorf("invalid server URL %q: it has to begin with https://", u.Redacted())
	case u.Hostname() == "":
		return "", fmt.Errorf("invalid server URL %q: the host is missing", u.Redacted())
	case u.User != nil:
		return "", fmt.Errorf("invalid server URL %q: it may not hold a user", u.Redacted())
	case (u.Path != "" && u.Path != "/") || u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("invalid server URL %q: nothing may follow the port", u.Redacted())
	}
	port := u.Port()
	if port == "" {
		port = httpsPort
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("invalid server URL %q: %s is not a port", u.Redacted(), port)
	}
	return "https://" + net.JoinHostPort(u.Hostname(), port), nil
}

// NewClient returns a client of the server that authenticates with the token.
// caPEM comes from Discover.
func NewClient(serverURL string, caPEM []byte, tok token.Token) (kubernetes.Interface, error) {
	config, err := restConfig(serverURL, caPEM, tok)
	if err != nil {
		return nil, err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client for %s: %w", serverURL, err)
	}
	return client, nil
}

func restConfig(serverURL string, caPEM []byte, tok token.Token) (*rest.Config, error) {
	server, err := ParseServerURL(serverURL)
	if err != nil {
		return nil, err
	}
	bearer, err := tok.Bootstrap()
	if err != nil {
		return nil, err
	}
	return &rest.Config{
		Host:            server,
		BearerToken:     bearer,
		TLSClientConfig: rest.TLSClientConfig{CAData: caPEM},
		Timeout:         requestTimeout,
		UserAgent:       "k8shost",
	}, nil
}

// BootstrapKubeconfig writes the kubeconfig with which the kubelet asks for its
// certificate. It holds the token: only its owner can read it.
func BootstrapKubeconfig(path, serverURL string, caPEM []byte, tok token.Token) error {
	config, err := restConfig(serverURL, caPEM, tok)
	if err != nil {
		return fmt.Errorf("write bootstrap kubeconfig: %w", err)
	}
	const user = "bootstrap"
	kubeconfig := clientcmdapi.NewConfig()
	kubeconfig.Clusters[pki.KubeconfigName] = &clientcmdapi.Cluster{Server: config.Host, CertificateAuthorityData: caPEM}
	kubeconfig.AuthInfos[user] = &clientcmdapi.AuthInfo{Token: config.BearerToken}
	kubeconfig.Contexts[pki.KubeconfigName] = &clientcmdapi.Context{Cluster: pki.KubeconfigName, AuthInfo: user}
	kubeconfig.CurrentContext = pki.KubeconfigName
	_, err = pki.WriteKubeconfig(path, kubeconfig)
	return err
}

// unreachable explains a connection that did not come about.
func unreachable(server string, err error) error {
	var dns *net.DNSError
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &dns):
		return fmt.Errorf("%w: %s: the name %s cannot be resolved: %w", ErrUnreachable, server, dns.Name, err)
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("%w: %s: connection refused: nothing listens there (is the server running?): %w", ErrUnreachable, server, err)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("%w: %s: no answer in time (is the address right, does a firewall allow it?): %w", ErrUnreachable, server, err)
	default:
		return fmt.Errorf("%w: %s: %w", ErrUnreachable, server, err)
	}
}
