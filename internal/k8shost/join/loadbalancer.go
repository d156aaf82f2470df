package join

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"plasmacloud.io/plasmacloud/internal/atomicfile"
)

// LoadBalancerConfig is what a LoadBalancer needs to know.
type LoadBalancerConfig struct {
	// Listen is the local address, such as 127.0.0.1:6444.
	Listen string
	// File keeps the servers that are known, over restarts. Without it, the servers that are set are all there are: none
	// of Servers is tried once others are.
	File string
	// Servers are the addresses, host:port, of --server: the first ones to
	// try, and the last resort when none of the known ones answers.
	Servers []string
	// CA is the cluster's CA certificate in PEM; a server that failed counts as
	// back when it proves to be one of the cluster. Without it, any server of TLS
	// does: clients find out whose it is.
	CA     []byte
	Logger *slog.Logger

	// DialTimeout is how long a server may take to accept a connection (3 s if
	// zero), CheckInterval how often a failed one is tried (2 s), PeerTimeout how
	// long it may leave data or probes unanswered before its connections are
	// broken (5 s).
	DialTimeout, CheckInterval, PeerTimeout time.Duration
}

// LoadBalancer forwards local connections to the API servers of the cluster. TLS
// passes through it: clients verify the servers by their certificates, which are
// valid for 127.0.0.1. A connection goes to the server with the fewest; one that
// does not answer is left out until it does again.
type LoadBalancer struct {
	config   LoadBalancerConfig
	listener net.Listener
	checkTLS *tls.Config
	tasks    sync.WaitGroup

	mu      sync.Mutex
	servers []*server // in turn: a tie goes to the first, which then moves to the end
}

// ServerStatus is the state of one server, for logs and tests.
type ServerStatus struct {
	Address     string
	Failing     bool
	Connections int
}

// ListenLoadBalancer takes the local port and reads the servers known from
// before. Run does the work.
func ListenLoadBalancer(config LoadBalancerConfig) (*LoadBalancer, error) {
	config.DialTimeout = orDefault(config.DialTimeout, 3*time.Second)
	config.CheckInterval = orDefault(config.CheckInterval, 2*time.Second)
	config.PeerTimeout = orDefault(config.PeerTimeout, 5*time.Second)
	if err := checkServers(config.Servers); err != nil {
		return nil, fmt.Errorf("start load balancer: %w", err)
	}
	// Every API server is valid for this name; its address need not be.
	check := &tls.Config{ServerName: "kubernetes", MinVersion: tls.VersionTLS12}
	if check.RootCAs = x509.NewCertPool(); len(config.CA) == 0 {
		check.InsecureSkipVerify = true // nothing is sent: it is a look whether somebody answers
	} else if !check.RootCAs.AppendCertsFromPEM(config.CA) {
		return nil, errors.New("start load balancer: the CA holds no certificate")
	}
	lb := &LoadBalancer{config: config, checkTLS: check}
	for _, address := range lb.known() {
		lb.servers = append(lb.servers, &server{address: address})
	}
	listener, err := net.Listen("tcp", config.Listen)
	if err != nil {
		return nil, fmt.Errorf("start load balancer: %w", err)
	}
	lb.listener = listener
	return lb, nil
}

func orDefault(value, otherwise time.Duration) time.Duration {
	if value == 0 {
		return otherwise
	}
	return value
}

// Addr is the local address that clients connect to.
func (lb *LoadBalancer) Addr() net.Addr { return lb.listener.Addr() }

// Status returns the known servers, ordered by address.
func (lb *LoadBalancer) Status() []ServerStatus {
	lb.mu.Lock()
	defer lb.mu.Unlock()
	status := make([]ServerStatus, 0, len(lb.servers))
	for _, s := range lb.servers {
		status = append(status, ServerStatus{Address: s.address, Failing: s.failing, Connections: len(s.sessions)})
	}
	slices.SortFunc(status, func(a, b ServerStatus) int { return strings.Compare(a.Address, b.Address) })
	return status
}

// SetServers replaces the known servers and breaks the connections to those that
// are no longer among them; their clients connect again. An empty list is
// refused: then at least the old servers may still be there.
func (lb *LoadBalancer) SetServers(addresses []string) error {
	addresses = slices.Clone(addresses)
	slices.Sort(addresses)
	addresses = slices.Compact(addresses)
	if err := checkServers(addresses); err != nil {
		return fmt.Errorf("set API servers: %w", err)
	}
	lb.mu.Lock()
	defer lb.mu.Unlock()
	before := make([]string, 0, len(lb.servers))
	for _, s := range lb.servers {
		before = append(before, s.address)
	}
	slices.Sort(before)
	if slices.Equal(before, addresses) {
		return nil
	}
	lb.servers = slices.DeleteFunc(lb.servers, func(s *server) bool {
		gone := !slices.Contains(addresses, s.address)
		if gone {
			s.remove()
		}
		return gone
	})
	for _, address := range addresses {
		if !slices.Contains(before, address) {
			lb.servers = append(lb.servers, &server{address: address})
		}
	}
	lb.config.Logger.Info("API servers changed", "servers", addresses, "before", before)
	if lb.config.File == "" {
		lb.config.Servers = addresses
		return nil
	}
	return lb.save(addresses)
}

func checkServers(addresses []string) error {
	if len(addresses) == 0 {
		return errors.New("no servers given")
	}
	for _, address := range addresses {
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return fmt.Errorf("invalid server address %q: want host:port", address)
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || host == "" {
			return fmt.Errorf("invalid server address %q: want host:port", address)
		}
	}
	return nil
}

// serverFile is the form of the file that keeps the servers.
type serverFile struct {
	Servers []string `json:"servers"`
}

// known returns the servers of the file. A file that cannot be read is no reason
// not to start: the servers are learnt again from the first one that answers.
func (lb *LoadBalancer) known() []string {
	if lb.config.File == "" {
		return lb.config.Servers
	}
	data, err := os.ReadFile(lb.config.File)
	if errors.Is(err, fs.ErrNotExist) {
		return lb.config.Servers
	}
	var file serverFile
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	if err == nil {
		err = checkServers(file.Servers)
	}
	if err != nil {
		lb.config.Logger.Warn("ignoring the list of API servers", "file", lb.config.File, "error", err)
		return lb.config.Servers
	}
	return file.Servers
}

func (lb *LoadBalancer) save(addresses []string) error {
	data, err := json.Marshal(serverFile{Servers: addresses})
	if err == nil {
		err = atomicfile.Write(lb.config.File, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("save API servers: %w", err)
	}
	return nil
}

// Run forwards connections until ctx ends; then it breaks those that are left.
func (lb *LoadBalancer) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer lb.tasks.Wait()
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = lb.listener.Close() })
	defer stop()
	for {
		conn, err := lb.listener.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accept connections on %s: %w", lb.Addr(), err)
		}
		if err != nil { // out of file descriptors, most likely: others will be closed
			lb.config.Logger.Warn("accept connection", "error", err)
			if !pause(ctx, 100*time.Millisecond) {
				return nil
			}
			continue
		}
		lb.tasks.Go(func() { lb.serve(ctx, conn.(*net.TCPConn)) })
	}
}

// pause waits, and says whether ctx still lasts.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
