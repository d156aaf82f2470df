package join

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

// backend is an API server as far as the load balancer can see: it speaks TLS
// with the cluster's certificate, says its name to every client and echoes
// lines. It can be killed and revived at the same address.
type backend struct {
	t       *testing.T
	name    string
	address string
	tls     *tls.Config

	mu       sync.Mutex
	listener net.Listener
	conns    []net.Conn
}

func newBackend(t *testing.T, c *cluster, name string) *backend {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(c.store.CertPath(pki.APIServer), c.store.KeyPath(pki.APIServer))
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{t: t, name: name, address: ownLoopback() + ":0", tls: &tls.Config{Certificates: []tls.Certificate{pair}}}
	b.start()
	t.Cleanup(b.kill)
	return b
}

// ownLoopback is an address of this process: a port on it stays free while the
// backend is down.
func ownLoopback() string {
	pid := os.Getpid()
	return fmt.Sprintf("127.%d.%d.%d", 1+pid>>14&63, pid>>7&127, 1+pid&127)
}

func (b *backend) start() {
	b.t.Helper()
	l, err := net.Listen("tcp", b.address)
	if err != nil {
		b.t.Fatal(err)
	}
	b.serve(l)
}

func (b *backend) serve(l net.Listener) {
	b.listener, b.address = l, l.Addr().String()
	go func() {
		for {
			raw, err := l.Accept()
			if err != nil {
				return
			}
			conn := tls.Server(raw, b.tls)
			b.mu.Lock()
			b.conns = append(b.conns, conn)
			b.mu.Unlock()
			go func() {
				fmt.Fprintln(conn, b.name)
				_, _ = io.Copy(conn, conn)
				conn.Close()
			}()
		}
	}()
}

// kill is the end of the process: its connections end, its port is closed.
func (b *backend) kill() {
	b.listener.Close()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, conn := range b.conns {
		conn.Close()
	}
	b.conns = nil
}

// balancer is a running load balancer.
type balancer struct {
	*LoadBalancer
	t    *testing.T
	ca   *x509.CertPool
	stop func()
}

func startBalancer(t *testing.T, c *cluster, file string, servers ...string) *balancer {
	t.Helper()
	lb, err := ListenLoadBalancer(LoadBalancerConfig{
		Listen: "127.0.0.1:0", File: file, Servers: servers, CA: c.bundle().ClusterCA(), Logger: slog.New(slog.DiscardHandler),
		DialTimeout: time.Second, CheckInterval: 50 * time.Millisecond, PeerTimeout: 3 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- lb.Run(ctx) }()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.bundle().ClusterCA())
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	t.Cleanup(stop)
	return &balancer{LoadBalancer: lb, t: t, ca: pool, stop: stop}
}

// client is a connection through the load balancer.
type client struct {
	*tls.Conn
	lines  *bufio.Reader
	server string // the name of the backend it reached
}

// connect dials through the load balancer and verifies the server by the
// cluster's CA, under the address it connects to.
func (lb *balancer) connect() (*client, error) {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	conn, err := tls.DialWithDialer(dialer, "tcp", lb.Addr().String(), &tls.Config{RootCAs: lb.ca})
	if err != nil {
		return nil, err
	}
	lb.t.Cleanup(func() { conn.Close() })
	lines := bufio.NewReader(conn)
	name, err := lines.ReadString('\n')
	return &client{Conn: conn, lines: lines, server: strings.TrimSpace(name)}, err
}

func (lb *balancer) mustConnect() *client {
	lb.t.Helper()
	c, err := lb.connect()
	if err != nil {
		lb.t.Fatal(err)
	}
	return c
}

// echo says whether the connection still works.
func (c *client) echo(t *testing.T) {
	t.Helper()
	fmt.Fprintln(c, "hello")
	if line, err := c.lines.ReadString('\n'); err != nil || line != "hello\n" {
		t.Errorf("echo: %q, %v", line, err)
	}
}

// broken waits until the connection ends and returns how long that took.
func (c *client) broken(t *testing.T, within time.Duration) time.Duration {
	t.Helper()
	begin := time.Now()
	if err := c.SetReadDeadline(begin.Add(within)); err != nil {
		t.Fatal(err)
	}
	if _, err := c.lines.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the connection is not broken after %v: %v", within, err)
	}
	return time.Since(begin)
}

