package hosted

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/datastore"
	"plasmacloud.io/plasmacloud/internal/iam/authority"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
	"plasmacloud.io/plasmacloud/internal/release"
	"plasmacloud.io/plasmacloud/internal/task"
	"plasmacloud.io/plasmacloud/internal/testapi"
)

var api *testapi.Server

func TestMain(m *testing.M) {
	started, err := testapi.Start(testapi.Options{Controllers: []string{"namespace-controller"}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	api = started
	code := m.Run()
	if err := api.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

const version = "v1.36.3"

// world is a management cluster without nodes, and one cluster to be made on it.
type world struct {
	t           *testing.T
	client      kubernetes.Interface
	dynamic     dynamic.Interface
	provisioner *Provisioner
	cluster     *v1alpha1.Cluster
	namespace   string
	store       *storeStub
	identities  *identityStub
	offered     *catalogue.Catalogue
	outputs     map[string]string
}

var worlds atomic.Int32

func newWorld(t *testing.T, change ...func(spec map[string]any)) *world {
	t.Helper()
	w := &world{t: t, store: &storeStub{tenants: map[string]bool{}}, identities: &identityStub{clients: map[string]authority.Client{}}, outputs: map[string]string{}}
	var err error
	if w.client, err = kubernetes.NewForConfig(api.Config()); err != nil {
		t.Fatal(err)
	}
	if w.dynamic, err = dynamic.NewForConfig(api.Config()); err != nil {
		t.Fatal(err)
	}
	if w.offered, err = catalogue.New([]string{version, "v1.35.4"}, nil); err != nil {
		t.Fatal(err)
	}
	w.offered.Images = map[string]map[string]string{}
	for _, version := range w.offered.KubernetesVersions {
		images := map[string]string{}
		for _, name := range []string{
			containerAPIServer, containerControllerManager, containerScheduler, containerKonnectivity,
			release.ImageKonnectivityAgent, release.ImageCoreDNS, release.ImageNode,
		} {
			images[name] = "registry.example/" + name + ":" + version
		}
		w.offered.Images[version] = images
	}
	w.provisioner, err = New(Config{
		Datastore: func(*v1alpha1.Cluster) (Datastore, error) { return w.store, nil }, Scratch: t.TempDir(),
		Config: base.Config{
			Client: w.client, Dynamic: w.dynamic, Identities: w.identities, IdentityURL: "https://10.43.0.20",
			Catalogue: func() (*catalogue.Catalogue, error) { return w.offered, nil },
			Site: func(context.Context) (base.Site, error) {
				return base.Site{
					Address: netip.MustParseAddr("192.0.2.1"), PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.42.0.0/16")},
					ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.43.0.0/16")}, NodeAddresses: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")},
				}, nil
			},
			Platform: "plasmacloud-system", Account: "cloudd", Clock: clock.RealClock{},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.makeCluster(change)
	return w
}

// makeCluster makes a project's namespace with a cluster in it.
func (w *world) makeCluster(change []func(spec map[string]any)) {
	w.t.Helper()
	project := fmt.Sprintf("p%d", worlds.Add(1))
	home := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NamespacePrefix + project, Labels: map[string]string{
		v1alpha1.LabelOrganization: "acme", v1alpha1.LabelProject: project,
	}}}
	if _, err := w.client.CoreV1().Namespaces().Create(w.t.Context(), home, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	spec := map[string]any{"controlPlane": map[string]any{"replicas": int64(2)}}
	for _, f := range change {
		f(spec)
	}
	content := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "Cluster", "spec": spec,
		"metadata": map[string]any{"name": "dev", "namespace": home.Name, "finalizers": []any{v1alpha1.Finalizer}},
	}}
	if _, err := w.clusters(home.Name).Create(w.t.Context(), content, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.cluster = &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "dev", Namespace: home.Name}}
	w.reload()
	w.namespace = v1alpha1.InfrastructureNamespace(w.cluster)
}

func (w *world) clusters(namespace string) dynamic.ResourceInterface {
	return w.dynamic.Resource(v1alpha1.GroupVersion.WithResource("clusters")).Namespace(namespace)
}

