package pki

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Leaf describes a certificate that should exist.
type Leaf struct {
	// Name is the path of the certificate within the store, without suffix.
	Name string
	// CA is the authority that signs it.
	CA Authority
	// CommonName and Organizations are what Kubernetes takes as the user and
	// its groups.
	CommonName    string
	Organizations []string
	// Client and Server say at which end of a connection it may be used.
	Client, Server bool
	// DNSNames and IPs are the names it serves under.
	DNSNames []string
	IPs      []netip.Addr
}

func (l Leaf) usages() []x509.ExtKeyUsage {
	var usages []x509.ExtKeyUsage
	if l.Client {
		usages = append(usages, x509.ExtKeyUsageClientAuth)
	}
	if l.Server {
		usages = append(usages, x509.ExtKeyUsageServerAuth)
	}
	return usages
}

// names are the subject alternative names in a comparable form.
func (l Leaf) names() []string {
	names := make([]string, 0, len(l.DNSNames)+len(l.IPs))
	for _, name := range l.DNSNames {
		names = append(names, strings.ToLower(name))
	}
	for _, ip := range l.IPs {
		names = append(names, ip.Unmap().String())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func certNames(cert *x509.Certificate) []string {
	names := slices.Clone(cert.DNSNames)
	for _, ip := range cert.IPAddresses {
		if addr, ok := netip.AddrFromSlice(ip); ok {
			names = append(names, addr.Unmap().String())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// difference says in what way the certificate is not the one described, or "".
func (l Leaf) difference(cert *x509.Certificate) string {
	if cert.Subject.CommonName != l.CommonName || !sameSet(cert.Subject.Organization, l.Organizations) {
		return fmt.Sprintf("subject changed from %q to %q", cert.Subject.String(), l.subject().String())
	}
	have, want := certNames(cert), l.names()
	if added := without(want, have); len(added) > 0 {
		return "names added: " + strings.Join(added, ", ")
	}
	if removed := without(have, want); len(removed) > 0 {
		return "names removed: " + strings.Join(removed, ", ")
	}
	if !sameSet(cert.ExtKeyUsage, l.usages()) {
		return "usages changed"
	}
	return ""
}

func (l Leaf) subject() pkix.Name {
	return pkix.Name{CommonName: l.CommonName, Organization: l.Organizations}
}

// issue signs a certificate for key, valid from now on, but no longer than the
// authority itself.
func (p *plan) issue(l Leaf, ca *issuer, key crypto.Signer) (*x509.Certificate, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               l.subject(),
		NotBefore:             laterOf(p.now.Add(-Backdate), ca.cert.NotBefore),
		NotAfter:              earlierOf(p.now.Add(LeafLifetime), ca.cert.NotAfter),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           l.usages(),
		BasicConstraintsValid: true,
	}
	for _, name := range l.names() {
		if ip, err := netip.ParseAddr(name); err == nil {
			template.IPAddresses = append(template.IPAddresses, net.IP(ip.AsSlice()))
		} else {
			template.DNSNames = append(template.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// newSerial returns 127 random bits: unique without a counter that servers
// would have to share.
func newSerial() (*big.Int, error) {
	return rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
}

func sameSet[T interface{ ~string | ~int }](a, b []T) bool {
	return len(without(a, b)) == 0 && len(without(b, a)) == 0
}

// without returns the elements of a that are not in b.
func without[T comparable](a, b []T) []T {
	return slices.DeleteFunc(slices.Clone(a), func(v T) bool { return slices.Contains(b, v) })
}
