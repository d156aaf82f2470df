package admission

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/admission/ledger"
	"plasmacloud.io/plasmacloud/internal/testapi"
)

const (
	system   = "plasmacloud-system"
	platform = "system:serviceaccount:plasmacloud-system:cloudd"
)

// The API server of the tests below asks two admission servers in turn, each with a cache of its own.
var (
	api   *testapi.Server
	asked atomic.Int64
)

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (int, error) {
	var err error
	if api, err = testapi.Start(testapi.Options{Controllers: []string{"namespace-controller"}}); err != nil {
		return 1, err
	}
	defer func() {
		if err := api.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	handlers := make([]http.Handler, 2)
	for i := range handlers {
		if handlers[i], err = server(ctx); err != nil {
			return 1, err
		}
	}
	webhook := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handlers[asked.Add(1)%2].ServeHTTP(w, r)
	}))
	defer webhook.Close()
	if err := install(ctx, webhook); err != nil {
		return 1, err
	}
	return m.Run(), nil
}

func newClient() (client.Client, error) {
	return client.New(api.Config(), client.Options{Scheme: scheme()})
}

// server is an admission server as the platform runs it.
func server(ctx context.Context) (http.Handler, error) {
	live, err := newClient()
	if err != nil {
		return nil, err
	}
	cached, err := cache.New(api.Config(), cache.Options{Scheme: scheme()})
	if err != nil {
		return nil, err
	}
	go func() { _ = cached.Start(ctx) }()
	v := New(Config{Cached: cached, Live: live, Catalogue: offers, Ledger: ledger.New(live, live, system, time.Now), Now: time.Now})
	mux := http.NewServeMux()
	mux.Handle(Path, v.Handler())
	return mux, nil
}

// install makes the API server ask, and returns when it does.
func install(ctx context.Context, webhook *httptest.Server) error {
	c, err := newClient()
	if err != nil {
		return err
	}
	url := webhook.URL + Path
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: webhook.Certificate().Raw})
	for _, object := range []client.Object{
		named(&corev1.Namespace{}, "", system),
		Configuration(admissionregistrationv1.WebhookClientConfig{URL: &url, CABundle: ca}, platform),
	} {
		if err := c.Create(ctx, object); err != nil {
			return err
		}
	}
	deadline := time.Now().Add(time.Minute)
	for {
		err := c.Create(ctx, named(&v1alpha1.Account{Spec: v1alpha1.AccountSpec{Provider: v1alpha1.ProviderLocal}}, "default", "probe"), client.DryRunAll)
		if apierrors.IsInvalid(err) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the API server does not ask: %w", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// tenant is an organization with a project, its namespace, account and network, all by one name.
type tenant struct {
	client.Client
	name, namespace string
}

func newTenant(t *testing.T, name string, quota *v1alpha1.Quota) *tenant {
	t.Helper()
	c, err := newClient()
	if err != nil {
		t.Fatal(err)
	}
	tenant := &tenant{Client: c, name: name, namespace: v1alpha1.NamespacePrefix + name}
	tenant.make(t, org(name, nil), proj(name, name, quota), named(&corev1.Namespace{}, "", tenant.namespace),
		tenant.at(acct("local", v1alpha1.ProviderLocal)), tenant.at(vpc("default", "local", "10.0.0.0/16")))
	return tenant
}

// at puts an object into the tenant's project.
func (p *tenant) at(object client.Object) client.Object {
	object.SetNamespace(p.namespace)
	return object
}

func (p *tenant) make(t *testing.T, objects ...client.Object) {
	t.Helper()
	for _, object := range objects {
		if err := p.Create(t.Context(), object); err != nil {
			t.Fatalf("%T %s: %v", object, object.GetName(), err)
		}
	}
}

// refusedWith tells whether the webhook refused with all of the texts.
func refusedWith(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("admitted, want a refusal with %q", texts)
		return
	}
	for _, text := range append(texts, `admission webhook "validate.admission.plasmacloud.io" denied the request`) {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("refused with %q, want %q in it", err, text)
		}
	}
}

