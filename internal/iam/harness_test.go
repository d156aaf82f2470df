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
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/apply"
	"plasmacloud.io/plasmacloud/internal/iam/authority"
	"plasmacloud.io/plasmacloud/internal/iam/directory"
	"plasmacloud.io/plasmacloud/internal/iam/password"
	"plasmacloud.io/plasmacloud/internal/iam/rbac"
	"plasmacloud.io/plasmacloud/internal/iam/store"
	"plasmacloud.io/plasmacloud/internal/iam/token"
	"plasmacloud.io/plasmacloud/internal/iam/webhook"
	"plasmacloud.io/plasmacloud/internal/iam/wire"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/testapi"
)

const (
	namespace    = "plasmacloud-system"
	goodPassword = "correct horse"

	serviceAccount = "cloudd"
)

// cloud is a management API with our kinds that asks a running identity service about tokens, put together in the order
// in which an installation does: certificates, API server, service.
type cloud struct {
	api     *testapi.Server
	admin   kubernetes.Interface
	ours    rest.Interface
	files   *pki.Store // of the API server
	bundle  *pki.Bundle
	service *replica
}

// replica is a running identity service.
type replica struct {
	*Service
	url  string
	stop func()
	log  *lockedBuffer
}

type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}

func newCloud(t *testing.T) *cloud {
	t.Helper()
	listener := listen(t)
	url := "https://" + listener.Addr().String()
	dir := t.TempDir()
	c := &cloud{files: newFiles(t)}
	leaf := managementLeaf()
	var err error
	if c.bundle, err = pki.ReadBundle(c.files.Dir()); err != nil {
		t.Fatal(err)
	}
	config, err := webhook.Config{
		URL: url, CA: c.files.CAPath(pki.ClusterCA), Certificate: c.files.CertPath(leaf.Name), Key: c.files.KeyPath(leaf.Name),
	}.Render()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, webhook.FileName)
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	c.api = testapi.New(t, testapi.Options{APIServerArgs: []string{
		"--authentication-token-webhook-config-file=" + file,
		"--authentication-token-webhook-version=v1",
		"--authentication-token-webhook-cache-ttl=500ms",
	}})
	if c.admin, err = kubernetes.NewForConfig(c.api.Config()); err != nil {
		t.Fatal(err)
	}
	if c.ours, err = store.NewIdentityClient(c.api.Config()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	record := store.NewRecord(c.admin, namespace, authority.SecretName, store.KindAuthority)
	if err := authority.New(record, dir, clock.RealClock{}, slog.New(slog.DiscardHandler)).Adopt(t.Context(), c.bundle); err != nil {
		t.Fatal(err)
	}
	c.put(t, rbac.ForService(namespace, serviceAccount))
	c.service = c.run(t, listener, url)
	return c
}

// put applies objects as an administrator.
func (c *cloud) put(t *testing.T, objects []rbac.Object) {
	t.Helper()
	admin, err := dynamic.NewForConfig(c.api.Config())
	if err != nil {
		t.Fatal(err)
	}
	for _, object := range objects {
		content, err := apply.Typed(object)
		if err != nil {
			t.Fatal(err)
		}
		if err := apply.Objects(t.Context(), admin, "test", content); err != nil {
			t.Fatal(err)
		}
	}
}

func managementLeaf() pki.Leaf { return authority.Client{Name: authority.ManagementClient}.Leaf() }

// newFiles makes an authority, and the management API server's certificate, before there is anything else.
func newFiles(t *testing.T) *pki.Store {
	t.Helper()
	files := pki.New(filepath.Join(t.TempDir(), "iam"), clock.RealClock{})
	if _, err := files.Ensure([]pki.Leaf{managementLeaf()}); err != nil {
		t.Fatal(err)
	}
	return files
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return listener
}

