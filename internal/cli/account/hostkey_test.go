package account

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/knownhosts"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

func publicKey(t *testing.T, key any) ssh.PublicKey {
	t.Helper()
	public, err := ssh.NewPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return public
}

func TestHostKeysComeFromKnownHosts(t *testing.T) {
	edwards, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	modern, older := publicKey(t, edwards), publicKey(t, curve.Public())
	text := func(key ssh.PublicKey) string { return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) }
	file := filepath.Join(t.TempDir(), "known_hosts")
	lines := []string{
		"# as ssh-keyscan writes it",
		knownhosts.Line([]string{"10.0.0.5"}, older), knownhosts.Line([]string{"10.0.0.5"}, modern),
		knownhosts.Line([]string{"10.0.0.6:2222"}, older),
		knownhosts.HashHostname("machine.example.com") + " " + text(modern),
		knownhosts.Line([]string{"fd00::1"}, modern),
	}
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]string{
		"root@10.0.0.5": text(modern), "10.0.0.6:2222": text(older), "machine.example.com": text(modern), "[fd00::1]:22": text(modern),
	} {
		var spec v1alpha1.AccountSpec
		if err := (&flags{hosts: []string{host}, knownHosts: file}).apply(&spec); err != nil || spec.SSH.Hosts[0].HostKey != want {
			t.Errorf("%s: %+v, %v", host, spec.SSH, err)
		}
	}
	for _, host := range []string{"10.0.0.6", "10.0.0.7"} { // another port, another machine
		var spec v1alpha1.AccountSpec
		err := (&flags{hosts: []string{host}, knownHosts: file}).apply(&spec)
		if err == nil || !strings.Contains(err.Error(), "ssh-keyscan -p 22 "+host) {
			t.Errorf("%s: %v", host, err)
		}
		if err := (&flags{hosts: []string{host}, knownHosts: file, trustOnFirstUse: true}).apply(&v1alpha1.AccountSpec{}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	for _, f := range []flags{{knownHosts: file}, {knownHosts: file + "x", hosts: []string{"a"}}, {knownHosts: program(t), hosts: []string{"a"}}} {
		if err := f.apply(&v1alpha1.AccountSpec{}); err == nil || !strings.Contains(err.Error(), "--known-hosts") {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

// program is a file that holds no keys.
func program(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