func TestParentsThroughTheAPI(t *testing.T) {
	p := newTenant(t, "parents", nil)
	refusedWith(t, p.Create(t.Context(), proj("x", "nobody", nil)), "spec.organization", "cloud org create nobody")
	refusedWith(t, p.Create(t.Context(), p.at(vpc("x", "moon", "10.1.0.0/16"))), "spec.account", "cloud account create moon")
	refusedWith(t, p.Create(t.Context(), p.at(vpc("x", "local", "10.0.0.0/24"))), "spec.cidr", "overlaps with 10.0.0.0/16 of network default")
	refusedWith(t, p.Create(t.Context(), p.at(k8s("x", func(s *v1alpha1.ClusterSpec) { s.Network = "moon" }))), "spec.network", "cloud vpc create moon")
	refusedWith(t, p.Create(t.Context(), p.at(k8s("x", func(s *v1alpha1.ClusterSpec) { s.Version = "v1.20" }))), "spec.version", "v1.36.3, v1.35.4")
	refusedWith(t, p.Create(t.Context(), named(k8s("x"), "default", "x")), "metadata.namespace", "this is no project's namespace")
	err := p.Create(t.Context(), p.at(k8s("x", func(s *v1alpha1.ClusterSpec) { s.ControlPlane.InstanceType = "huge" })))
	if status, ok := err.(apierrors.APIStatus); !ok || !apierrors.IsInvalid(err) || status.Status().Details.Causes[0].Field != "spec.controlPlane.instanceType" {
		t.Errorf("a refusal is not told like those of the API server itself: %v", err)
	}
	p.make(t, p.at(k8s("dev", workers(1))))
}

func TestDeletionThroughTheAPI(t *testing.T) {
	p := newTenant(t, "deletion", nil)
	protected := k8s("dev", func(s *v1alpha1.ClusterSpec) { s.DeletionProtection = true })
	p.make(t, p.at(protected))
	refusedWith(t, p.Delete(t.Context(), org(p.name, nil)), "it still has projects: deletion; delete them first")
	refusedWith(t, p.Delete(t.Context(), proj(p.name, "", nil)), "it still has clusters: dev")
	refusedWith(t, p.Delete(t.Context(), p.at(acct("local", ""))), "it still has networks: default")
	refusedWith(t, p.Delete(t.Context(), p.at(vpc("default", "", ""))), "it still has clusters: dev")
	refusedWith(t, p.DeleteAllOf(t.Context(), &v1alpha1.Network{}, client.InNamespace(p.namespace)), "it still has clusters: dev")
	refusedWith(t, p.Delete(t.Context(), protected), "it is protected from deletion")
	protected.Spec.DeletionProtection = false
	if err := p.Update(t.Context(), protected); err != nil {
		t.Fatal(err)
	}
	for _, object := range []client.Object{protected, p.at(vpc("default", "", "")), p.at(acct("local", "")), proj(p.name, "", nil), org(p.name, nil)} {
		if err := p.Delete(t.Context(), object); err != nil {
			t.Errorf("%T is not deletable when its children are gone: %v", object, err)
		}
	}
}

// Who deletes a whole namespace deletes in no order; what is refused at first goes when its children have gone.
func TestANamespaceCanBeDeleted(t *testing.T) {
	p := newTenant(t, "namespace", nil)
	p.make(t, p.at(k8s("dev")))
	if err := p.Delete(t.Context(), named(&corev1.Namespace{}, "", p.namespace)); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		err := p.Get(t.Context(), client.ObjectKey{Name: p.namespace}, &corev1.Namespace{})
		if apierrors.IsNotFound(err) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the namespace is still there: %v", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// Twenty clusters are asked for at once, of two admission servers, and there is room for seven.
func TestQuotaIsKeptUnderLoadThroughTheAPI(t *testing.T) {
	const requests, room = 20, 7
	p := newTenant(t, "load", quota(room, 1000, "1000", "1Ti"))
	var wait sync.WaitGroup
	var admitted atomic.Int32
	problems := make(chan error, requests)
	for i := range requests {
		wait.Go(func() {
			err := p.Create(context.Background(), p.at(k8s(fmt.Sprintf("c%d", i), workers(1))))
			if err == nil {
				admitted.Add(1)
			} else if !strings.Contains(err.Error(), "used, 1 asked, 7 allowed") {
				problems <- err
			}
		})
	}
	wait.Wait()
	close(problems)
	for err := range problems {
		t.Error(err)
	}
	var stored v1alpha1.ClusterList
	if err := p.List(t.Context(), &stored, client.InNamespace(p.namespace)); err != nil {
		t.Fatal(err)
	}
	if admitted.Load() != room || len(stored.Items) != room {
		t.Errorf("%d were admitted and %d are there; there is room for %d", admitted.Load(), len(stored.Items), room)
	}
	// One goes, and another one comes.
	if err := p.Delete(t.Context(), &stored.Items[0]); err != nil {
		t.Fatal(err)
	}
	p.make(t, p.at(k8s("next", workers(1))))
	refusedWith(t, p.Create(t.Context(), p.at(k8s("last", workers(1)))), "it exceeds the quota of project load: clusters: 7 used, 1 asked, 7 allowed")
}

func TestScaleThroughTheAPI(t *testing.T) {
	p := newTenant(t, "scale", quota(9, 5, "1000", "1Ti"))
	cluster := k8s("dev", workers(3), func(s *v1alpha1.ClusterSpec) {
		g := s.NodeGroups["workers"]
		g.Replicas, g.MinReplicas = nil, 3
		s.NodeGroups["workers"] = g
	})
	p.make(t, p.at(cluster))
	group := group("dev", 3)
	group.Spec.Template = cluster.Spec.NodeGroups["workers"]
	p.make(t, p.at(group))
	to := func(n int32) error {
		return p.SubResource("scale").Update(t.Context(), group, client.WithSubResourceBody(&autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n}}))
	}
	refusedWith(t, to(6), "nodes: 3 used, 3 asked, 5 allowed")
	if err := to(5); err != nil {
		t.Error(err)
	}
	refusedWith(t, p.Create(t.Context(), p.at(k8s("more", workers(1)))), "nodes: 5 used, 1 asked, 5 allowed")
	if err := p.Get(t.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
		t.Fatal(err)
	}
	g := cluster.Spec.NodeGroups["workers"]
	g.MinReplicas = 6
	cluster.Spec.NodeGroups["workers"] = g
	refusedWith(t, p.Update(t.Context(), cluster), "nodes: 5 used, 1 asked, 5 allowed")
}