// eventually polls until ok says so.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within 20 s: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (lb *balancer) failing(address string) bool {
	for _, s := range lb.Status() {
		if s.Address == address {
			return s.Failing
		}
	}
	lb.t.Fatalf("%s is not known", address)
	return false
}

func serverFileIn(t *testing.T) string { return filepath.Join(t.TempDir(), "servers.json") }

func TestConnectionsAreSpreadOverTheServers(t *testing.T) {
	c := newCluster(t, now())
	a, b := newBackend(t, c, "a"), newBackend(t, c, "b")
	lb := startBalancer(t, c, serverFileIn(t), a.address, b.address)
	count := map[string]int{}
	for range 6 {
		conn := lb.mustConnect()
		conn.echo(t)
		count[conn.server]++
	}
	if count["a"] != 3 || count["b"] != 3 {
		t.Errorf("connections: %v", count)
	}
}

func TestFailoverAndReturn(t *testing.T) {
	c := newCluster(t, now())
	a, b := newBackend(t, c, "a"), newBackend(t, c, "b")
	lb := startBalancer(t, c, serverFileIn(t), a.address, b.address)
	first, second := lb.mustConnect(), lb.mustConnect()
	if first.server == second.server {
		t.Fatalf("both connections went to %s", first.server)
	}
	onA, onB := first, second
	if first.server == "b" {
		onA, onB = second, first
	}
	a.kill()
	onA.broken(t, 10*time.Second)
	for range 3 {
		if got := lb.mustConnect(); got.server != "b" {
			t.Errorf("with a dead, the connection went to %s", got.server)
		}
	}
	if !lb.failing(a.address) || lb.failing(b.address) {
		t.Errorf("status: %v", lb.Status())
	}
	onB.echo(t)

	a.start()
	eventually(t, "a is back", func() bool { return !lb.failing(a.address) })
	if got := lb.mustConnect(); got.server != "a" {
		t.Errorf("with a back and idle, the connection went to %s", got.server)
	}
}

// What listens again has to be an API server of the cluster, not any program
// that took the port.
func TestAServerThatCannotProveItselfDoesNotReturn(t *testing.T) {
	c, other := newCluster(t, now()), newCluster(t, now())
	a, b := newBackend(t, c, "a"), newBackend(t, c, "b")
	lb := startBalancer(t, c, serverFileIn(t), a.address, b.address)
	a.kill()
	eventually(t, "a fails", func() bool { lb.mustConnect(); return lb.failing(a.address) })
	foreign := newBackend(t, other, "foreign")
	foreign.kill()
	foreign.address = a.address
	checks := make(chan struct{}, 100)
	foreign.tls.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { checks <- struct{}{}; return nil, nil }
	foreign.start()
	for range 3 {
		<-checks
	}
	if !lb.failing(a.address) {
		t.Error("a foreign server counts as back")
	}
}

func TestAllServersDownAndOneReturns(t *testing.T) {
	c := newCluster(t, now())
	a, b := newBackend(t, c, "a"), newBackend(t, c, "b")
	lb := startBalancer(t, c, serverFileIn(t), a.address, b.address)
	a.kill()
	b.kill()
	if conn, err := lb.connect(); err == nil {
		t.Fatalf("connected to %s", conn.server)
	}
	b.start() // found at once: failing servers are tried when there is no other
	if got := lb.mustConnect(); got.server != "b" {
		t.Errorf("connected to %s", got.server)
	}
}

func TestServerListIsKeptOverRestarts(t *testing.T) {
	c := newCluster(t, now())
	a, b := newBackend(t, c, "a"), newBackend(t, c, "b")
	file := serverFileIn(t)
	lb := startBalancer(t, c, file, a.address)
	if err := lb.SetServers([]string{b.address, a.address, b.address}); err != nil {
		t.Fatal(err)
	}
	lb.stop()
	a.kill()
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	again := startBalancer(t, c, file, a.address)
	if got := again.mustConnect(); got.server != "b" {
		t.Errorf("connected to %s", got.server)
	}
}

func TestUnreadableServerListIsIgnored(t *testing.T) {
	c := newCluster(t, now())
	a := newBackend(t, c, "a")
	for _, content := range []string{"", "{", `{"servers":[]}`, `{"servers":["junk"]}`} {
		file := serverFileIn(t)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		lb := startBalancer(t, c, file, a.address)
		if got := lb.mustConnect(); got.server != "a" {
			t.Errorf("%q: connected to %s", content, got.server)
		}
	}
}

