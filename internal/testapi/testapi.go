// Package testapi gives tests a real Kubernetes API: our own kube-apiserver and etcd, from the built release, with our
// custom resources installed. It takes a few seconds to start, so the tests of a package share one:
//
//	var api *testapi.Server
//
//	func TestMain(m *testing.M) { os.Exit(testapi.Main(m, &api)) }
//
//	func TestSomething(t *testing.T) {
//		config := api.Config()          // an administrator's
//		namespace := api.Namespace(t)   // a fresh one
//		...
//	}
//
// A test that needs a server of its own, with further flags or with controllers, calls New instead.
//
// The release is the one that PLASMACLOUD_RELEASE names, or _output/release of the repository (`make distro`). Ports
// are free ones on the loopback interface, certificates are made on the spot, files are in a temporary directory.
// Nothing is left behind: both programs end with the test's process, even if that is killed.
//
// What there is not: nodes, and, unless Options.Controllers names some, controllers. Namespaces therefore stay
// Terminating when they are deleted, owned objects stay when their owner goes, and ClusterRoles are not aggregated.
package testapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/release"
)

// Options are what a test may ask for beyond the usual.
type Options struct {
	// Kubernetes is the version to run; the release's newest where it is empty.
	Kubernetes string
	// APIServerArgs are further flags of kube-apiserver, such as --authentication-token-webhook-config-file=….
	APIServerArgs []string
	// Controllers are the controllers that kube-controller-manager shall run, such as namespace-controller or
	// garbage-collector-controller; it is not started where there are none.
	Controllers []string
	// Names are further ones, or addresses, that its certificate is good for.
	Names []string
	// WithoutCRDs leaves the API without our kinds.
	WithoutCRDs bool
}

const (
	startTimeout = 90 * time.Second // a busy machine may take its time
	stopTimeout  = 20 * time.Second
)

// serviceCIDR is what Services get their addresses from; nothing routes there.
var serviceCIDR = netip.MustParsePrefix("10.96.0.0/16")

// Server is a running API server.
type Server struct {
	dir     string
	options Options
	kube    string // the multi-call binary
	etcd    string
	pki     *pki.Store
	port    int
	etcdURL string
	peerURL string
	manager *component.Manager
}

// Main runs the tests of a package while an API server, which it stores in *server, is up. It is for TestMain and
// returns what to exit with.
func Main(m *testing.M, server **Server) int {
	started, err := Start(Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, "testapi:", err)
		return 1
	}
	*server = started
	code := m.Run()
	if err := started.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "testapi:", err)
		return max(code, 1)
	}
	return code
}

// New starts an API server for one test.
func New(tb testing.TB, options Options) *Server {
	tb.Helper()
	server, err := Start(options)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := server.Stop(); err != nil {
			tb.Error(err)
		}
	})
	return server
}

// Start starts an API server. The caller stops it.
func Start(options Options) (*Server, error) {
	repository, err := findRepository()
	if err != nil {
		return nil, fmt.Errorf("start test API: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	s := &Server{options: options}
	if err := s.start(ctx, repository); err != nil {
		return nil, errors.Join(fmt.Errorf("start test API: %w", err), s.Stop())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, repository string) error {
	if err := s.findPrograms(repository); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "testapi-")
	if err != nil {
		return err
	}
	s.dir = dir
	ports, err := freePorts(3)
	if err != nil {
		return err
	}
	s.port, s.etcdURL, s.peerURL = ports[0], loopbackURL(ports[1]), loopbackURL(ports[2])
	s.pki = pki.New(filepath.Join(dir, "tls"), clock.RealClock{})
	node := pki.Server{NodeName: "testapi", ClusterDomain: "cluster.local", ServiceCIDRs: []netip.Prefix{serviceCIDR}, TLSSANs: s.options.Names}
	if _, err := s.pki.Ensure(node.Leaves()); err != nil {
		return err
	}
	stages, err := s.stages()
	if err != nil {
		return err
	}
	s.manager = component.NewManager(slog.New(slog.DiscardHandler), stages...)
	if err := s.manager.Start(ctx); err != nil {
		return err
	}
	if s.options.WithoutCRDs {
		return nil
	}
	return installCRDs(ctx, s.Config(), filepath.Join(repository, "api", "crd"))
}

func (s *Server) findPrograms(repository string) error {
	dir := os.Getenv(release.EnvDir)
	if dir == "" {
		dir = filepath.Join(repository, "_output", "release")
	}
	catalogue, err := release.Open(dir)
	if err != nil {
		return err
	}
	version, err := catalogue.Resolve(s.options.Kubernetes)
	if err != nil {
		return err
	}
	if s.kube, err = catalogue.Kube(version); err != nil {
		return err
	}
	s.etcd, err = catalogue.Binary("etcd")
	return err
}

// Stop ends the server and removes its files. Stopping twice is no error.
func (s *Server) Stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	var problems []error
	if s.manager != nil {
		problems = append(problems, s.manager.Stop(ctx))
	}
	if s.dir != "" {
		problems = append(problems, os.RemoveAll(s.dir))
	}
	return errors.Join(problems...)
}

// URL is where the API server listens.
func (s *Server) URL() string { return loopbackURL(s.port) }

// PKI holds the server's certificates and keys.
func (s *Server) PKI() *pki.Store { return s.pki }

// Config is an administrator's access, without a limit of requests on the client's side.
func (s *Server) Config() *rest.Config { return s.configOf(pki.Admin) }

func (s *Server) configOf(leaf string) *rest.Config {
	return &rest.Config{
		Host: s.URL(),
		QPS:  -1,
		TLSClientConfig: rest.TLSClientConfig{
			CAFile: s.pki.CAPath(pki.ClusterCA), CertFile: s.pki.CertPath(leaf), KeyFile: s.pki.KeyPath(leaf),
		},
	}
}

func loopbackURL(port int) string { return "https://127.0.0.1:" + strconv.Itoa(port) }

// freePorts returns ports of the loopback interface that nobody listens on.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer func() { _ = listener.Close() }() // all at once, so that they differ
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// findRepository returns the folder of the root module, above the folder that a test runs in.
func findRepository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find repository: no go.mod above the working directory")
		}
		dir = parent
	}
}