// The API server does not ask about what need not be decided, so that this goes on while the webhook is away.
func TestWhatIsNotAskedAbout(t *testing.T) {
	p := newTenant(t, "unasked", nil)
	cluster := k8s("dev", workers(1))
	p.make(t, p.at(cluster))
	quietly := func(what string, request func() error) {
		t.Helper()
		before := asked.Load()
		if err := request(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if now := asked.Load(); now != before {
			t.Errorf("%s: the webhook was asked", what)
		}
	}
	quietly("status", func() error {
		cluster.Status.Phase = v1alpha1.PhaseRunning
		return p.Status().Update(t.Context(), cluster)
	})
	quietly("finalizer", func() error { cluster.Finalizers = []string{v1alpha1.Finalizer}; return p.Update(t.Context(), cluster) })
	quietly("finalizer's end", func() error { cluster.Finalizers = nil; return p.Update(t.Context(), cluster) })
	quietly("metadata of an organization without a spec", func() error {
		o := org(p.name, nil)
		if err := p.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		o.Labels = map[string]string{"a": "b"}
		return p.Update(t.Context(), o)
	})
	own := platformClient(t, p)
	machine := named(&v1alpha1.Machine{Spec: v1alpha1.MachineSpec{Cluster: "dev", Account: "local", Role: v1alpha1.MachineWorker}}, p.namespace, "dev-1")
	made := group("dev", 1)
	made.Spec.Template = cluster.Spec.NodeGroups["workers"]
	p.at(made)
	quietly("the platform's machine", func() error { return own.Create(t.Context(), machine) })
	quietly("the platform's node group", func() error { return own.Create(t.Context(), made) })
	before := asked.Load()
	made.Spec.Replicas = 2
	if err := own.SubResource("scale").Update(t.Context(), made, client.WithSubResourceBody(&autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 2}})); err != nil {
		t.Error(err)
	}
	if asked.Load() == before {
		t.Error("the webhook was not asked about a scale of the platform's own autoscaler")
	}
	refusedWith(t, own.Create(t.Context(), p.at(k8s("x", func(s *v1alpha1.ClusterSpec) { s.Network = "moon" }))), "spec.network")
}

// platformClient is the platform's own, with the permission to do everything to our kinds.
func platformClient(t *testing.T, p *tenant) client.Client {
	t.Helper()
	p.make(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "platform"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{"plasmacloud.io"}, Resources: []string{"*"}, Verbs: []string{"*"}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "platform"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "platform"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: platform}}})
	own, err := client.New(api.ConfigFor(t, platform), client.Options{Scheme: scheme()})
	if err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for own.List(t.Context(), &v1alpha1.MachineList{}) != nil {
		if time.Now().After(deadline) {
			t.Fatal("the platform's permissions do not take effect")
		}
		time.Sleep(20 * time.Millisecond)
	}
	return own
}
