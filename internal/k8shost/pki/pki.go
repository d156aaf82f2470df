// Package pki keeps the secrets a k8shost cluster stands on, as files of one
// directory (<data-dir>/server/tls): the certificate authorities, the
// service-account key pair, the key that encrypts Secrets at rest, and the
// certificates of the node's own components.
//
// What belongs here: making, checking, renewing and exporting that material,
// and the kubeconfigs that point at it. What does not: starting the programs
// that use it (component), and moving it between hosts (join).
//
// Two kinds of files live in the directory. Shared material (authorities,
// service-account keys, encryption configuration) is the same on every server
// of a cluster; it is made once and never replaced, but for the keys that encrypt
// Secrets, which can be rotated. Leaf certificates belong to one node; they are derived from the shared material and the configuration and
// are issued again whenever they no longer fit.
package pki

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// AuthorityLifetime is how long a CA certificate is valid: longer than any
	// host lives, because replacing a CA means that every node joins again.
	AuthorityLifetime = 10 * 365 * 24 * time.Hour

	// LeafLifetime is how long every other certificate is valid.
	LeafLifetime = 365 * 24 * time.Hour

	// RenewalFraction is the part of a certificate's lifetime, counted from its
	// end, in which it is renewed: the last third. For a year that is four
	// months: a renewal that fails (a full disk, a host switched off for a
	// season) leaves time to be noticed before anything stops working.
	RenewalFraction = 3

	// Backdate moves NotBefore into the past: a certificate is used within
	// milliseconds of being issued, also by hosts whose clocks run somewhat
	// behind the issuer's.
	Backdate = 5 * time.Minute
)

// ErrBrokenCA marks shared material that is incomplete or contradicts itself.
// It is never repaired silently: certificates, tokens and stored Secrets made
// with it would stop working all over the cluster.
var ErrBrokenCA = errors.New("broken CA")

// ClockError says that a certificate and this host's clock disagree.
type ClockError struct {
	Path                string
	Now                 time.Time
	NotBefore, NotAfter time.Time
}

func (e *ClockError) Error() string {
	now := e.Now.UTC().Format(time.RFC3339)
	if e.Now.Before(e.NotBefore) {
		return fmt.Sprintf("certificate %s is valid from %s only, but this host's clock says %s: set the clock right and start again (nothing was changed)",
			e.Path, e.NotBefore.UTC().Format(time.RFC3339), now)
	}
	return fmt.Sprintf("certificate authority %s expired at %s, and this host's clock says %s: set the clock right if it is wrong; an authority that really expired has to be replaced, and every node has to join again (nothing was changed)",
		e.Path, e.NotAfter.UTC().Format(time.RFC3339), now)
}

// Store is the directory of a node's certificates and shared secrets. Its
// methods may be called concurrently.
type Store struct {
	dir   string
	clock clock.PassiveClock
	mu    sync.Mutex // one writer at a time: the renewer and the launcher share a Store
}

// New returns the store kept in dir, which need not exist yet. Paths handed out
// are absolute if dir is: kubeconfigs refer to them from elsewhere.
func New(dir string, clk clock.PassiveClock) *Store {
	return &Store{dir: filepath.Clean(dir), clock: clk}
}

// Dir is the directory of the store.
func (s *Store) Dir() string { return s.dir }

// CertPath is the file of the named certificate: a Leaf's name or an Authority.
func (s *Store) CertPath(name string) string { return s.path(name + certSuffix) }

// KeyPath is the file of the private key of the named certificate.
func (s *Store) KeyPath(name string) string { return s.path(name + keySuffix) }

// CAPath is the file of the authority's certificate.
func (s *Store) CAPath(a Authority) string { return s.CertPath(string(a)) }

// ServiceAccountKeyPath is the private key that signs service-account tokens.
func (s *Store) ServiceAccountKeyPath() string { return s.path(serviceAccountKey) }

// ServiceAccountPublicKeyPath holds the public keys that verify them.
func (s *Store) ServiceAccountPublicKeyPath() string { return s.path(serviceAccountPublicKey) }

// EncryptionConfigPath is the API server's encryption configuration.
func (s *Store) EncryptionConfigPath() string { return s.path(encryptionConfig) }

func (s *Store) path(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }
