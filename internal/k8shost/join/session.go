package join

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"
)

// server is one API server; its fields are guarded by the load balancer's mu.
type server struct {
	address  string
	failing  bool
	removed  bool
	stop     context.CancelFunc // ends the checks of a failing server
	sessions map[*session]struct{}
}

// session is one forwarded connection.
type session struct {
	client, server *net.TCPConn
}

// close ends both sides, which makes forward return. It may be called again.
func (s *session) close() {
	_ = s.client.Close()
	_ = s.server.Close()
}

// remove breaks all connections to a server that is no longer known.
func (s *server) remove() {
	s.removed = true
	if s.stop != nil {
		s.stop()
	}
	for session := range s.sessions {
		session.close()
	}
}

// serve forwards one connection from its accept to its end.
func (lb *LoadBalancer) serve(ctx context.Context, client *net.TCPConn) {
	upstream, server := lb.connect(ctx)
	if upstream == nil {
		_ = client.Close()
		return
	}
	s := &session{client: client, server: upstream}
	defer s.close()
	if !lb.begin(s, server) {
		return
	}
	defer lb.end(s, server)
	stop := context.AfterFunc(ctx, s.close)
	defer stop()
	if err := s.forward(); vanished(err) && server != nil {
		lb.fail(ctx, server, err) // spares the next connection the wait
	}
}

// vanished tells a host that is gone from one that closed the connection.
func vanished(err error) bool {
	return errors.Is(err, syscall.ETIMEDOUT) || errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH)
}

// connect dials the servers, the best first, until one accepts. The server is
// nil for an address that is only the last resort.
func (lb *LoadBalancer) connect(ctx context.Context) (*net.TCPConn, *server) {
	var errs []error
	for _, s := range lb.candidates() {
		conn, err := lb.dial(ctx, s.address)
		if err == nil {
			return conn, s
		}
		errs = append(errs, err)
		lb.fail(ctx, s, err)
	}
	for _, address := range lb.lastResort() {
		conn, err := lb.dial(ctx, address)
		if err == nil {
			return conn, nil
		}
		errs = append(errs, err)
	}
	if ctx.Err() == nil {
		lb.config.Logger.Warn("no API server accepts connections", "error", errors.Join(errs...))
	}
	return nil, nil
}

// candidates orders the servers: those that work before those that fail, then by
// the number of connections, then in turn.
func (lb *LoadBalancer) candidates() []*server {
	lb.mu.Lock()
	defer lb.mu.Unlock()
	order := slices.Clone(lb.servers)
	slices.SortStableFunc(order, func(a, b *server) int {
		if a.failing != b.failing {
			if a.failing {
				return 1
			}
			return -1
		}
		return len(a.sessions) - len(b.sessions)
	})
	if i := slices.Index(lb.servers, order[0]); i >= 0 {
		lb.servers = append(slices.Delete(lb.servers, i, i+1), order[0])
	}
	return order
}

// lastResort are the configured addresses that are not known as servers: a name
// that still leads to the cluster after all its servers have changed.
func (lb *LoadBalancer) lastResort() []string {
	lb.mu.Lock()
	defer lb.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(lb.config.Servers), func(address string) bool {
		return slices.ContainsFunc(lb.servers, func(s *server) bool { return s.address == address })
	})
}

// dial connects to a server such that its silent death is noticed: a host that
// loses power closes no connection.
func (lb *LoadBalancer) dial(ctx context.Context, address string) (*net.TCPConn, error) {
	timeout := lb.config.PeerTimeout
	dialer := net.Dialer{
		Timeout: lb.config.DialTimeout,
		// An idle connection is probed after a part of the timeout; the
		// kernel counts in whole seconds.
		KeepAliveConfig: net.KeepAliveConfig{
			Enable:   true,
			Idle:     max(timeout/3, time.Second),
			Interval: max(timeout/5, time.Second),
			Count:    3,
		},
		// Data that is not acknowledged, and unanswered probes, end it.
		Control: func(_, _ string, raw syscall.RawConn) error {
			var err error
			if controlErr := raw.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(timeout.Milliseconds()))
			}); controlErr != nil {
				return controlErr
			}
			return err
		},
	}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// begin counts the session, unless the server was removed meanwhile.
func (lb *LoadBalancer) begin(c *session, s *server) bool {
	if s == nil {
		return true
	}
	lb.mu.Lock()
	defer lb.mu.Unlock()
	if s.removed {
		return false
	}
	if s.sessions == nil {
		s.sessions = map[*session]struct{}{}
	}
	s.sessions[c] = struct{}{}
	return true
}

func (lb *LoadBalancer) end(c *session, s *server) {
	if s == nil {
		return
	}
	lb.mu.Lock()
	defer lb.mu.Unlock()
	delete(s.sessions, c)
}

// forward copies in both directions until both have ended, and returns the error
// of the server's side. The end of one direction is passed on as such: the other
// may still have data under way.
func (s *session) forward() error {
	var up sync.WaitGroup
	up.Go(func() {
		if _, err := io.Copy(s.server, s.client); err != nil {
			s.close()
			return
		}
		_ = s.server.CloseWrite()
	})
	_, err := io.Copy(s.client, s.server)
	if err != nil {
		s.close()
	} else {
		_ = s.client.CloseWrite()
	}
	up.Wait()
	return err
}

// fail takes a server out of the choice and begins to check it.
func (lb *LoadBalancer) fail(ctx context.Context, s *server, cause error) {
	lb.mu.Lock()
	defer lb.mu.Unlock()
	if s.failing || s.removed || ctx.Err() != nil {
		return
	}
	s.failing = true
	ctx, s.stop = context.WithCancel(ctx)
	lb.config.Logger.Warn("API server fails", "server", s.address, "error", cause)
	lb.tasks.Go(func() {
		wait.JitterUntilWithContext(ctx, func(ctx context.Context) { lb.check(ctx, s) }, lb.config.CheckInterval, 0.5, true)
	})
}

// check puts a server that completes a TLS handshake back into the choice.
func (lb *LoadBalancer) check(ctx context.Context, s *server) {
	ctx, cancel := context.WithTimeout(ctx, lb.config.DialTimeout)
	defer cancel()
	dialer := tls.Dialer{Config: lb.checkTLS}
	conn, err := dialer.DialContext(ctx, "tcp", s.address)
	if err != nil {
		return
	}
	_ = conn.Close()
	lb.mu.Lock()
	defer lb.mu.Unlock()
	s.failing = false
	s.stop()
	if !s.removed {
		lb.config.Logger.Info("API server is back", "server", s.address)
	}
}
