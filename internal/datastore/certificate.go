package datastore

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"slices"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

// authority signs certificates, in memory.
type authority struct {
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte // the certificate's
}

// leaf describes a certificate that should exist.
type leaf struct {
	name           string // the subject's
	client, server bool
	dns            []string
	ips            []net.IP
}

// newAuthority makes an authority and returns it as it is stored.
func newAuthority(name string, now time.Time) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	serial, err := newSerial()
	if err != nil {
		return Pair{}, err
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: name},
		NotBefore: now.Add(-pki.Backdate), NotAfter: now.Add(pki.AuthorityLifetime),
		KeyUsage: x509.KeyUsageCertSign, BasicConstraintsValid: true, IsCA: true, MaxPathLenZero: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return Pair{}, err
	}
	return encode(der, key)
}

func parseAuthority(pair Pair) (*authority, error) {
	loaded, err := tls.X509KeyPair(pair.Cert, pair.Key)
	if err != nil {
		return nil, fmt.Errorf("read certificate authority: %w", err)
	}
	signer, ok := loaded.PrivateKey.(crypto.Signer)
	if !ok || !loaded.Leaf.IsCA {
		return nil, errors.New("read certificate authority: it is none")
	}
	return &authority{cert: loaded.Leaf, key: signer, pem: bytes.Clone(pair.Cert)}, nil
}

// issue signs a certificate with a key of its own.
func (a *authority) issue(l leaf, lifetime time.Duration, now time.Time) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, err
	}
	serial, err := newSerial()
	if err != nil {
		return Pair{}, err
	}
	notAfter := now.Add(lifetime)
	if notAfter.After(a.cert.NotAfter) {
		notAfter = a.cert.NotAfter
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: l.name},
		NotBefore: now.Add(-pki.Backdate), NotAfter: notAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: l.usages(), BasicConstraintsValid: true,
		DNSNames: l.dns, IPAddresses: l.ips,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("issue certificate %s: %w", l.name, err)
	}
	return encode(der, key)
}

// keep returns the pair that is there as long as it is the one described and not due, and otherwise a new one.
func (a *authority) keep(have Pair, l leaf, now time.Time) (pair Pair, renewed bool, err error) {
	if a.fits(have, l, now) {
		return have, false, nil
	}
	pair, err = a.issue(l, pki.LeafLifetime, now)
	return pair, true, err
}

func (a *authority) fits(have Pair, l leaf, now time.Time) bool {
	loaded, err := tls.X509KeyPair(have.Cert, have.Key)
	if err != nil {
		return false
	}
	cert := loaded.Leaf
	due := cert.NotAfter.Add(-cert.NotAfter.Sub(cert.NotBefore) / pki.RenewalFraction)
	return cert.CheckSignatureFrom(a.cert) == nil && now.After(cert.NotBefore) && now.Before(due) &&
		cert.Subject.CommonName == l.name && slices.Equal(cert.ExtKeyUsage, l.usages()) &&
		slices.Equal(cert.DNSNames, l.dns) && slices.EqualFunc(cert.IPAddresses, l.ips, net.IP.Equal)
}

func (l leaf) usages() []x509.ExtKeyUsage {
	var usages []x509.ExtKeyUsage
	if l.client {
		usages = append(usages, x509.ExtKeyUsageClientAuth)
	}
	if l.server {
		usages = append(usages, x509.ExtKeyUsageServerAuth)
	}
	return usages
}

// pool trusts the authority and nobody else.
func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

func newSerial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
}

func encode(der []byte, key *ecdsa.PrivateKey) (Pair, error) {
	content, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{
		Cert: pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: der}),
		Key:  pem.EncodeToMemory(&pem.Block{Type: keyutil.ECPrivateKeyBlockType, Bytes: content}),
	}, nil
}

func userLeaf(user string) leaf { return leaf{name: user, client: true} }
