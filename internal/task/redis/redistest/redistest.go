// Package redistest gives tests a Redis of their own: Debian's redis-server on a free port of the loopback interface,
// with a directory and a password of its own. It can be stopped, started again, and emptied, as happens in real life.
package redistest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a Redis server.
type Server struct {
	// Address is host:port, the same after a restart. Password has to be given by clients.
	Address, Password string

	dir  string
	port int
	stop func() // nil while it does not run
}

const (
	startTimeout  = 30 * time.Second
	startInterval = 20 * time.Millisecond
)

// New starts a Redis server that ends with the test. It keeps what it holds over a stop and a start.
func New(tb testing.TB) *Server {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	if err := listener.Close(); err != nil {
		tb.Fatal(err)
	}
	s := &Server{
		Address:  net.JoinHostPort("127.0.0.1", strconv.Itoa(port)),
		Password: rand.Text(),
		dir:      tb.TempDir(),
		port:     port,
	}
	// The password is in a file: arguments can be read by everyone on the host.
	config := fmt.Sprintf("bind 127.0.0.1\nport %d\nrequirepass %s\ndir %s\nappendonly yes\nappendfsync always\nsave \"\"\ndaemonize no\n",
		s.port, s.Password, s.dir)
	if err := os.WriteFile(s.config(), []byte(config), 0o600); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Stop)
	s.Start(tb)
	return s
}

func (s *Server) config() string { return filepath.Join(s.dir, "redis.conf") }

// Start starts the server, where it was stopped, and returns when it answers.
func (s *Server) Start(tb testing.TB) {
	tb.Helper()
	if s.stop != nil {
		return
	}
	started := make(chan error, 1)
	ended := make(chan struct{})
	command := exec.Command("redis-server", s.config())
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	go func() {
		// The signal comes when the thread that started the process ends, so the thread is kept.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(ended)
		err := command.Start()
		started <- err
		if err == nil {
			_ = command.Wait() // it is killed
		}
	}()
	if err := <-started; err != nil {
		tb.Fatalf("start redis-server (Debian's package redis-server): %v", err)
	}
	s.stop = func() {
		_ = command.Process.Kill() // it may have ended already
		<-ended
	}
	client := s.Client()
	defer func() { _ = client.Close() }()
	deadline := time.Now().Add(startTimeout)
	for {
		err := client.Ping(context.Background()).Err()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			tb.Fatalf("redis-server does not answer: %v", err)
		}
		<-time.After(startInterval)
	}
}

// Stop ends the server at once, as a crash would.
func (s *Server) Stop() {
	if s.stop != nil {
		s.stop()
		s.stop = nil
	}
}

// Lose removes what a stopped server held.
func (s *Server) Lose(tb testing.TB) {
	tb.Helper()
	if err := os.RemoveAll(filepath.Join(s.dir, "appendonlydir")); err != nil {
		tb.Fatal(err)
	}
}

// Flush empties the running server.
func (s *Server) Flush(tb testing.TB) {
	tb.Helper()
	client := s.Client()
	defer func() { _ = client.Close() }()
	if err := client.FlushAll(context.Background()).Err(); err != nil {
		tb.Fatal(err)
	}
}

// Client returns a client of the server; the caller closes it.
func (s *Server) Client() *redis.Client {
	return redis.NewClient(&redis.Options{Addr: s.Address, Password: s.Password, MaxRetries: -1})
}