// run starts a replica of the service and waits until it is ready.
func (c *cloud) run(t *testing.T, listener net.Listener, issuer string) *replica {
	t.Helper()
	r := &replica{url: "https://" + listener.Addr().String(), log: &lockedBuffer{}}
	var err error
	r.Service, err = New(Config{
		// A service account with the rights of the service, and no more.
		REST: c.api.ConfigFor(t, "system:serviceaccount:"+namespace+":"+serviceAccount), Namespace: namespace, Address: listener.Addr().String(), Issuer: issuer,
		Password: password.Params{Memory: 64, Iterations: 1, Parallelism: 1}, Scratch: t.TempDir(),
		Registry: prometheus.NewRegistry(), Clock: clock.RealClock{},
		Logger: slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.RunOn(ctx, listener) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the service ended with %v", err)
		}
	})
	t.Cleanup(func() {
		r.stop()
		if t.Failed() {
			t.Logf("log of the service:\n%s", r.log)
		}
	})
	eventually(t, "the service is ready", func() error { return r.Ready() })
	return r
}

func eventually(t *testing.T, what string, condition func() error) time.Duration {
	t.Helper()
	start := time.Now()
	for {
		err := condition()
		if err == nil {
			return time.Since(start)
		}
		if time.Since(start) > 30*time.Second {
			t.Fatalf("in vain: %s: %v", what, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// create makes an object of ours; it becomes what the API made of it.
func (c *cloud) create(t *testing.T, resource string, object runtime.Object) {
	t.Helper()
	if err := c.ours.Post().Resource(resource).Body(object).Do(t.Context()).Into(object); err != nil {
		t.Fatalf("make %s: %v", resource, err)
	}
}

func (c *cloud) patch(t *testing.T, resource, name, patch string, subresources ...string) {
	t.Helper()
	err := c.ours.Patch(types.MergePatchType).Resource(resource).Name(name).SubResource(subresources...).Body([]byte(patch)).Do(t.Context()).Error()
	if err != nil {
		t.Fatalf("patch %s %s: %v", resource, name, err)
	}
}

func (c *cloud) organization(t *testing.T, name string, projects ...string) {
	t.Helper()
	c.create(t, "organizations", &v1alpha1.Organization{ObjectMeta: metav1.ObjectMeta{Name: name}})
	for _, project := range projects {
		c.create(t, "projects", &v1alpha1.Project{ObjectMeta: metav1.ObjectMeta{Name: project}, Spec: v1alpha1.ProjectSpec{Organization: name}})
	}
}

// user makes a user with memberships such as web=viewer; a person has goodPassword.
func (c *cloud) user(t *testing.T, name, organization string, change func(*v1alpha1.UserSpec), memberships ...string) *v1alpha1.User {
	t.Helper()
	u := &v1alpha1.User{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.UserSpec{Kind: v1alpha1.UserPerson, Organization: organization, Email: name + "@example.com", Projects: []v1alpha1.Membership{}},
	}
	for _, m := range memberships {
		project, role, _ := strings.Cut(m, "=")
		u.Spec.Projects = append(u.Spec.Projects, v1alpha1.Membership{Project: project, Role: v1alpha1.Role(role)})
	}
	if change != nil {
		change(&u.Spec)
	}
	c.create(t, "users", u)
	if u.Spec.Kind == v1alpha1.UserPerson {
		hasher, err := password.NewHasher(password.Params{Memory: 64, Iterations: 1, Parallelism: 1}, 1)
		if err != nil {
			t.Fatal(err)
		}
		hash, err := hasher.Hash(t.Context(), goodPassword)
		if err != nil {
			t.Fatal(err)
		}
		writer := store.NewWriter(c.ours, c.admin, namespace)
		if err := writer.SavePassword(t.Context(), name, directory.PasswordSecretName(u), directory.DefaultPasswordKey, hash); err != nil {
			t.Fatal(err)
		}
	}
	return u
}

func robot(u *v1alpha1.UserSpec) { u.Kind, u.Email = v1alpha1.UserServiceAccount, "" }

// accessToken makes one by the API, as an administrator does.
func (c *cloud) accessToken(t *testing.T, user string) (name, secret string) {
	t.Helper()
	secret, hash, err := token.NewAccess()
	if err != nil {
		t.Fatal(err)
	}
	object := &v1alpha1.AccessToken{ObjectMeta: metav1.ObjectMeta{GenerateName: user + "-"}, Spec: v1alpha1.AccessTokenSpec{User: user, SHA256: hash}}
	c.create(t, "accesstokens", object)
	return object.Name, secret
}

// whoIs asks the API server itself who the token is, as kubectl auth whoami does.
func (c *cloud) whoIs(t *testing.T, raw string) (authenticationv1.UserInfo, error) {
	t.Helper()
	return whoIs(t, c.api, raw)
}

func whoIs(t *testing.T, api *testapi.Server, raw string) (authenticationv1.UserInfo, error) {
	t.Helper()
	client, err := kubernetes.NewForConfig(withToken(api, raw))
	if err != nil {
		t.Fatal(err)
	}
	review, err := client.AuthenticationV1().SelfSubjectReviews().Create(t.Context(), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return review.Status.UserInfo, nil
}

// withToken is access with a token and no certificate.
func withToken(api *testapi.Server, raw string) *rest.Config {
	config := rest.AnonymousClientConfig(api.Config())
	config.BearerToken = raw
	return config
}

// client calls a replica with the API server's certificate, with another's, or with none.
func (c *cloud) client(t *testing.T, pair *authority.Pair) *http.Client {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c.bundle.ClusterCA())
	config := &tls.Config{RootCAs: pool}
	if pair != nil {
		cert, err := tls.X509KeyPair(pair.Cert, pair.Key)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{cert}
	}
	transport := &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: 30 * time.Second}
}

func (c *cloud) apiServerPair(t *testing.T) *authority.Pair {
	t.Helper()
	var pair authority.Pair
	var err error
	if pair.Cert, err = os.ReadFile(c.files.CertPath("apiserver-client")); err != nil {
		t.Fatal(err)
	}
	if pair.Key, err = os.ReadFile(c.files.KeyPath("apiserver-client")); err != nil {
		t.Fatal(err)
	}
	return &pair
}

// call sends a request and returns the status code; the answer goes into into, unless that is nil.
func call(ctx context.Context, client *http.Client, method, url, bearer string, body, into any) (int, error) {
	var reader io.Reader
	if text, ok := body.(string); ok {
		reader = strings.NewReader(text)
	} else if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			return 0, err
		}
		reader = bytes.NewReader(data)
	}
	request, err := http.NewRequestWithContext(ctx, method, url, reader)
	if err != nil {
		return 0, err
	}
	if bearer != "" {
		request.Header.Set("Authorization", "Bearer "+bearer)
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	if into != nil {
		if err := json.Unmarshal(data, into); err != nil {
			return response.StatusCode, fmt.Errorf("%s: %w", data, err)
		}
	}
	return response.StatusCode, nil
}

// expect calls the service without a certificate, and insists on the status code.
func (c *cloud) expect(t *testing.T, want int, method, path, bearer string, body, into any) {
	t.Helper()
	code, err := call(t.Context(), c.client(t, nil), method, c.service.url+path, bearer, body, into)
	if err != nil || code != want {
		t.Errorf("%s %s is answered with %d, want %d; %v", method, path, code, want, err)
	}
}

// login logs somebody in, as soon as the replica has heard of them.
func (c *cloud) login(t *testing.T, r *replica, user string) wire.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r.knows(t, user, func(u *directory.User) bool { return u.PasswordHash != "" })
	var session wire.Session
	request := wire.LoginRequest{Email: user + "@example.com", Password: goodPassword}
	code, err := call(ctx, c.client(t, nil), http.MethodPost, r.url+wire.PathLogin, "", request, &session)
	if err != nil || code != http.StatusOK {
		t.Fatalf("the login of %s is answered with %d %v", user, code, err)
	}
	return session
}

// knows waits until the replica has heard of a user: it learns of new ones by watch.
func (r *replica) knows(t *testing.T, user string, want func(*directory.User) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := r.directory.Await(ctx, func(v *directory.View) bool { u := v.ByName(user); return u != nil && want(u) })
	if err != nil {
		t.Fatalf("%s is not known: %v", user, err)
	}
}

// judge asks a replica about a token, as an API server does.
func judge(ctx context.Context, client *http.Client, r *replica, raw string) (authenticationv1.TokenReviewStatus, error) {
	request := authenticationv1.TokenReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authentication.k8s.io/v1", Kind: "TokenReview"},
		Spec:     authenticationv1.TokenReviewSpec{Token: raw},
	}
	var answer authenticationv1.TokenReview
	code, err := call(ctx, client, http.MethodPost, r.url+wire.PathAuthenticate, "", request, &answer)
	if err == nil && code != http.StatusOK {
		err = fmt.Errorf("answered with %d", code)
	}
	return answer.Status, err
}
