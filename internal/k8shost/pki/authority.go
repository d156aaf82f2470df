package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// Authority names a certificate authority of the cluster.
type Authority string

const (
	// ClusterCA signs the API server, the kubelets and every client of the API.
	ClusterCA Authority = "ca"
	// FrontProxyCA signs the client certificate with which the API server
	// speaks for users to aggregated API servers; it is separate because its
	// certificates may claim any user.
	FrontProxyCA Authority = "front-proxy-ca"
	// EtcdCA signs etcd's members and clients; it is separate because etcd
	// gives all its data to any client it trusts.
	EtcdCA Authority = "etcd/ca"
)

const (
	serviceAccountKey       = "sa.key"
	serviceAccountPublicKey = "sa.pub"
	encryptionConfig        = "encryption-config.yaml"
)

// authorities are in the order in which they are made.
func authorities() []Authority { return []Authority{ClusterCA, FrontProxyCA, EtcdCA} }

func (a Authority) commonName() string {
	return "k8shost-" + strings.ReplaceAll(string(a), "/", "-")
}

// issuer is a loaded authority.
type issuer struct {
	cert *x509.Certificate
	key  crypto.Signer
}

// authority loads an authority or, on a fresh directory, makes it; files to be
// written are added to p. The key goes before the certificate: a lone key is
// what a crash in the middle of the first start leaves, a lone certificate is
// damage.
func (p *plan) authority(a Authority) (*issuer, error) {
	certPath, keyPath := p.store.CAPath(a), p.store.KeyPath(string(a))
	certPEM, err := readOptional(certPath)
	if err != nil {
		return nil, fmt.Errorf("read CA: %w", err)
	}
	keyPEM, err := readOptional(keyPath)
	if err != nil {
		return nil, fmt.Errorf("read CA: %w", err)
	}
	switch {
	case certPEM == nil && keyPEM == nil:
		if !p.fresh {
			return nil, p.broken(certPath, "it is missing, and so is its key, but certificates have been issued already")
		}
		return p.makeAuthority(a, nil)
	case certPEM == nil:
		if !p.fresh {
			return nil, p.broken(certPath, "it is missing, but certificates have been issued already")
		}
		key, err := parseKey(keyPEM)
		if err != nil {
			return nil, p.broken(keyPath, err.Error())
		}
		return p.makeAuthority(a, key)
	case keyPEM == nil:
		return nil, p.broken(keyPath, "the key is missing while the certificate is there")
	}
	ca, err := parseIssuer(certPEM, keyPEM)
	if err != nil {
		return nil, p.broken(certPath, err.Error())
	}
	if p.now.Before(ca.cert.NotBefore) || p.now.After(ca.cert.NotAfter) {
		return nil, &ClockError{Path: certPath, Now: p.now, NotBefore: ca.cert.NotBefore, NotAfter: ca.cert.NotAfter}
	}
	return ca, nil
}

// makeAuthority makes an authority for key, or for a new key if that is nil.
func (p *plan) makeAuthority(a Authority, key crypto.Signer) (*issuer, error) {
	if key == nil {
		made, keyPEM, err := newKey()
		if err != nil {
			return nil, fmt.Errorf("make %s: %w", a, err)
		}
		key = made
		p.add(p.store.KeyPath(string(a)), keyPEM, secretMode)
	}
	serial, err := newSerial()
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", a, err)
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: a.commonName()},
		NotBefore:             p.now.Add(-Backdate),
		NotAfter:              p.now.Add(AuthorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", a, err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make %s: %w", a, err)
	}
	p.add(p.store.CAPath(a), encodeCert(cert), publicMode)
	p.renewals = append(p.renewals, Renewal{Name: string(a), Reason: "missing", NotAfter: cert.NotAfter})
	return &issuer{cert: cert, key: key}, nil
}

