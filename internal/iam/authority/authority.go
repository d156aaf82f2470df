// Package authority is the identity service's own certificate authority. It certifies the service itself and the API
// servers that ask it about tokens, renews those certificates before they expire, and knows which were revoked.
//
// The authority's keys are in a Secret that all replicas share. Certificates are made by package pki of k8shost, which
// works on files: for the moment of issuing, its material is in a directory of its own.
package authority

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

const (
	// SecretName is the Secret that holds the authority.
	SecretName = "iam-authority"

	bundleKey  = "bundle.json"  // the keys, as pki.Bundle writes them
	caKey      = "ca.crt"       // the certificate alone, for those who need no more
	revokedKey = "revoked.json" // []Revocation

	retryInterval = 10 * time.Second
)

// ErrNotReady says that the authority is not known: the service has not heard from the API server yet.
var ErrNotReady = errors.New("the certificate authority is not known yet")

// ErrOther says that there is an authority already, and not the one that was to be adopted.
var ErrOther = errors.New("there is another certificate authority")

// Pair is a certificate and its key, in PEM.
type Pair struct{ Cert, Key []byte }

// String keeps the key out of logs.
func (p Pair) String() string { return "certificate and key (redacted)" }

// GoString keeps it out of %#v as well.
func (p Pair) GoString() string { return p.String() }

// Revocation refuses certificates before they expire: the one with this serial number, and all of a subject that were
// issued earlier.
type Revocation struct {
	Serial     string    `json:"serial"`
	CommonName string    `json:"commonName"`
	Issued     time.Time `json:"issued"`
	At         time.Time `json:"at"`
	// Until is when the last of them has expired, and the entry goes.
	Until time.Time `json:"until"`
}

// Record is the Secret, as package store keeps it.
type Record interface {
	Watch(ctx context.Context, changed func(*corev1.Secret)) error
	Update(ctx context.Context, change func(*corev1.Secret) (bool, error)) error
}

// Authority issues and revokes certificates.
type Authority struct {
	record  Record
	clock   clock.Clock
	logger  *slog.Logger
	scratch string
	state   atomic.Pointer[state]
	changed chan struct{}
}

// state is the Secret, understood. It does not change.
type state struct {
	bundle   *pki.Bundle
	ca       []byte
	pool     *x509.CertPool
	revoked  map[string]bool // by serial number
	subjects map[string]time.Time
}

// New returns an Authority that issues in directories below scratch, the system's for temporary files where that is
// empty.
func New(record Record, scratch string, clk clock.Clock, logger *slog.Logger) *Authority {
	return &Authority{record: record, clock: clk, logger: logger, scratch: scratch, changed: make(chan struct{}, 1)}
}

// Run makes the authority if there is none, and follows its Secret until ctx ends.
func (a *Authority) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := make(chan error, 1)
	go func() { watch <- a.record.Watch(ctx, func(secret *corev1.Secret) { a.heard(ctx, secret) }) }()
	timer := a.clock.NewTimer(retryInterval)
	defer timer.Stop()
	for {
		err := a.ensure(ctx)
		if err == nil {
			return <-watch
		}
		if ctx.Err() == nil {
			a.logger.ErrorContext(ctx, "make certificate authority", "error", err)
		}
		timer.Reset(retryInterval)
		select {
		case err := <-watch:
			return err
		case <-timer.C():
		}
	}
}

func (a *Authority) ensure(ctx context.Context) error {
	return a.record.Update(ctx, func(secret *corev1.Secret) (bool, error) {
		if _, ok := secret.Data[bundleKey]; ok {
			return false, nil
		}
		bundle, err := a.newBundle()
		if err != nil {
			return false, err
		}
		a.logger.InfoContext(ctx, "certificate authority made", "secret", SecretName)
		return true, put(secret, bundle)
	})
}

// Adopt makes the authority the one of the bundle: of a management cluster, whose API server needs its certificate before
// there is an API to keep a Secret in. An authority that is there stays; another one is ErrOther.
func (a *Authority) Adopt(ctx context.Context, bundle *pki.Bundle) error {
	return a.record.Update(ctx, func(secret *corev1.Secret) (bool, error) {
		data, ok := secret.Data[bundleKey]
		if !ok {
			return true, put(secret, bundle)
		}
		have, err := pki.UnmarshalBundle(data)
		if err != nil {
			return false, err
		}
		if !have.Equal(bundle) {
			return false, ErrOther
		}
		return false, nil
	})
}

// Bundle reads the authority's keys from its Secret.
func (a *Authority) Bundle(ctx context.Context) (*pki.Bundle, error) {
	var bundle *pki.Bundle
	err := a.record.Update(ctx, func(secret *corev1.Secret) (bool, error) {
		data, ok := secret.Data[bundleKey]
		if !ok {
			return false, ErrNotReady
		}
		var err error
		bundle, err = pki.UnmarshalBundle(data)
		return false, err
	})
	return bundle, err
}

func put(secret *corev1.Secret, bundle *pki.Bundle) error {
	data, err := bundle.Marshal()
	if err != nil {
		return err
	}
	secret.Data[bundleKey], secret.Data[caKey] = data, bundle.ClusterCA()
	return nil
}

