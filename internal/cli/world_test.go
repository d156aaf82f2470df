package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/cli/config"
	"plasmacloud.io/plasmacloud/internal/cli/platform"
	"plasmacloud.io/plasmacloud/internal/cli/session"
	"plasmacloud.io/plasmacloud/internal/iam/wire"
	access "plasmacloud.io/plasmacloud/internal/kubeaccess/wire"
)

// noon is the time in the world.
var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// world is an installation for tests: a management API in memory, an identity service, and a user with a home.
type world struct {
	t         *testing.T
	api       client.WithWatch
	iam       *identities
	dir       string
	installer platform.Installer
	terminal  session.Terminal
	env       map[string]string
	refuse    func(verb string, object client.Object) error // may be nil

	mu      sync.Mutex
	watches int
	created chan client.Object
}

// newWorld loads the objects of testdata/world.yaml.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), env: map[string]string{}, created: make(chan client.Object, 10)}
	w.iam = serve(t)
	w.terminal.Width = func() int { return 100 }
	scheme, err := session.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme).UniversalDeserializer()
	content, err := os.ReadFile("testdata/world.yaml")
	if err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&v1alpha1.Cluster{}, &v1alpha1.Task{})
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		object, _, err := decoder.Decode([]byte(document), nil, nil)
		if err != nil {
			t.Fatalf("%v in\n%s", err, document)
		}
		builder.WithRuntimeObjects(object)
	}
	builder.WithRuntimeObjects(offers(t))
	for object, fields := range map[client.Object]map[string]client.IndexerFunc{
		&v1alpha1.Cluster{}:      {"spec.network": func(o client.Object) []string { return []string{o.(*v1alpha1.Cluster).Spec.Network} }},
		&v1alpha1.Network{}:      {"spec.account": func(o client.Object) []string { return []string{o.(*v1alpha1.Network).Spec.Account} }},
		&v1alpha1.Machine{}:      {"spec.cluster": func(o client.Object) []string { return []string{o.(*v1alpha1.Machine).Spec.Cluster} }},
		&v1alpha1.NodeGroup{}:    {"spec.cluster": func(o client.Object) []string { return []string{o.(*v1alpha1.NodeGroup).Spec.Cluster} }},
		&v1alpha1.Task{}:         {"spec.resource.name": func(o client.Object) []string { return []string{o.(*v1alpha1.Task).Spec.Resource.Name} }},
		&v1alpha1.Bucket{}:       {"spec.cluster": func(o client.Object) []string { return []string{o.(*v1alpha1.Bucket).Spec.Cluster} }},
		&v1alpha1.Organization{}: {},
		&v1alpha1.User{}:         {},
		&v1alpha1.Project{}:      {},
		&v1alpha1.Account{}:      {},
	} {
		builder.WithIndex(object, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} })
		for field, index := range fields {
			builder.WithIndex(object, field, index)
		}
	}
	w.api = builder.WithInterceptorFuncs(w.behave()).Build()
	w.remember(config.Context{Name: "home", Server: "https://api.invalid:6443", IAM: w.iam.URL, CA: w.iam.ca(), Project: "web", User: "ada@example.com"})
	w.keep("home", config.Token{AccessToken: w.iam.valid, RefreshToken: "refresh", ExpiresAt: noon.Add(time.Hour)})
	return w
}

// offers is the installation's catalogue.
func offers(t *testing.T) *corev1.ConfigMap {
	t.Helper()
	offered, err := catalogue.New([]string{"v1.35.4", "v1.36.3"}, []catalogue.ClusterType{
		{Name: v1alpha1.ClusterHosted, Capabilities: []catalogue.Capability{catalogue.CanCreate, catalogue.CanScale, catalogue.CanUpgrade, catalogue.CanRepair, catalogue.CanKubeconfig}},
		{Name: v1alpha1.ClusterFake, Capabilities: []catalogue.Capability{catalogue.CanCreate}},
		{Name: v1alpha1.ClusterEKS, Capabilities: []catalogue.Capability{catalogue.CanKubeconfig}},
		{Name: v1alpha1.ClusterGKE, Capabilities: []catalogue.Capability{catalogue.CanUpgrade, catalogue.CanRepair}},
	})
	if err != nil {
		t.Fatal(err)
	}
	content, err := offered.Render()
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: catalogue.Namespace, Name: catalogue.ConfigMapName},
		Data:       map[string]string{catalogue.ConfigMapKey: string(content)},
	}
}

