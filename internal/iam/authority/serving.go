package authority

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

// Serving is the service's own certificate, of this replica alone: it is in memory, and made anew after a restart.
type Serving struct {
	authority *Authority
	leaf      pki.Leaf
	clock     clock.Clock
	logger    *slog.Logger
	pair      Pair // Run's
	current   atomic.Pointer[serving]
}

type serving struct {
	config   *tls.Config
	notAfter time.Time
}

// NewServing describes a certificate for the names given, which are DNS names or addresses.
func NewServing(a *Authority, names []string, clk clock.Clock, logger *slog.Logger) *Serving {
	leaf := pki.Leaf{Name: "iam-server", CA: pki.ClusterCA, CommonName: "plasmacloud-iam", Server: true}
	for _, name := range names {
		if ip, err := netip.ParseAddr(name); err == nil {
			leaf.IPs = append(leaf.IPs, ip)
		} else {
			leaf.DNSNames = append(leaf.DNSNames, name)
		}
	}
	return &Serving{authority: a, leaf: leaf, clock: clk, logger: logger}
}

// Run issues the certificate as soon as the authority is known, and anew before it expires, until ctx ends. It is the
// only one that hears of the authority's changes.
func (s *Serving) Run(ctx context.Context) {
	timer := s.clock.NewTimer(pki.RenewInterval)
	defer timer.Stop()
	for {
		wait := pki.RenewInterval
		if err := s.renew(ctx); err != nil {
			if !errors.Is(err, ErrNotReady) {
				s.logger.ErrorContext(ctx, "issue serving certificate", "error", err)
			}
			wait = retryInterval
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-s.authority.changed:
		case <-timer.C():
		}
	}
}

func (s *Serving) renew(ctx context.Context) error {
	pair, reason, err := s.authority.Issue(s.leaf, s.pair)
	if err != nil {
		return err
	}
	if reason != "" {
		s.logger.InfoContext(ctx, "serving certificate issued", "reason", reason)
	}
	s.pair = pair
	cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return fmt.Errorf("read serving certificate: %w", err)
	}
	s.current.Store(&serving{notAfter: cert.Leaf.NotAfter, config: &tls.Config{
		MinVersion:       tls.VersionTLS13,
		NextProtos:       []string{"h2", "http/1.1"},
		Certificates:     []tls.Certificate{cert},
		ClientCAs:        s.authority.state.Load().pool,
		ClientAuth:       tls.VerifyClientCertIfGiven,
		VerifyConnection: s.verify,
	}})
	return nil
}

// verify refuses connections with a revoked certificate, resumed ones too.
func (s *Serving) verify(connection tls.ConnectionState) error {
	for _, cert := range connection.PeerCertificates {
		if s.authority.Revoked(cert) {
			return fmt.Errorf("the certificate of %s was revoked", cert.Subject.CommonName)
		}
	}
	return nil
}

// Ready says whether there is a certificate.
func (s *Serving) Ready() bool { return s.current.Load() != nil }

// NotAfter is when the certificate expires.
func (s *Serving) NotAfter() time.Time {
	if current := s.current.Load(); current != nil {
		return current.notAfter
	}
	return time.Time{}
}

// TLS is the configuration of a listener. Each connection gets the certificate of the day. Client certificates are
// verified where they are given; who has to have one is for the handlers to say.
func (s *Serving) TLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		NextProtos: []string{"h2", "http/1.1"},
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			current := s.current.Load()
			if current == nil {
				return nil, ErrNotReady
			}
			return current.config, nil
		},
	}
}
