//go:build bench

package iam

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/iam"
	"plasmacloud.io/plasmacloud/internal/iam/authority"
	"plasmacloud.io/plasmacloud/internal/iam/directory"
	"plasmacloud.io/plasmacloud/internal/iam/password"
	"plasmacloud.io/plasmacloud/internal/iam/store"
	"plasmacloud.io/plasmacloud/internal/iam/token"
	"plasmacloud.io/plasmacloud/internal/iam/wire"
	"plasmacloud.io/plasmacloud/internal/testapi"
)

const (
	users       = 1000
	projects    = 50
	connections = 8 // API servers, each with a certificate and a connection of its own

	askers = 4 // requests that each may have under way

	offered     = 2500      // requests a second
	unlimited   = 1_000_000 // more than can be answered
	maxRequests = 100_000
	warmUp      = 3 * time.Second
	rounds      = 5
	round       = 3 * time.Second

	namespace    = "plasmacloud-system"
	goodPassword = "correct horse"
)

// bench is the service, and those who ask it.
type bench struct {
	service *iam.Service
	url     string
	client  kubernetes.Interface
	ours    rest.Interface
	ca      []byte
	tokens  []string
}

func TestIAM(t *testing.T) {
	b := start(t)
	b.populate(t)
	t.Logf("%s %d users, %d tokens, %d connections, %d CPUs", time.Now().Format(time.TimeOnly), users, len(b.tokens), connections, runtime.NumCPU())
	apiServers := make([]*http.Client, connections)
	for i := range apiServers {
		secret, err := b.service.Clients().Ensure(t.Context(), authority.Client{Name: fmt.Sprintf("apiserver-%d", i)})
		if err != nil {
			t.Fatal(err)
		}
		apiServers[i] = b.httpClient(t, secret.Data["tls.crt"], secret.Data["tls.key"])
	}
	peak := b.load(t, apiServers, warmUp, unlimited)
	var all report
	for i := range rounds {
		runtime.GC()
		if i == rounds/2 { // which nobody should notice
			if err := b.service.RotateKeys(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		r := b.load(t, apiServers, round, offered)
		t.Logf("%s %d requests in %.1f s: %s", time.Now().Format(time.TimeOnly), len(r.latencies), r.elapsed.Seconds(), r)
		all = append(all, r)
	}
	fmt.Printf("\n%d requests a second offered; as fast as they could: %.0f a second\n", offered, peak.rate())
	for _, line := range all.lines() {
		fmt.Println(line)
	}
}

// start runs the service on a real API server.
func start(t *testing.T) *bench {
	t.Helper()
	api := testapi.New(t, testapi.Options{})
	config := rest.CopyConfig(api.Config())
	config.QPS, config.Burst = 1000, 1000
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{url: "https://" + listener.Addr().String()}
	if b.client, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	if b.ours, err = store.NewIdentityClient(config); err != nil {
		t.Fatal(err)
	}
	if _, err := b.client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	b.service, err = iam.New(iam.Config{
		REST: config, Namespace: namespace, Address: listener.Addr().String(), Issuer: b.url, Password: cheap(), Scratch: t.TempDir(),
		Registry: prometheus.NewRegistry(), Clock: clock.RealClock{}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.service.RunOn(ctx, listener) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the service is ready", b.service.Ready)
	if b.ca, err = b.service.Authority().CA(); err != nil {
		t.Fatal(err)
	}
	return b
}

// cheap passwords: they are not what is measured.
func cheap() password.Params { return password.Params{Memory: 64, Iterations: 1, Parallelism: 1} }

// populate makes users in their projects, each with an access token and a session token.
func (b *bench) populate(t *testing.T) {
	t.Helper()
	b.create(t, "organizations", &v1alpha1.Organization{ObjectMeta: metav1.ObjectMeta{Name: "acme"}})
	for i := range projects {
		b.create(t, "projects", &v1alpha1.Project{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", i)}, Spec: v1alpha1.ProjectSpec{Organization: "acme"}})
	}
	hasher, err := password.NewHasher(cheap(), 1)
	if err != nil {
		t.Fatal(err)
	}
	hash, err := hasher.Hash(t.Context(), goodPassword)
	if err != nil {
		t.Fatal(err)
	}
	plain := b.httpClient(t, nil, nil)
	b.tokens = make([]string, 2*users)
	numbers := make(chan int)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := range numbers {
				b.tokens[2*i] = b.makeUser(t, i, hash)
			}
		})
	}
	for i := range users {
		numbers <- i
	}
	close(numbers)
	group.Wait()
	for i := range users {
		request := wire.LoginRequest{Email: fmt.Sprintf("user%d@example.com", i), Password: goodPassword}
		var session wire.Session
		eventually(t, "log in", func() error {
			return post(t.Context(), plain, b.url+wire.PathLogin, request, &session)
		})
		b.tokens[2*i+1] = session.AccessToken
	}
}

// makeUser returns an access token.
func (b *bench) makeUser(t *testing.T, i int, hash string) string {
	name := fmt.Sprintf("user%d", i)
	user := &v1alpha1.User{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.UserSpec{
		Kind: v1alpha1.UserPerson, Organization: "acme", Email: name + "@example.com",
		Projects: []v1alpha1.Membership{
			{Project: fmt.Sprintf("p%d", i%projects), Role: v1alpha1.RoleMember}, {Project: fmt.Sprintf("p%d", (i+1)%projects), Role: v1alpha1.RoleViewer},
		},
	}}
	b.create(t, "users", user)
	writer := store.NewWriter(b.ours, b.client, namespace)
	if err := writer.SavePassword(t.Context(), name, directory.PasswordSecretName(user), directory.DefaultPasswordKey, hash); err != nil {
		t.Error(err)
	}
	secret, sum, err := token.NewAccess()
	if err != nil {
		t.Error(err)
	}
	b.create(t, "accesstokens", &v1alpha1.AccessToken{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.AccessTokenSpec{User: name, SHA256: sum}})
	return secret
}

func (b *bench) create(t *testing.T, resource string, object apiruntime.Object) {
	if err := b.ours.Post().Resource(resource).Body(object).Do(t.Context()).Into(object); err != nil {
		t.Errorf("make %s: %v", resource, err)
	}
}

// load asks about one token after another, so many a second, over all clients. A request that nobody was free to send in
// time counts from when it was due.
func (b *bench) load(t *testing.T, clients []*http.Client, during time.Duration, rate int) results {
	t.Helper()
	bodies := b.bodies(t)
	total := min(rate*int(during.Seconds()), maxRequests)
	latencies := make([][]time.Duration, len(clients)*askers)
	var next atomic.Int64
	var group sync.WaitGroup
	begun := time.Now()
	for asker := range latencies {
		client := clients[asker%len(clients)]
		group.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= total || time.Since(begun) > 2*during {
					return
				}
				asked := due(begun, i, rate)
				var answer authenticationv1.TokenReview
				err := send(t.Context(), client, b.url+wire.PathAuthenticate, bodies[i*7919%len(bodies)], &answer)
				latencies[asker] = append(latencies[asker], time.Since(asked))
				if err != nil || !answer.Status.Authenticated {
					t.Errorf("%+v %v", answer.Status, err)
					return
				}
			}
		})
	}
	group.Wait()
	r := results{elapsed: time.Since(begun)}
	for _, l := range latencies {
		r.latencies = append(r.latencies, l...)
	}
	return r
}

