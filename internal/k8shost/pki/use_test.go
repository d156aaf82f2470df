package pki

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/yaml"
)

// startAPI serves with the store's API server certificate and answers with the
// user that the client's certificate claims.
func startAPI(t *testing.T, s *Store) *httptest.Server {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(s.CertPath(APIServer), s.KeyPath(APIServer))
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(mustCert(t, s.CAPath(ClusterCA)))
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.TLS.PeerCertificates[0].Subject)
	}))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

func TestKubeconfigsWorkAgainstARealServer(t *testing.T) {
	s := New(filepath.Join(t.TempDir(), "tls"), clock.RealClock{})
	ensure(t, s, testServer().Leaves())
	server := startAPI(t, s)
	embedded, err := s.EmbeddedKubeconfig(Admin, server.URL)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "cred")
	admin, referring := filepath.Join(dir, "admin.kubeconfig"), filepath.Join(dir, "scheduler.kubeconfig")
	for path, want := range map[string]string{admin: "k8shost-admin", referring: "system:kube-scheduler"} {
		config := embedded
		if path == referring {
			config = s.Kubeconfig(Scheduler, server.URL)
		}
		if changed, err := WriteKubeconfig(path, config); err != nil || !changed {
			t.Fatalf("first write: changed %v, %v", changed, err)
		}
		if changed, err := WriteKubeconfig(path, config); err != nil || changed {
			t.Fatalf("second write: changed %v, %v", changed, err)
		}
		if body := get(t, path, server.URL); !strings.Contains(body, want) {
			t.Errorf("%s: the server saw %q, want %q", path, body, want)
		}
	}
	assertMode(t, admin, 0o600)
	if err := os.Chmod(admin, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := WriteKubeconfig(admin, embedded); err != nil {
		t.Fatal(err)
	}
	assertMode(t, admin, 0o600)
	if _, err := s.EmbeddedKubeconfig("nobody", server.URL); err == nil {
		t.Error("a kubeconfig was made without a certificate")
	}
}

func get(t *testing.T, kubeconfig, url string) string {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func assertMode(t *testing.T, path string, want fs.FileMode) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != want {
		t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
	}
}

func TestRenewerRenewsAndReports(t *testing.T) {
	s, clk := newStore(t)
	renewed := make(chan []Renewal)
	r := &Renewer{
		Store: s, Leaves: testServer().Leaves(), Clock: clk, Logger: slog.New(slog.DiscardHandler),
		Renewed: func(renewals []Renewal) { renewed <- renewals },
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	waitForTimer(t, clk)
	clk.Step(300 * 24 * time.Hour)
	if got := <-renewed; len(got) != len(r.Leaves) {
		t.Errorf("renewed %v", got)
	}
	waitForTimer(t, clk)
	clk.Step(RenewInterval)
	waitForTimer(t, clk)
	select {
	case got := <-renewed:
		t.Errorf("renewed %v again", got)
	default:
	}
	cancel()
	<-done
}

func TestRenewerGoesOnAfterAFailure(t *testing.T) {
	s, clk := newStore(t)
	var log bytes.Buffer
	renewed := make(chan []Renewal)
	r := &Renewer{
		Store: s, Leaves: testServer().Leaves(), Clock: clk, Interval: time.Hour,
		Logger:  slog.New(slog.NewTextHandler(&log, nil)),
		Renewed: func(renewals []Renewal) { renewed <- renewals },
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()

	waitForTimer(t, clk)
	hidden := s.KeyPath("ca") + ".hidden"
	if err := os.Rename(s.KeyPath("ca"), hidden); err != nil {
		t.Fatal(err)
	}
	clk.Step(time.Hour)
	waitForTimer(t, clk)
	if err := os.Rename(hidden, s.KeyPath("ca")); err != nil {
		t.Fatal(err)
	}
	clk.Step(300 * 24 * time.Hour)
	<-renewed
	cancel()
	<-done
	if !strings.Contains(log.String(), "broken CA") {
		t.Errorf("the failure was not logged: %s", &log)
	}
}

func TestRenewerWarnsOfAnAuthorityNearItsEnd(t *testing.T) {
	s, clk := newStore(t)
	var log bytes.Buffer
	r := &Renewer{Store: s, Leaves: testServer().Leaves(), Clock: clk, Logger: slog.New(slog.NewTextHandler(&log, nil))}
	clk.SetTime(start.Add(AuthorityLifetime - 24*time.Hour))
	r.renew(t.Context())
	if !strings.Contains(log.String(), "cannot be renewed") {
		t.Errorf("no warning: %s", &log)
	}
}

// waitForTimer waits until the renewer sleeps.
func waitForTimer(t *testing.T, clk *clocktesting.FakeClock) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !clk.HasWaiters() {
		if time.Now().After(deadline) {
			t.Fatal("the renewer does not wait")
		}
		time.Sleep(time.Millisecond)
	}
}

// encryptionKeys reads the file the way the API server does: by its schema.
func encryptionKeys(t *testing.T, path string) []encryptionKey {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		APIVersion, Kind string
		Resources        []struct {
			Resources []string
			Providers []map[string]struct{ Keys []encryptionKey }
		}
	}
	if err := yaml.Unmarshal(data, &config); err != nil {
		t.Fatal(err)
	}
	if config.APIVersion != "apiserver.config.k8s.io/v1" || config.Kind != "EncryptionConfiguration" || len(config.Resources) != 1 {
		t.Fatalf("unexpected configuration:\n%s", data)
	}
	r := config.Resources[0]
	if !slices.Equal(r.Resources, []string{"secrets"}) || len(r.Providers) != 2 {
		t.Fatalf("unexpected resources:\n%s", data)
	}
	if _, ok := r.Providers[1]["identity"]; !ok {
		t.Errorf("the last provider is not identity:\n%s", data)
	}
	keys := r.Providers[0]["secretbox"].Keys
	for _, key := range keys {
		if secret, err := base64.StdEncoding.DecodeString(key.Secret); err != nil || len(secret) != 32 {
			t.Errorf("key %s has %d bytes, %v", key.Name, len(secret), err)
		}
	}
	return keys
}