// serviceAccount makes or checks the key pair that signs service-account
// tokens. sa.pub may hold further keys whose tokens are still accepted.
func (p *plan) serviceAccount() error {
	keyPath, pubPath := p.store.ServiceAccountKeyPath(), p.store.ServiceAccountPublicKeyPath()
	keyPEM, err := readOptional(keyPath)
	if err != nil {
		return fmt.Errorf("read service-account key: %w", err)
	}
	pubPEM, err := readOptional(pubPath)
	if err != nil {
		return fmt.Errorf("read service-account key: %w", err)
	}
	var key crypto.Signer
	switch {
	case keyPEM != nil:
		if key, err = parseKey(keyPEM); err != nil {
			return p.broken(keyPath, err.Error())
		}
	case pubPEM != nil || !p.fresh:
		return p.broken(keyPath, "the service-account key is missing, but tokens have been signed with it already")
	default:
		if key, keyPEM, err = newKey(); err != nil {
			return fmt.Errorf("make service-account key: %w", err)
		}
		p.add(keyPath, keyPEM, secretMode)
		p.renewals = append(p.renewals, Renewal{Name: "sa", Reason: "missing"})
	}
	if pubPEM == nil {
		pubPEM, err := encodePublicKey(key)
		if err != nil {
			return fmt.Errorf("make service-account key: %w", err)
		}
		p.add(pubPath, pubPEM, publicMode)
		return nil
	}
	if err := checkPublicKey(pubPEM, key); err != nil {
		return p.broken(pubPath, err.Error())
	}
	return nil
}

// issuedAny says whether leaf certificates exist: from then on shared material
// that is missing is damage, not an unfinished first start.
func (s *Store) issuedAny() (bool, error) {
	cas := map[string]bool{}
	for _, a := range authorities() {
		cas[s.CAPath(a)] = true
	}
	issued := false
	err := filepath.WalkDir(s.dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if !entry.IsDir() && filepath.Ext(path) == certSuffix && !cas[path] {
			issued = true
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		return false, fmt.Errorf("read certificates: %w", err)
	}
	return issued, nil
}

// parseIssuer checks that the two belong together and make an authority.
func parseIssuer(certPEM, keyPEM []byte) (*issuer, error) {
	cert, err := parseCert(certPEM)
	if err != nil {
		return nil, err
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, err
	}
	if !publicKeyEqual(cert.PublicKey, key.Public()) {
		return nil, errors.New("the certificate and the key do not belong together")
	}
	if !cert.IsCA {
		return nil, errors.New("the certificate is not one of an authority")
	}
	return &issuer{cert: cert, key: key}, nil
}

func newKey() (crypto.Signer, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	return key, keyPEM, err
}

func parseKey(keyPEM []byte) (crypto.Signer, error) {
	key, err := keyutil.ParsePrivateKeyPEM(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("the key is unreadable: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("the key cannot sign: it is a %T", key)
	}
	return signer, nil
}

func parseCert(certPEM []byte) (*x509.Certificate, error) {
	certs, err := certutil.ParseCertsPEM(certPEM)
	if err != nil {
		return nil, fmt.Errorf("the certificate is unreadable: %w", err)
	}
	return certs[0], nil
}

func readCert(path string) (*x509.Certificate, error) {
	certPEM, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read certificate: %w", err)
	}
	cert, err := parseCert(certPEM)
	if err != nil {
		return nil, fmt.Errorf("read certificate %s: %w", path, err)
	}
	return cert, nil
}

func encodeCert(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: cert.Raw})
}

func encodePublicKey(key crypto.Signer) ([]byte, error) {
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: keyutil.PublicKeyBlockType, Bytes: der}), nil
}

func checkPublicKey(pubPEM []byte, key crypto.Signer) error {
	publics, err := keyutil.ParsePublicKeysPEM(pubPEM)
	if err != nil {
		return fmt.Errorf("the public keys are unreadable: %w", err)
	}
	for _, public := range publics {
		if publicKeyEqual(public, key.Public()) {
			return nil
		}
	}
	return fmt.Errorf("none of the public keys belongs to %s", serviceAccountKey)
}

func publicKeyEqual(a, b crypto.PublicKey) bool {
	key, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && key.Equal(b)
}