// heard takes over what the Secret says. One that is gone or damaged changes nothing: certificates that were issued are
// good, and nobody is locked out by a mistake.
func (a *Authority) heard(ctx context.Context, secret *corev1.Secret) {
	if secret == nil {
		a.logger.ErrorContext(ctx, "the certificate authority's Secret was deleted: restore it, or restart to make another")
		return
	}
	next, err := read(secret)
	if err != nil {
		a.logger.ErrorContext(ctx, "keep the certificate authority as it was", "error", err)
		return
	}
	a.state.Store(next)
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

func read(secret *corev1.Secret) (*state, error) {
	bundle, err := pki.UnmarshalBundle(secret.Data[bundleKey])
	if err != nil {
		return nil, err
	}
	s := &state{
		bundle: bundle, ca: bundle.ClusterCA(), pool: x509.NewCertPool(),
		revoked: map[string]bool{}, subjects: map[string]time.Time{},
	}
	if !s.pool.AppendCertsFromPEM(s.ca) {
		return nil, errors.New("read certificate authority: there is no certificate")
	}
	revocations, err := revocationsOf(secret)
	if err != nil {
		return nil, err
	}
	for _, r := range revocations {
		s.revoked[r.Serial] = true
		if r.CommonName != "" && s.subjects[r.CommonName].Before(r.Issued) {
			s.subjects[r.CommonName] = r.Issued
		}
	}
	return s, nil
}

func revocationsOf(secret *corev1.Secret) ([]Revocation, error) {
	data, ok := secret.Data[revokedKey]
	if !ok {
		return nil, nil
	}
	var revocations []Revocation
	if err := json.Unmarshal(data, &revocations); err != nil {
		return nil, fmt.Errorf("read revoked certificates: %w", err)
	}
	return revocations, nil
}

// Ready says whether the authority is known.
func (a *Authority) Ready() bool { return a.state.Load() != nil }

// CA is the authority's certificate, in PEM.
func (a *Authority) CA() ([]byte, error) {
	s := a.state.Load()
	if s == nil {
		return nil, ErrNotReady
	}
	return s.ca, nil
}

// Issue returns the certificate that the leaf describes: the one that is there, as long as it does, and otherwise a new
// one, with the reason why. The key is kept if there is one.
func (a *Authority) Issue(leaf pki.Leaf, have Pair) (Pair, string, error) {
	s := a.state.Load()
	if s == nil {
		return Pair{}, "", ErrNotReady
	}
	dir, err := os.MkdirTemp(a.scratch, "iam-authority-")
	if err != nil {
		return Pair{}, "", fmt.Errorf("issue certificate %s: %w", leaf.CommonName, err)
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			a.logger.Error("remove scratch directory", "directory", dir, "error", err)
		}
	}()
	pair, reason, err := issue(dir, s.bundle, leaf, have, a.clock)
	if err != nil {
		return Pair{}, "", fmt.Errorf("issue certificate %s: %w", leaf.CommonName, err)
	}
	return pair, reason, nil
}

func issue(dir string, bundle *pki.Bundle, leaf pki.Leaf, have Pair, clk clock.PassiveClock) (Pair, string, error) {
	if err := pki.WriteBundle(dir, bundle); err != nil {
		return Pair{}, "", err
	}
	store := pki.New(dir, clk)
	files := map[string][]byte{store.CertPath(leaf.Name): have.Cert, store.KeyPath(leaf.Name): have.Key}
	for path, content := range files {
		if len(content) == 0 {
			continue
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return Pair{}, "", err
		}
	}
	renewals, err := store.Ensure([]pki.Leaf{leaf})
	if err != nil || len(renewals) == 0 {
		return have, "", err
	}
	var pair Pair
	if pair.Cert, err = os.ReadFile(store.CertPath(leaf.Name)); err != nil {
		return Pair{}, "", err
	}
	if pair.Key, err = os.ReadFile(store.KeyPath(leaf.Name)); err != nil {
		return Pair{}, "", err
	}
	return pair, renewals[0].Reason, nil
}

// newBundle makes the keys of an authority.
func (a *Authority) newBundle() (*pki.Bundle, error) {
	dir, err := os.MkdirTemp(a.scratch, "iam-authority-")
	if err != nil {
		return nil, err
	}
	_, err = pki.New(dir, a.clock).Ensure(nil)
	var bundle *pki.Bundle
	if err == nil {
		bundle, err = pki.ReadBundle(dir)
	}
	return bundle, errors.Join(err, os.RemoveAll(dir))
}

// Revoke refuses a certificate, and all that were issued to the same subject before, from now on.
func (a *Authority) Revoke(ctx context.Context, cert *x509.Certificate) error {
	now := a.clock.Now().UTC()
	return a.record.Update(ctx, func(secret *corev1.Secret) (bool, error) {
		revocations, err := revocationsOf(secret)
		if err != nil {
			return false, err
		}
		serial := cert.SerialNumber.String()
		revocations = slices.DeleteFunc(revocations, func(r Revocation) bool { return r.Serial == serial || r.Until.Before(now) })
		revocations = append(revocations, Revocation{
			Serial: serial, CommonName: cert.Subject.CommonName, Issued: cert.NotBefore.UTC(), At: now, Until: cert.NotAfter.UTC(),
		})
		secret.Data[revokedKey], err = json.Marshal(revocations)
		return true, err
	})
}

// Revoked says whether the certificate was revoked.
func (a *Authority) Revoked(cert *x509.Certificate) bool {
	s := a.state.Load()
	return s != nil && (s.revoked[cert.SerialNumber.String()] || cert.NotBefore.Before(s.subjects[cert.Subject.CommonName]))
}
