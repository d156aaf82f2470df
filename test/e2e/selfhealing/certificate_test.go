//go:build e2e

package selfhealing

import (
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"time"

	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// aged returns a certificate like the one given that was made a year ago, and ends next week.
func aged(caCert, caKey, cert []byte) ([]byte, error) {
	authorities, err := certutil.ParseCertsPEM(caCert)
	if err != nil {
		return nil, err
	}
	key, err := keyutil.ParsePrivateKeyPEM(caKey)
	if err != nil {
		return nil, err
	}
	certificates, err := certutil.ParseCertsPEM(cert)
	if err != nil {
		return nil, err
	}
	template := certificates[0]
	if template.PublicKey == nil {
		return nil, errors.New("the certificate has no key")
	}
	template.NotBefore, template.NotAfter = time.Now().Add(-358*24*time.Hour), time.Now().Add(7*24*time.Hour)
	template.SignatureAlgorithm = x509.UnknownSignatureAlgorithm
	der, err := x509.CreateCertificate(rand.Reader, template, authorities[0], template.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: der}), nil
}