// behave makes the fake do what a real API does: it gives new objects their identity, and counts generations.
func (w *world) behave() interceptor.Funcs {
	refused := func(verb string, object client.Object) error {
		if w.refuse == nil {
			return nil
		}
		return w.refuse(verb, object)
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, api client.WithWatch, object client.Object, opts ...client.CreateOption) error {
			if err := refused("create", object); err != nil {
				return err
			}
			object.SetUID(types.UID("uid-" + object.GetName()))
			object.SetGeneration(1)
			object.SetCreationTimestamp(metav1.NewTime(noon))
			err := api.Create(ctx, object, opts...)
			if err == nil {
				select {
				case w.created <- object:
				default:
				}
			}
			return err
		},
		Patch: func(ctx context.Context, api client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			if err := refused("patch", object); err != nil {
				return err
			}
			before := object.DeepCopyObject().(client.Object)
			if err := api.Patch(ctx, object, patch, opts...); err != nil {
				return err
			}
			if cluster, ok := object.(*v1alpha1.Cluster); ok && fmt.Sprint(cluster.Spec.NodeGroups) != fmt.Sprint(before.(*v1alpha1.Cluster).Spec.NodeGroups) {
				cluster.Generation++
			}
			return nil
		},
		Get: func(ctx context.Context, api client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if err := refused("get", object); err != nil {
				return err
			}
			return api.Get(ctx, key, object, opts...)
		},
		Delete: func(ctx context.Context, api client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
			if err := refused("delete", object); err != nil {
				return err
			}
			return api.Delete(ctx, object, opts...)
		},
		List: func(ctx context.Context, api client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			switch list.(type) {
			case *v1alpha1.ProjectList:
				if err := refused("list", &v1alpha1.Project{}); err != nil {
					return err
				}
			case *v1alpha1.OrganizationList:
				if err := refused("list", &v1alpha1.Organization{}); err != nil {
					return err
				}
			}
			return api.List(ctx, list, opts...)
		},
		Watch: func(ctx context.Context, api client.WithWatch, list client.ObjectList, opts ...client.ListOption) (watch.Interface, error) {
			watcher, err := api.Watch(ctx, list, opts...)
			w.mu.Lock()
			w.watches++
			w.mu.Unlock()
			return watcher, err
		},
	}
}

// watched waits until so many watches have begun.
func (w *world) watched(n int) {
	w.eventually(fmt.Sprintf("%d watches", n), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.watches >= n
	})
}

func (w *world) eventually(what string, done func() bool) {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			w.t.Errorf("there was no %s", what)
			return
		}
	}
}

func (w *world) store() *config.Store {
	w.t.Helper()
	store, err := config.Locate(w.getenv)
	if err != nil {
		w.t.Fatal(err)
	}
	return store
}

func (w *world) remember(place config.Context) {
	w.t.Helper()
	err := w.store().Update(w.t.Context(), func(file *config.File) error {
		file.Put(place)
		file.CurrentContext = place.Name
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) keep(name string, token config.Token) {
	w.t.Helper()
	if _, err := w.store().UpdateToken(w.t.Context(), name, func(config.Token) (config.Token, error) { return token, nil }); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) getenv(name string) string {
	if value, ok := w.env[name]; ok {
		return value
	}
	return map[string]string{"HOME": w.dir, "XDG_CONFIG_HOME": filepath.Join(w.dir, "config"), "TERM": "xterm"}[name]
}

// buffer can be read while it is written.
type buffer struct {
	mu      sync.Mutex
	content bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.content.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.content.String()
}

// result is how a command ended.
type result struct {
	out, err string
	code     int
}

// run runs a command of the real tree.
func (w *world) run(args ...string) result {
	var out, err buffer
	code := w.start(w.t.Context(), "", &out, &err, args...)
	return result{out.String(), err.String(), code}
}

func (w *world) start(ctx context.Context, input string, out, err *buffer, args ...string) int {
	terminal := w.terminal
	return Run(ctx, session.Parts{
		In: strings.NewReader(input), Out: out, Err: err, Terminal: terminal, Env: w.getenv, Now: func() time.Time { return noon },
		Executable: "/usr/local/bin/cloud",
		Connect:    func(*rest.Config) (client.WithWatch, error) { return w.api, nil },
	}, w.installer, args)
}

// identities is an identity service with one user.
type identities struct {
	*httptest.Server
	mu        sync.Mutex
	valid     string // access token that is good
	refreshed int
	requests  []string
	identity  wire.Identity
	passwords []wire.PasswordRequest
	tokens    []wire.Token
}

func serve(t *testing.T) *identities {
	t.Helper()
	i := &identities{valid: "access-0", identity: wire.Identity{
		Name: "ada", ID: "1", Kind: "Person", Email: "ada@example.com", Username: "ada@example.com", Groups: []string{"org:acme", "project:web"},
		Organization: "acme", Projects: []wire.Membership{{Project: "web", Role: "admin"}, {Project: "shop", Role: "viewer"}},
	}}
	i.Server = httptest.NewTLSServer(http.HandlerFunc(i.serve))
	t.Cleanup(i.Close)
	return i
}

func (i *identities) ca() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: i.Certificate().Raw}))
}

