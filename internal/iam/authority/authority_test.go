package authority

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"plasmacloud.io/plasmacloud/internal/iam/store"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

const namespace = "plasmacloud-system"

// replica is a running authority, its clients, and a server that says who calls.
type replica struct {
	*Authority
	clients *Clients
	serving *Serving
	url     string
	scratch string
}

func newReplica(t *testing.T, client *fake.Clientset, clk clock.Clock) *replica {
	t.Helper()
	r := &replica{scratch: t.TempDir()}
	logger := slog.New(slog.DiscardHandler)
	r.Authority = New(store.NewRecord(client, namespace, SecretName, store.KindAuthority), r.scratch, clk, logger)
	r.clients = NewClients(r.Authority, client, namespace, clk, logger)
	r.serving = NewServing(r.Authority, []string{"127.0.0.1", "iam-server"}, clk, logger)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 3)
	go func() { done <- r.Run(ctx) }()
	go func() { r.serving.Run(ctx); done <- nil }()
	go func() { r.clients.Run(ctx); done <- nil }()
	t.Cleanup(func() {
		cancel()
		for range 3 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if left, err := os.ReadDir(r.scratch); err != nil || len(left) > 0 {
			t.Errorf("keys are left on disk: %v %v", left, err)
		}
	})
	eventually(t, "there is a certificate", r.serving.Ready)
	r.serve(t)
	return r
}

func (r *replica) serve(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		TLSConfig: r.serving.TLS(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if len(r.TLS.VerifiedChains) == 0 {
				fmt.Fprint(w, "nobody")
				return
			}
			client, ok := ClientOf(r.TLS.VerifiedChains[0][0])
			fmt.Fprintf(w, "%+v %v %s", client, ok, r.Proto)
		}),
	}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	r.url = "https://" + listener.Addr().String()
}

