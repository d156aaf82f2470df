// Package server is the identity service on the network: HTTPS in front of review, session and keys. It checks who asks
// and how much, reads requests and writes answers, counts and logs. It decides nothing about tokens or passwords, and no
// secret is in its logs.
package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/go-jose/go-jose/v4"

	"plasmacloud.io/plasmacloud/internal/iam/review"
	"plasmacloud.io/plasmacloud/internal/iam/session"
	"plasmacloud.io/plasmacloud/internal/iam/wire"
)

// Limits of connections and requests.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = 30 * time.Second
	idleTimeout       = 5 * time.Minute // API servers keep their connection
	maxHeaderBytes    = 96 << 10        // a session token of the largest size, and some
	maxReview         = 128 << 10
	maxRequest        = 16 << 10
	stopTimeout       = 20 * time.Second
)

// Keys are published.
type Keys interface{ Public() jose.JSONWebKeySet }

// Config is what a Server works with.
type Config struct {
	// Issuer is the service's URL as tokens name it.
	Issuer   string
	Reviewer *review.Reviewer
	Sessions *session.Service
	Keys     Keys
	// Revoked says which client certificates are refused. It is asked for each request, not only for each connection:
	// those of API servers live long.
	Revoked func(*x509.Certificate) bool
	// Ready says what is missing until requests can be answered; nil for nothing.
	Ready   func() error
	TLS     *tls.Config
	Metrics *Metrics
	Logger  *slog.Logger
	// More is what others serve on the same port, by its pattern. They ask by themselves who calls.
	More map[string]http.Handler
}

// Server answers requests.
type Server struct {
	Config
	discovery []byte
}

// New returns a Server.
func New(config Config) (*Server, error) {
	discovery, err := discoveryDocument(config.Issuer)
	if err != nil {
		return nil, fmt.Errorf("make identity server: %w", err)
	}
	return &Server{Config: config, discovery: discovery}, nil
}

// Handler routes requests. It expects TLS: without, nobody is let in to authenticate.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, limit int64, handler func(http.ResponseWriter, *http.Request) error) {
		mux.Handle(pattern, s.Metrics.instrument(pattern, s.bounded(limit, handler)))
	}
	handle("POST "+wire.PathAuthenticate, maxReview, s.authenticate)
	handle("POST "+wire.PathLogin, maxRequest, s.login)
	handle("POST "+wire.PathRefresh, maxRequest+maxHeaderBytes, s.refresh)
	handle("POST "+wire.PathLogout, maxRequest+maxHeaderBytes, s.logout)
	handle("GET "+wire.PathWhoami, maxRequest, s.whoami)
	handle("POST "+wire.PathPassword, maxRequest, s.password)
	handle("GET "+wire.PathTokens, maxRequest, s.tokens)
	handle("POST "+wire.PathTokens, maxRequest, s.createToken)
	handle("DELETE "+wire.PathTokens+"/{name}", maxRequest, s.revokeToken)
	handle("GET "+wire.PathDiscovery, maxRequest, s.openid)
	handle("GET "+wire.PathKeys, maxRequest, s.keys)
	handle("GET "+wire.PathHealth, maxRequest, s.health)
	handle("GET "+wire.PathReady, maxRequest, s.ready)
	for pattern, handler := range s.More {
		mux.Handle(pattern, handler)
	}
	return mux
}

// bounded limits what is read of a request, and turns errors into answers.
func (s *Server) bounded(limit int64, handler func(http.ResponseWriter, *http.Request) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, limit)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if err := handler(w, r); err != nil {
			s.fail(w, r, err)
		}
	})
}

// Serve answers requests that come to the listener until ctx ends, and then those that are under way.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           s.Handler(),
		TLSConfig:         s.TLS,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(s.Logger.Handler(), slog.LevelDebug), // handshakes that fail
	}
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(listener, "", "") }()
	select {
	case err := <-served:
		return fmt.Errorf("serve identities: %w", err)
	case <-ctx.Done():
	}
	stop, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err := server.Shutdown(stop)
	if err != nil {
		err = errors.Join(err, server.Close())
	}
	<-served
	s.Sessions.Wait()
	if err != nil {
		return fmt.Errorf("stop serving identities: %w", err)
	}
	return nil
}