func TestEncryptionConfigurationOfAnAdministratorIsKept(t *testing.T) {
	s, _ := newStore(t)
	path := s.EncryptionConfigPath()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	own := strings.Replace(string(data), "  - identity: {}", "  - aescbc: {keys: [{name: a, secret: eA==}]}\n  - identity: {}", 1)
	overwrite(t, path, own)
	before := snapshot(t, s.Dir())
	ensure(t, s, testServer().Leaves())
	if _, err := ReadEncryption(path); err == nil || !strings.Contains(err.Error(), "by hand") {
		t.Errorf("read: %v", err)
	}
	sameFiles(t, before, snapshot(t, s.Dir()))
	for says, content := range map[string]string{
		"without a provider": "kind: EncryptionConfiguration\nresources: [{resources: [secrets]}]",
		`key "k" is not 32`:  "kind: EncryptionConfiguration\nresources: [{providers: [{secretbox: {keys: [{name: k, secret: eA==}]}}]}]",
	} {
		overwrite(t, path, content)
		if _, err := s.Ensure(nil); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}

func TestBundleMovesACluster(t *testing.T) {
	s, clk := newStore(t)
	b, err := ReadBundle(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	data, err := b.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	moved, err := UnmarshalBundle(data)
	if err != nil {
		t.Fatal(err)
	}
	if !moved.Equal(b) || !bytes.Equal(moved.ClusterCA(), b.ClusterCA()) {
		t.Error("the bundle changed on its way")
	}
	joined := New(filepath.Join(t.TempDir(), "tls"), clk)
	if ok, err := joined.Initialized(); ok || err != nil {
		t.Errorf("an empty store is initialized: %v", err)
	}
	for range 2 { // the second time nothing is left to do
		if err := WriteBundle(joined.Dir(), moved); err != nil {
			t.Fatal(err)
		}
	}
	if ok, err := joined.Initialized(); !ok || err != nil {
		t.Errorf("not initialized: %v", err)
	}
	ensure(t, joined, testServer().Leaves())
	if err := mustCert(t, joined.CertPath(Admin)).CheckSignatureFrom(mustCert(t, s.CAPath(ClusterCA))); err != nil {
		t.Error(err)
	}
	assertMode(t, joined.KeyPath("etcd/ca"), 0o600)
	assertMode(t, joined.CAPath(EtcdCA), 0o644)
	assertMode(t, joined.EncryptionConfigPath(), 0o600)
}

func TestWriteBundleCompletesButNeverOverwrites(t *testing.T) {
	s, _ := newStore(t)
	b, err := ReadBundle(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	remove(t, s.CAPath(EtcdCA))
	if err := WriteBundle(s.Dir(), b); err != nil {
		t.Errorf("the missing file was not restored: %v", err)
	}
	other, _ := newStore(t)
	remove(t, other.CAPath(FrontProxyCA))
	before := snapshot(t, other.Dir())
	if err := WriteBundle(other.Dir(), b); err == nil || !strings.Contains(err.Error(), "another cluster") {
		t.Errorf("got %v", err)
	}
	sameFiles(t, before, snapshot(t, other.Dir()))
}

func TestDamagedBundlesAreRefused(t *testing.T) {
	s, _ := newStore(t)
	whole, err := ReadBundle(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	for says, change := range map[string]func(map[string][]byte){
		"etcd/ca.key is missing":  func(f map[string][]byte) { delete(f, "etcd/ca.key") },
		`unknown file "../x"`:     func(f map[string][]byte) { f["../x"] = []byte("x") },
		"do not belong together":  func(f map[string][]byte) { f["ca.key"] = f["etcd/ca.key"] },
		"none of the public keys": func(f map[string][]byte) { f["sa.key"] = f["ca.key"] },
		"the key is unreadable":   func(f map[string][]byte) { f["sa.key"] = []byte("x") },
		"not an encryption":       func(f map[string][]byte) { f["encryption-config.yaml"] = []byte("x") },
	} {
		b := &Bundle{files: map[string][]byte{}}
		for name, data := range whole.files {
			b.files[name] = data
		}
		change(b.files)
		data, err := b.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := UnmarshalBundle(data); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
		if err := WriteBundle(t.TempDir(), b); err == nil {
			t.Errorf("a bundle with %q was written", says)
		}
	}
	for _, data := range []string{"", "{}", `{"schema":2}`} {
		if _, err := UnmarshalBundle([]byte(data)); err == nil {
			t.Errorf("%q was read as a bundle", data)
		}
	}
	remove(t, s.KeyPath("ca"))
	if _, err := ReadBundle(s.Dir()); err == nil {
		t.Error("an incomplete store was read")
	}
}

func TestBundleIsNotLogged(t *testing.T) {
	s, _ := newStore(t)
	b, err := ReadBundle(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "bundle", b)
	fmt.Fprintf(&log, "%v %+v %#v %s", b, b, b, b)
	if strings.Contains(log.String(), "PRIVATE") || strings.Contains(log.String(), "[") {
		t.Errorf("the bundle shows: %s", &log)
	}
}