// call returns what the server said to a new connection.
func (r *replica) call(ca []byte, pair *Pair) (string, error) {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	config := &tls.Config{RootCAs: pool, ServerName: "iam-server"}
	if pair != nil {
		cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
		if err != nil {
			return "", err
		}
		config.Certificates = []tls.Certificate{cert}
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	defer transport.CloseIdleConnections()
	response, err := (&http.Client{Transport: transport, Timeout: 10 * time.Second}).Get(r.url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	return string(body), err
}

func (r *replica) ensure(t *testing.T, client Client) *Pair {
	t.Helper()
	secret, err := r.clients.Ensure(t.Context(), client)
	if err != nil {
		t.Fatal(err)
	}
	return &Pair{Cert: secret.Data["tls.crt"], Key: secret.Data["tls.key"]}
}

func mustCA(t *testing.T, r *replica) []byte {
	t.Helper()
	ca, err := r.CA()
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !condition() {
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestClientsAreKnownByTheirCertificate(t *testing.T) {
	r := newReplica(t, fake.NewClientset(), clock.RealClock{})
	ca := mustCA(t, r)
	for want, client := range map[string]*Client{
		"{Name:management Organization: Project:} true HTTP/2.0":         {Name: "management"},
		"{Name:shared Organization:acme Project:} true HTTP/2.0":         {Name: "shared", Organization: "acme"},
		"{Name:web.cluster Organization:acme Project:web} true HTTP/2.0": {Name: "web.cluster", Organization: "acme", Project: "web"},
		"nobody": nil,
	} {
		var pair *Pair
		if client != nil {
			pair = r.ensure(t, *client)
		}
		if got, err := r.call(ca, pair); err != nil || got != want {
			t.Errorf("got %q %v, want %q", got, err, want)
		}
	}
	for _, bad := range []Client{
		{}, {Name: "A"}, {Name: "a b"}, {Name: "x", Project: "web"},
		{Name: "management", Organization: "acme"}, {Name: "shared"}, {Name: "web.cluster", Organization: "acme", Project: "shop"}, // taken
	} {
		if _, err := r.clients.Ensure(t.Context(), bad); err == nil {
			t.Errorf("%+v got a certificate", bad)
		}
	}
}

func TestOthersAreNoAPIServers(t *testing.T) {
	r := newReplica(t, fake.NewClientset(), clock.RealClock{})
	for _, leaf := range []pki.Leaf{
		{Name: "x", CA: pki.ClusterCA, CommonName: "apiserver:x", Client: true},
		{Name: "x", CA: pki.ClusterCA, CommonName: "x", Organizations: []string{"plasmacloud:apiservers"}, Client: true},
		{Name: "x", CA: pki.ClusterCA, CommonName: "apiserver:", Organizations: []string{"plasmacloud:apiservers"}, Client: true},
	} {
		pair, _, err := r.Issue(leaf, Pair{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := r.call(mustCA(t, r), &pair); err != nil || !strings.Contains(got, " false ") {
			t.Errorf("%+v: %q %v", leaf, got, err)
		}
	}
	server, _, err := r.Issue(pki.Leaf{Name: "x", CA: pki.ClusterCA, CommonName: "apiserver:x", Organizations: []string{"plasmacloud:apiservers"}, Server: true}, Pair{})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.call(mustCA(t, r), &server); err == nil {
		t.Errorf("a server's certificate is accepted from a client: %s", got)
	}
	stranger := newReplica(t, fake.NewClientset(), clock.RealClock{})
	if got, err := r.call(mustCA(t, r), stranger.ensure(t, Client{Name: "management"})); err == nil {
		t.Errorf("a certificate of another authority is accepted: %s", got)
	}
	if got, err := r.call(mustCA(t, stranger), nil); err == nil {
		t.Errorf("the server is trusted by another authority: %s", got)
	}
}

func TestRevokedClientsAreRefusedByAllReplicas(t *testing.T) {
	client := fake.NewClientset()
	a, b := newReplica(t, client, clock.RealClock{}), newReplica(t, client, clock.RealClock{})
	if !bytes.Equal(mustCA(t, a), mustCA(t, b)) {
		t.Fatal("the replicas have authorities of their own")
	}
	pair, other := a.ensure(t, Client{Name: "web"}), a.ensure(t, Client{Name: "shop"})
	// An earlier certificate of the same client, which nobody remembers.
	earlier, _, err := a.Issue(Client{Name: "web"}.Leaf(), Pair{})
	if err != nil {
		t.Fatal(err)
	}
	old, err := parse(earlier.Cert)
	if err != nil {
		t.Fatal(err)
	}
	old.NotBefore = old.NotBefore.Add(-24 * time.Hour)

	for range 2 { // the second time nothing is left to do
		if err := a.clients.Revoke(t.Context(), "web"); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range []*replica{a, b} {
		eventually(t, "the certificate is refused", func() bool { _, err := r.call(mustCA(t, r), pair); return err != nil })
		if _, err := r.call(mustCA(t, r), other); err != nil {
			t.Errorf("another client is refused: %v", err)
		}
		if !r.Revoked(old) {
			t.Error("an earlier certificate is good")
		}
	}
	if _, err := client.CoreV1().Secrets(namespace).Get(t.Context(), "iam-client-web", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the certificate is kept: %v", err)
	}
	// A client of the same name may come again.
	if _, err := b.call(mustCA(t, b), b.ensure(t, Client{Name: "web"})); err != nil {
		t.Error(err)
	}
}

func TestARevokedCertificateIsReplaced(t *testing.T) {
	r := newReplica(t, fake.NewClientset(), clock.RealClock{})
	pair := r.ensure(t, Client{Name: "web"})
	if again := r.ensure(t, Client{Name: "web"}); !bytes.Equal(pair.Cert, again.Cert) {
		t.Error("a good certificate was replaced")
	}
	cert, err := parse(pair.Cert)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Revoke(t.Context(), cert); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is revoked", func() bool { return r.Revoked(cert) })
	next := r.ensure(t, Client{Name: "web"})
	if bytes.Equal(pair.Key, next.Key) {
		t.Error("the key of a revoked certificate is used again")
	}
	if _, err := r.call(mustCA(t, r), next); err != nil {
		t.Error(err)
	}
}

func TestCertificatesAreRenewedInTime(t *testing.T) {
	client, clk := fake.NewClientset(), clocktesting.NewFakeClock(time.Now())
	r := newReplica(t, client, clk)
	pair := r.ensure(t, Client{Name: "web", Organization: "acme"})
	first := r.serving.NotAfter()
	waiting := func() bool { return clk.Waiters() >= 2 }
	step := func(d time.Duration) {
		t.Helper()
		eventually(t, "all wait", waiting)
		clk.Step(d)
	}
	step(time.Minute) // the clients' first look
	step(250 * 24 * time.Hour)
	eventually(t, "the serving certificate is new", func() bool { return r.serving.NotAfter().After(first) })
	secret := func() *corev1.Secret {
		s, err := client.CoreV1().Secrets(namespace).Get(t.Context(), "iam-client-web", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	eventually(t, "the client's certificate is new", func() bool { return !bytes.Equal(secret().Data["tls.crt"], pair.Cert) })
	cert, err := parse(secret().Data["tls.crt"])
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := ClientOf(cert); !ok || got != (Client{Name: "web", Organization: "acme"}) {
		t.Errorf("%+v %v", got, ok)
	}
	if !bytes.Equal(secret().Data["tls.key"], pair.Key) {
		t.Error("the key changed: who reloads the two files may see halves that do not match")
	}
}

func TestAuthorityOfAManagementClusterIsAdopted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tls")
	files := pki.New(dir, clock.RealClock{})
	if _, err := files.Ensure([]pki.Leaf{Client{Name: ManagementClient}.Leaf()}); err != nil {
		t.Fatal(err)
	}
	bundle, err := pki.ReadBundle(dir)
	if err != nil {
		t.Fatal(err)
	}
	client := fake.NewClientset()
	adopter := New(store.NewRecord(client, namespace, SecretName, store.KindAuthority), "", clock.RealClock{}, slog.New(slog.DiscardHandler))
	for range 2 {
		if err := adopter.Adopt(t.Context(), bundle); err != nil {
			t.Fatal(err)
		}
	}
	r := newReplica(t, client, clock.RealClock{})
	var pair Pair
	if pair.Cert, err = os.ReadFile(files.CertPath("apiserver-client")); err != nil {
		t.Fatal(err)
	}
	if pair.Key, err = os.ReadFile(files.KeyPath("apiserver-client")); err != nil {
		t.Fatal(err)
	}
	if got, err := r.call(bundle.ClusterCA(), &pair); err != nil || !strings.Contains(got, "management") {
		t.Errorf("%q %v", got, err)
	}
	another := filepath.Join(t.TempDir(), "tls")
	if _, err := pki.New(another, clock.RealClock{}).Ensure(nil); err != nil {
		t.Fatal(err)
	}
	foreign, err := pki.ReadBundle(another)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Adopt(t.Context(), foreign); err == nil || !strings.Contains(err.Error(), "another") {
		t.Errorf("got %v", err)
	}
}

func TestADamagedOrLostSecretChangesNothing(t *testing.T) {
	client := fake.NewClientset()
	r := newReplica(t, client, clock.RealClock{})
	ca := mustCA(t, r)
	secrets := client.CoreV1().Secrets(namespace)
	secret, err := secrets.Get(t.Context(), SecretName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secret.Data[bundleKey] = []byte("damaged")
	if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := secrets.Delete(t.Context(), SecretName, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if got, err := r.call(ca, nil); err != nil || got != "nobody" {
		t.Errorf("%q %v", got, err)
	}
}

func TestBeforeTheAuthorityIsKnown(t *testing.T) {
	a := New(nil, "", clock.RealClock{}, slog.New(slog.DiscardHandler))
	if _, err := a.CA(); err == nil || a.Ready() {
		t.Error("an authority is known")
	}
	if _, _, err := a.Issue(Client{Name: "x"}.Leaf(), Pair{}); err == nil {
		t.Error("a certificate was issued")
	}
	s := NewServing(a, nil, clock.RealClock{}, slog.New(slog.DiscardHandler))
	if _, err := s.TLS().GetConfigForClient(nil); err == nil || s.Ready() {
		t.Error("connections are accepted")
	}
	if text := fmt.Sprintf("%v %+v %#v", Pair{Key: []byte("k")}, Pair{Key: []byte("k")}, Pair{Key: []byte("k")}); strings.Contains(text, "107") {
		t.Errorf("keys show: %s", text)
	}
}
