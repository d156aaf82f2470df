package byoclab

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/test/e2e/lab"
)

// Where things are in the platform.
const (
	System = "plasmacloud-system"
	Team   = "project-default"
)

// Platform is one that is installed, as its users have it.
type Platform interface {
	Cloud(t testing.TB, args ...string) string
	TryCloud(args ...string) (string, error)
	Kubectl(t testing.TB, args ...string) string
	TryKubectl(args ...string) (string, error)
}

// Product is the platform on a node, for scenarios that go through the whole of it.
type Product struct{ *lab.Node }

// Listen takes a free port of the node's address.
func (p Product) Listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := p.Node.Listen(p.IP + ":0")
	must(t, err)
	return listener
}

// Serve serves on the node, and returns where.
func (p Product) Serve(t *testing.T, handler http.Handler) string {
	t.Helper()
	listener := p.Listen(t)
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until it is closed
	return "http://" + listener.Addr().String()
}

// ServeTLS is Serve over TLS. Those who shall trust it get the certificate.
func (p Product) ServeTLS(t *testing.T, handler http.Handler) (address, authority string) {
	t.Helper()
	listener := p.Listen(t)
	certificate, authority := selfSigned(t, p.IP)
	listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until it is closed
	return "https://" + listener.Addr().String(), authority
}

// selfSigned is a certificate for an address, and the same as those get it who shall trust it.
func selfSigned(t *testing.T, address string) (tls.Certificate, string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.ParseIP(address)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// Settings tells deployers of a cloud where it is, as an operator would of private endpoints.
func (p Product) Settings(t *testing.T, cloud string, environment map[string]string) {
	t.Helper()
	args := []string{"create", "configmap", "deployer-" + cloud, "-n", System}
	for name, value := range environment {
		args = append(args, "--from-literal="+name+"="+value)
	}
	p.Kubectl(t, args...)
}

// Planned is what the latest task of an operation on a cluster has planned.
func (p Product) Planned(t *testing.T, name, operation string) string {
	t.Helper()
	return planned(t, p.Node, name, operation)
}

func planned(t *testing.T, on Platform, name, operation string) string {
	t.Helper()
	return on.Kubectl(t, "get", "tasks", "-n", Team, "-l", "plasmacloud.io/cluster="+name, "--sort-by=.metadata.creationTimestamp",
		"-o", `jsonpath={.items[?(@.spec.operation=="`+operation+`")].status.outputs.plan}`)
}

// Refused is what the command line says to something that is not done.
func (p Product) Refused(t *testing.T, args ...string) string {
	t.Helper()
	return refused(t, p.Node, args...)
}

func refused(t *testing.T, on Platform, args ...string) string {
	t.Helper()
	output, err := on.TryCloud(args...)
	if err == nil {
		t.Fatalf("cloud %s: not refused\n%s", strings.Join(args, " "), output)
	}
	return output + err.Error()
}

// AwaitRunning returns when something runs as it was last asked for.
func (p Product) AwaitRunning(t *testing.T, kind, name string) {
	t.Helper()
	lab.Eventually(t, 5*time.Minute, kind+" "+name+" runs", func() error {
		told, err := p.TryKubectl("get", kind, name, "-n", Team, "-o", "jsonpath={.status.phase} {.metadata.generation} {.status.observedGeneration}")
		fields := strings.Fields(told)
		if err == nil && (len(fields) != 3 || fields[0] != "RUNNING" || fields[1] != fields[2]) {
			err = fmt.Errorf("it is %s", told)
		}
		return err
	})
}

// NobodyTells looks for a credential in all that people and programs get to see.
func (p Product) NobodyTells(t *testing.T, secret string) {
	t.Helper()
	nobodyTells(t, p.Node, secret)
}

func nobodyTells(t *testing.T, on Platform, secret string) {
	t.Helper()
	if secret == "" {
		t.Fatal("nobody knows what to look for")
	}
	for what, text := range map[string]string{
		"the daemon's log": on.Kubectl(t, "logs", "-n", System, "-l", "app=cloudd", "--tail=-1"),
		"an event":         on.Kubectl(t, "get", "events", "-A", "-o", "yaml"),
		"a task":           on.Kubectl(t, "get", "tasks", "-A", "-o", "yaml"),
		"a secret":         on.Kubectl(t, "get", "secrets", "-A", "-o", "yaml"),
	} {
		if strings.Contains(text, secret) {
			t.Errorf("%s has the credentials in it", what)
		}
	}
}

// Has tells whether a stub has what is expected.
func Has(t *testing.T, have, want map[string]int) {
	t.Helper()
	for kind, count := range want {
		if have[kind] != count {
			t.Errorf("there are %d %s, want %d: %v", have[kind], kind, count, have)
		}
	}
}