func (i *identities) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.requests = append(i.requests, r.Method+" "+strings.TrimPrefix(r.URL.Path, wire.PathPrefix))
	answer := func(code int, value any) {
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(value)
	}
	refuse := func(code int, reason metav1.StatusReason, message string) {
		answer(code, metav1.Status{Status: metav1.StatusFailure, Code: int32(code), Reason: reason, Message: message})
	}
	read := func(into any) { _ = json.NewDecoder(r.Body).Decode(into) }
	switch open := r.URL.Path == wire.PathLogin || r.URL.Path == wire.PathRefresh || r.URL.Path == wire.PathLogout; {
	case !open && r.Header.Get("Authorization") != "Bearer "+i.valid:
		refuse(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "the token is not accepted")
	case r.Method == http.MethodPost && r.URL.Path == access.Path("web", "cloudy"):
		answer(http.StatusOK, access.Access{Server: "https://eks.example.com", CA: "CA", Token: "k8s-aws-v1.token", ExpiresAt: noon.Add(14 * time.Minute)})
	case strings.HasPrefix(r.URL.Path, "/apis/instances."):
		attach(w, r)
	case r.URL.Path == wire.PathLogin:
		var request wire.LoginRequest
		if read(&request); request.Email == "eve@example.com" {
			refuse(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "too many logins failed: wait 30 seconds")
		} else if request.Email != "ada@example.com" || request.Password != "open sesame" {
			refuse(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "the e-mail address or the password is wrong")
		} else {
			i.valid = "access-1"
			answer(http.StatusOK, wire.Session{AccessToken: i.valid, ExpiresAt: noon.Add(15 * time.Minute), RefreshToken: "refresh", User: "ada"})
		}
	case r.URL.Path == wire.PathRefresh:
		var request wire.RefreshRequest
		if read(&request); request.RefreshToken != "refresh" {
			refuse(http.StatusUnauthorized, metav1.StatusReasonUnauthorized, "the session has ended")
			return
		}
		i.refreshed++
		i.valid = fmt.Sprintf("refreshed-%d", i.refreshed)
		answer(http.StatusOK, wire.Session{AccessToken: i.valid, ExpiresAt: noon.Add(15 * time.Minute), RefreshToken: "refresh", User: "ada"})
	case r.URL.Path == wire.PathLogout:
		w.WriteHeader(http.StatusNoContent)
	case r.URL.Path == wire.PathWhoami:
		answer(http.StatusOK, i.identity)
	case r.URL.Path == wire.PathPassword:
		var request wire.PasswordRequest
		if read(&request); len(request.New) < 8 {
			refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "new: use at least 8 characters")
			return
		}
		i.passwords = append(i.passwords, request)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPost:
		var request wire.TokenRequest
		read(&request)
		made := wire.Token{Name: fmt.Sprintf("token-%d", len(i.tokens)+1), User: "ada", Description: request.Description, Project: request.Project, CreatedAt: noon, ExpiresAt: request.ExpiresAt}
		if request.User != "" {
			made.User = request.User
		}
		i.tokens = append(i.tokens, made)
		made.Token = "pct_secret"
		answer(http.StatusCreated, made)
	case r.Method == http.MethodDelete:
		name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		for n := range i.tokens {
			if i.tokens[n].Name == name {
				i.tokens[n].Revoked = true
				w.WriteHeader(http.StatusNoContent)
				return
			}
		}
		refuse(http.StatusNotFound, metav1.StatusReasonNotFound, "there is no such token")
	default:
		answer(http.StatusOK, wire.TokenList{Items: i.tokens})
	}
}