// reload reads the cluster as it is now; its status, which nobody here writes, stays.
func (w *world) reload() {
	w.t.Helper()
	content, err := w.clusters(w.cluster.Namespace).Get(w.t.Context(), w.cluster.Name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	read := &v1alpha1.Cluster{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, read); err != nil {
		w.t.Fatal(err)
	}
	read.Status = w.cluster.Status
	w.cluster = read
}

func (w *world) scope(step string) *task.Scope {
	now := metav1.Now()
	return &task.Scope{
		Task: &v1alpha1.Task{
			Spec:   v1alpha1.TaskSpec{Generation: w.cluster.Generation},
			Status: v1alpha1.TaskStatus{Outputs: maps.Clone(w.outputs), Steps: []v1alpha1.StepStatus{{Name: step, StartedAt: &now}}},
		},
		Object: w.cluster.DeepCopy(), Attempt: 1, Log: slog.New(slog.DiscardHandler),
	}
}

// try runs one step of an operation.
func (w *world) try(ctx context.Context, operation v1alpha1.Operation, name string) error {
	w.t.Helper()
	steps, err := w.provisioner.Steps(operation, w.cluster)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, step := range steps {
		if step.Name != name {
			continue
		}
		scope := w.scope(name)
		err := step.Run(ctx, scope)
		if err == nil {
			maps.Copy(w.outputs, scope.Outputs())
		}
		return err
	}
	w.t.Fatalf("%s has no step %s", operation, name)
	return nil
}

// run runs steps of an operation, each of which has to succeed.
func (w *world) run(operation v1alpha1.Operation, names ...string) {
	w.t.Helper()
	for _, name := range names {
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		err := w.try(ctx, operation, name)
		cancel()
		if err != nil {
			w.t.Fatalf("step %s: %v", name, err)
		}
	}
}

// created are the steps of a creation that need no running control plane.
var created = []string{"prepare", "certificates", "endpoint", "datastore", "control-plane"}

func (w *world) build(step string) *build {
	w.t.Helper()
	b, err := w.provisioner.begin(w.scope(step))
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// snapshot is the versions of all objects that the steps make.
func (w *world) snapshot() map[string]string {
	w.t.Helper()
	found := map[string]string{}
	for _, resource := range []schema.GroupVersionResource{
		{Version: "v1", Resource: "secrets"}, {Version: "v1", Resource: "services"},
		{Group: "apps", Version: "v1", Resource: "deployments"}, {Group: "policy", Version: "v1", Resource: "poddisruptionbudgets"},
		{Group: "networking.k8s.io", Version: "v1", Resource: "networkpolicies"},
		{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "rolebindings"}, {Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"},
	} {
		for _, namespace := range []string{w.namespace, w.cluster.Namespace} {
			list, err := w.dynamic.Resource(resource).Namespace(namespace).List(w.t.Context(), metav1.ListOptions{})
			if err != nil {
				w.t.Fatal(err)
			}
			for _, item := range list.Items {
				found[namespace+" "+item.GetKind()+"/"+item.GetName()] = item.GetResourceVersion()
			}
		}
	}
	namespace, err := w.client.CoreV1().Namespaces().Get(w.t.Context(), w.namespace, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		w.t.Fatal(err)
	}
	found["namespace"] = namespace.ResourceVersion
	return found
}

// storeStub is a datastore that remembers its tenants.
type storeStub struct {
	tenants map[string]bool
	failing error
}

func (s *storeStub) Ensure(_ context.Context, tenant datastore.Tenant) (datastore.Credentials, error) {
	if s.failing != nil {
		return datastore.Credentials{}, s.failing
	}
	s.tenants[tenant.Name] = true
	pair := tenant.Have
	if len(pair.Cert) == 0 {
		pair = datastore.Pair{Cert: []byte("certificate " + time.Now().String()), Key: []byte("key")}
	}
	return datastore.Credentials{Endpoints: []string{"https://etcd:2379"}, Prefix: "/tenants/" + tenant.Name, CA: []byte("ca"), Pair: pair}, nil
}

func (s *storeStub) Remove(_ context.Context, tenant datastore.Tenant) error {
	if s.failing != nil {
		return s.failing
	}
	delete(s.tenants, tenant.Name)
	return nil
}

// identityStub is an identity service that remembers whom it certified.
type identityStub struct{ clients map[string]authority.Client }

func (s *identityStub) Ensure(_ context.Context, client authority.Client) (*corev1.Secret, error) {
	s.clients[client.Name] = client
	return &corev1.Secret{Data: map[string][]byte{"ca.crt": []byte("ca"), "tls.crt": []byte("certificate"), "tls.key": []byte("key")}}, nil
}

func (s *identityStub) Revoke(_ context.Context, name string) error {
	delete(s.clients, name)
	return nil
}

func mentions(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v does not mention %q", err, word)
		}
	}
}