// due waits until the i-th request is, and returns when it was: earlier, if it is late already.
func due(begun time.Time, i, rate int) time.Time {
	at := begun.Add(time.Duration(i) * time.Second / time.Duration(rate))
	if wait := time.Until(at); wait > 0 {
		time.Sleep(wait)
		return time.Now()
	}
	return at
}

func (b *bench) bodies(t *testing.T) [][]byte {
	t.Helper()
	bodies := make([][]byte, len(b.tokens))
	for i, raw := range b.tokens {
		body, err := json.Marshal(authenticationv1.TokenReview{
			TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"},
			Spec:     authenticationv1.TokenReviewSpec{Token: raw},
		})
		if err != nil {
			t.Fatal(err)
		}
		bodies[i] = body
	}
	return bodies
}

func (b *bench) httpClient(t *testing.T, certPEM, keyPEM []byte) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(b.ca)
	config := &tls.Config{RootCAs: pool}
	if certPEM != nil {
		cert, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 10 * time.Second}
}

func post(ctx context.Context, client *http.Client, url string, body, into any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return send(ctx, client, url, data, into)
}

func send(ctx context.Context, client *http.Client, url string, body []byte, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", response.Status, data)
	}
	return json.Unmarshal(data, into)
}

func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := condition()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("in vain: %s: %v", what, err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
