package command

import (
	"crypto/x509"
	"encoding/pem"
	"slices"
	"testing"
)

func TestProgramsTrustWhomTheInternetTrusts(t *testing.T) {
	var names []string
	for rest := authorities(); ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		certificate, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, certificate.Subject.CommonName)
	}
	for _, cloud := range []string{"Amazon Root CA 1", "GTS Root R1", "DigiCert Global Root G2"} { // of AWS, Google and Azure
		if !slices.Contains(names, cloud) {
			t.Errorf("%s is not among %d authorities", cloud, len(names))
		}
	}
}