func TestConnectionsToARemovedServerAreClosed(t *testing.T) {
	c := newCluster(t, now())
	a, b := newBackend(t, c, "a"), newBackend(t, c, "b")
	lb := startBalancer(t, c, serverFileIn(t), a.address)
	onA := lb.mustConnect()
	if err := lb.SetServers([]string{a.address, b.address}); err != nil {
		t.Fatal(err)
	}
	onA.echo(t)
	if err := lb.SetServers([]string{b.address}); err != nil {
		t.Fatal(err)
	}
	onA.broken(t, 5*time.Second)
	if got := lb.mustConnect(); got.server != "b" {
		t.Errorf("connected to %s", got.server)
	}
}

func TestConfiguredServerIsTheLastResort(t *testing.T) {
	c := newCluster(t, now())
	a, b := newBackend(t, c, "a"), newBackend(t, c, "b")
	lb := startBalancer(t, c, serverFileIn(t), a.address)
	if err := lb.SetServers([]string{b.address}); err != nil {
		t.Fatal(err)
	}
	b.kill()
	if got := lb.mustConnect(); got.server != "a" {
		t.Errorf("connected to %s", got.server)
	}
}

func TestSetServersRefusesNonsense(t *testing.T) {
	c := newCluster(t, now())
	a := newBackend(t, c, "a")
	lb := startBalancer(t, c, serverFileIn(t), a.address)
	for _, servers := range [][]string{nil, {"a"}, {"a:0"}, {":6443"}, {"a:https"}, {a.address, "b:99999"}} {
		if err := lb.SetServers(servers); err == nil {
			t.Errorf("SetServers(%v) was accepted", servers)
		}
	}
	if got := lb.mustConnect(); got.server != "a" {
		t.Errorf("connected to %s", got.server)
	}
}

func TestSetServersWorksWithoutADisk(t *testing.T) {
	c := newCluster(t, now())
	a, b := newBackend(t, c, "a"), newBackend(t, c, "b")
	lb := startBalancer(t, c, filepath.Join(t.TempDir(), "missing", "servers.json"), a.address)
	if err := lb.SetServers([]string{b.address}); err == nil {
		t.Error("no error")
	}
	if got := lb.mustConnect(); got.server != "b" {
		t.Errorf("connected to %s", got.server)
	}
}

// The last bytes of one direction arrive although the other has ended.
func TestHalfClosedConnectionsDeliverEverything(t *testing.T) {
	c := newCluster(t, now())
	a := newBackend(t, c, "a")
	lb := startBalancer(t, c, serverFileIn(t), a.address)
	conn := lb.mustConnect()
	sent := bytes.Repeat([]byte("0123456789abcdef"), 64<<10)
	go func() {
		_, _ = conn.Write(sent)
		_ = conn.CloseWrite()
	}()
	got, err := io.ReadAll(conn.lines)
	if err != nil || !bytes.Equal(got, sent) {
		t.Errorf("sent %d bytes, got %d, %v", len(sent), len(got), err)
	}
	conn.Close()
	eventually(t, "the session ends", func() bool { return lb.Status()[0].Connections == 0 })
}

func TestStoppingBreaksConnections(t *testing.T) {
	c := newCluster(t, now())
	a := newBackend(t, c, "a")
	lb := startBalancer(t, c, serverFileIn(t), a.address)
	conn := lb.mustConnect()
	lb.stop()
	conn.broken(t, 5*time.Second)
	if _, err := lb.connect(); err == nil {
		t.Error("the port is still open")
	}
}

func TestListenLoadBalancerRefusesBadConfigurations(t *testing.T) {
	c := newCluster(t, now())
	taken := plainListener(t)
	good := LoadBalancerConfig{Listen: "127.0.0.1:0", File: serverFileIn(t), Servers: []string{"a:1"}, CA: c.bundle().ClusterCA(), Logger: slog.New(slog.DiscardHandler)}
	for name, change := range map[string]func(*LoadBalancerConfig){
		"no servers":  func(c *LoadBalancerConfig) { c.Servers = nil },
		"no CA":       func(c *LoadBalancerConfig) { c.CA = []byte("x") },
		"port in use": func(c *LoadBalancerConfig) { c.Listen = taken.Addr().String() },
	} {
		config := good
		change(&config)
		if _, err := ListenLoadBalancer(config); err == nil {
			t.Errorf("%s: no error", name)
		} else if name == "port in use" && !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
