package pki

import (
	"crypto"
	"crypto/x509"
	"fmt"
	"io/fs"
	"strings"
	"time"
)

// Renewal is something that Ensure made, and why.
type Renewal struct {
	Name     string
	Reason   string
	NotAfter time.Time // zero for what does not expire
}

// Ensure makes the shared material if the directory is new, and issues every
// leaf certificate that is missing, unreadable, expired or about to, that has
// another subject, names or usages than described, or that another authority
// signed. It returns what was made, for the log.
//
// Everything is checked before anything is written: after an error from a check
// (ErrBrokenCA, *ClockError) the directory is as it was.
func (s *Store) Ensure(leaves []Leaf) ([]Renewal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, err := s.newPlan()
	if err != nil {
		return nil, err
	}
	issuers := map[Authority]*issuer{}
	for _, a := range authorities() {
		if issuers[a], err = p.authority(a); err != nil {
			return nil, err
		}
	}
	if err := p.serviceAccount(); err != nil {
		return nil, err
	}
	if err := p.encryption(); err != nil {
		return nil, err
	}
	for _, l := range leaves {
		ca, ok := issuers[l.CA]
		if !ok {
			return nil, fmt.Errorf("issue certificate %s: unknown authority %q", l.Name, l.CA)
		}
		if err := p.leaf(l, ca); err != nil {
			return nil, err
		}
	}
	for _, f := range p.files {
		if err := f.write(); err != nil {
			return nil, err
		}
	}
	return p.renewals, nil
}

// plan collects what one Ensure is going to write.
type plan struct {
	store    *Store
	now      time.Time
	fresh    bool // no leaf was issued yet: the first start has not finished
	files    []file
	renewals []Renewal
}

func (s *Store) newPlan() (*plan, error) {
	issued, err := s.issuedAny()
	if err != nil {
		return nil, err
	}
	return &plan{store: s, now: s.clock.Now(), fresh: !issued}, nil
}

func (p *plan) add(path string, data []byte, mode fs.FileMode) {
	p.files = append(p.files, file{path: path, data: data, mode: mode})
}

// broken explains damaged shared material and what to do about it.
func (p *plan) broken(path, what string) error {
	return fmt.Errorf("%w: %s: %s: restore the file from a backup or from another server of the cluster; to begin a new cluster instead, move %s away (every node then has to join again)",
		ErrBrokenCA, path, strings.TrimSuffix(what, "."), p.store.dir)
}

// leaf plans the certificate if it has to be issued.
func (p *plan) leaf(l Leaf, ca *issuer) error {
	certPath, keyPath := p.store.CertPath(l.Name), p.store.KeyPath(l.Name)
	certPEM, err := readOptional(certPath)
	if err != nil {
		return fmt.Errorf("read certificate: %w", err)
	}
	keyPEM, err := readOptional(keyPath)
	if err != nil {
		return fmt.Errorf("read certificate key: %w", err)
	}
	key, keyProblem := usableKey(keyPEM)
	reason, err := p.reasonToIssue(l, ca, certPEM, key)
	if err != nil {
		return err
	}
	if reason == "" {
		return nil
	}
	// A key that is intact is kept: then only one file changes, atomically, and
	// a program that reloads the pair never sees halves that do not match. The
	// authority's key lies beside it, so a fresh key would not make it safer.
	if key == nil {
		if certPEM != nil {
			reason = keyProblem
		}
		if key, keyPEM, err = newKey(); err != nil {
			return fmt.Errorf("issue certificate %s: %w", l.Name, err)
		}
		p.add(keyPath, keyPEM, secretMode)
	}
	cert, err := p.issue(l, ca, key)
	if err != nil {
		return fmt.Errorf("issue certificate %s: %w", l.Name, err)
	}
	p.add(certPath, encodeCert(cert), publicMode)
	p.renewals = append(p.renewals, Renewal{Name: l.Name, Reason: reason, NotAfter: cert.NotAfter})
	return nil
}

// usableKey returns the leaf's key, or nil and what is wrong with it.
func usableKey(keyPEM []byte) (crypto.Signer, string) {
	if keyPEM == nil {
		return nil, "key missing"
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, err.Error()
	}
	return key, ""
}

// reasonToIssue says why the leaf has to be issued, or "" if it need not be.
func (p *plan) reasonToIssue(l Leaf, ca *issuer, certPEM []byte, key crypto.Signer) (string, error) {
	if certPEM == nil {
		return "missing", nil
	}
	cert, err := parseCert(certPEM)
	if err != nil {
		return err.Error(), nil
	}
	if key == nil || !publicKeyEqual(cert.PublicKey, key.Public()) {
		return "certificate and key do not belong together", nil
	}
	if err := cert.CheckSignatureFrom(ca.cert); err != nil {
		return "signed by another CA", nil
	}
	if p.now.Before(cert.NotBefore) {
		return "", &ClockError{Path: p.store.CertPath(l.Name), Now: p.now, NotBefore: cert.NotBefore, NotAfter: cert.NotAfter}
	}
	if reason := p.ageReason(cert, ca.cert); reason != "" {
		return reason, nil
	}
	return l.difference(cert), nil
}

func (p *plan) ageReason(cert, ca *x509.Certificate) string {
	left := cert.NotAfter.Sub(p.now)
	if left <= 0 {
		return "expired at " + cert.NotAfter.UTC().Format(time.RFC3339)
	}
	// At the end of the authority's own life a new certificate would not live
	// longer than the old one.
	renewable := cert.NotAfter.Before(ca.NotAfter)
	if renewable && left < cert.NotAfter.Sub(cert.NotBefore)/RenewalFraction {
		return "expires at " + cert.NotAfter.UTC().Format(time.RFC3339)
	}
	return ""
}

// Expiry names the certificate that expires first.
type Expiry struct {
	Name     string
	NotAfter time.Time
}

// NextExpiry returns the first certificate to expire of the authorities and the
// leaves given.
func (s *Store) NextExpiry(leaves []Leaf) (Expiry, error) {
	names := make([]string, 0, len(leaves)+3)
	for _, a := range authorities() {
		names = append(names, string(a))
	}
	for _, l := range leaves {
		names = append(names, l.Name)
	}
	var first Expiry
	for _, name := range names {
		cert, err := readCert(s.CertPath(name))
		if err != nil {
			return Expiry{}, err
		}
		if first.Name == "" || cert.NotAfter.Before(first.NotAfter) {
			first = Expiry{Name: name, NotAfter: cert.NotAfter}
		}
	}
	return first, nil
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlierOf(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
