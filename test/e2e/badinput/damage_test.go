//go:build e2e

package badinput

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// otherVersions has the server believe that its data were written by other versions than it could follow upon.
func (s *scenario) otherVersions(t *testing.T) {
	s.server.Stop(t)
	file := s.server.Data.Path("version.json")
	intact, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	defer write(t, file, intact)
	for content, wants := range map[string][]string{
		`{"kubernetes":"v1.99.1"}`: {"last used by Kubernetes v1.99.1", "is older"},
		`{"kubernetes":"v1.20.0"}`: {"last used by Kubernetes v1.20.0", "skips a minor version"},
		`{"kubernetes":`:           {"read version of data directory", file},
		`{"kubernetes":"soon"}`:    {"read version of data directory", `"soon" is no version`},
	} {
		write(t, file, []byte(content))
		refuses(t, s.server, serve(s.server), wants...)
	}
}

func (s *scenario) brokenAuthorities(t *testing.T) {
	tls := s.server.Data.TLS()
	backup := filepath.Join(t.TempDir(), "tls")
	copyAll(t, backup, tls)
	for name, c := range map[string]struct {
		damage func(t *testing.T)
		wants  []string
	}{
		"the key of another CA": {func(t *testing.T) {
			_, key := authority(t, time.Now())
			write(t, filepath.Join(tls, "ca.key"), key)
		}, []string{"broken CA", "do not belong together", "restore the file from a backup"}},
		"no key": {func(t *testing.T) { remove(t, filepath.Join(tls, "ca.key")) },
			[]string{"broken CA", "the key is missing"}},
		"no certificate": {func(t *testing.T) { remove(t, filepath.Join(tls, "etcd", "ca.crt")) },
			[]string{"broken CA", "certificates have been issued already"}},
		"no authority at all": {func(t *testing.T) {
			remove(t, filepath.Join(tls, "front-proxy-ca.crt"))
			remove(t, filepath.Join(tls, "front-proxy-ca.key"))
		}, []string{"broken CA", "front-proxy-ca.crt"}},
		"a torn certificate": {func(t *testing.T) { write(t, filepath.Join(tls, "ca.crt"), []byte("-----BEGIN CERT")) },
			[]string{"broken CA", "unreadable"}},
		"no key for service accounts": {func(t *testing.T) { remove(t, filepath.Join(tls, "sa.key")) },
			[]string{"broken CA", "service-account key is missing"}},
		"no key for Secrets": {func(t *testing.T) { remove(t, filepath.Join(tls, "encryption-config.yaml")) },
			[]string{"encryption-config.yaml"}},
		"an authority of tomorrow": {func(t *testing.T) {
			certificate, key := authority(t, time.Now().Add(24*time.Hour))
			write(t, filepath.Join(tls, "ca.crt"), certificate)
			write(t, filepath.Join(tls, "ca.key"), key)
		}, []string{"is valid from", "this host's clock says", "set the clock right"}},
		"an authority of yesteryear": {func(t *testing.T) {
			certificate, key := authority(t, time.Now().AddDate(-20, 0, 0))
			write(t, filepath.Join(tls, "ca.crt"), certificate)
			write(t, filepath.Join(tls, "ca.key"), key)
		}, []string{"expired at", "this host's clock says"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.damage(t)
			refuses(t, s.server, serve(s.server), c.wants...)
			if err := os.RemoveAll(tls); err != nil {
				t.Fatal(err)
			}
			copyAll(t, tls, backup)
		})
	}
}

func (s *scenario) end(t *testing.T) {
	s.server.Restart(t)
	if got := s.server.Kubectl(t, "get", "configmap", "kept", "-o", "jsonpath={.data.word}"); got != "yes" {
		t.Errorf("the ConfigMap says %q", got)
	}
	s.server.AwaitNodeReady(t, s.agent.Name)
}

// authority makes a certificate authority that is valid for ten years from a time on.
func authority(t *testing.T, from time.Time) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "k8shost-ca"},
		NotBefore: from, NotAfter: from.AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: encoded})
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
}

func copyAll(t *testing.T, to, from string) {
	t.Helper()
	if output, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("copy: %v: %s", err, output)
	}
}
