package machines

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/hostsetup"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/machine"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
	"plasmacloud.io/plasmacloud/internal/release"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
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

// world is a management cluster without nodes, one cluster to be made on it, and hosts that remember what was done on them.
type world struct {
	t           *testing.T
	client      kubernetes.Interface
	dynamic     dynamic.Interface
	provisioner *Provisioner
	cluster     *v1alpha1.Cluster
	home        string
	hosts       *hosts
	outputs     map[string]string
	force       bool
	addresses   int
}

var worlds atomic.Int32

func newWorld(t *testing.T, replicas int64) *world {
	t.Helper()
	w := &world{t: t, hosts: newHosts(t), outputs: map[string]string{}}
	var err error
	if w.client, err = kubernetes.NewForConfig(api.Config()); err != nil {
		t.Fatal(err)
	}
	if w.dynamic, err = dynamic.NewForConfig(api.Config()); err != nil {
		t.Fatal(err)
	}
	offered, err := catalogue.New([]string{version}, nil)
	if err != nil {
		t.Fatal(err)
	}
	offered.Images = map[string]map[string]string{version: {release.ImageNode: "node:" + version}}
	w.provisioner, err = New(Config{
		Type: v1alpha1.ClusterKubeadm, Image: "cloudd:latest", Contents: Contents{PodNetwork: true},
		Distribution: func(*v1alpha1.Cluster) (hostsetup.Distribution, error) { return w.hosts, w.hosts.missing },
		Reach: func(_ context.Context, _, account string, key machine.Key) (*remote.Client, error) {
			if account != "local" {
				return nil, fmt.Errorf("account %q", account)
			}
			return remote.NewPool(remote.Config{}).Client(remote.Host{Address: key.Name}), nil
		},
		Config: base.Config{
			Client: w.client, Dynamic: w.dynamic, Platform: "plasmacloud-system", Account: "cloudd", Clock: clock.RealClock{},
			Catalogue: func() (*catalogue.Catalogue, error) { return offered, nil },
			Site: func(context.Context) (base.Site, error) {
				return base.Site{Address: netip.MustParseAddr("192.0.2.1"), NodeAddresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}, nil
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.makeCluster(replicas)
	return w
}

// makeCluster makes a project's namespace with a network and a cluster in it.
func (w *world) makeCluster(replicas int64) {
	w.t.Helper()
	project := fmt.Sprintf("p%d", worlds.Add(1))
	home := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.NamespacePrefix + project}}
	if _, err := w.client.CoreV1().Namespaces().Create(w.t.Context(), home, metav1.CreateOptions{}); err != nil {
		w.t.Fatal(err)
	}
	w.create(home.Name, "accounts", map[string]any{"kind": "Account", "metadata": map[string]any{"name": "local"}, "spec": map[string]any{"provider": "Local"}})
	w.create(home.Name, "networks", map[string]any{"kind": "Network", "metadata": map[string]any{"name": "default"}, "spec": map[string]any{"account": "local"}})
	w.create(home.Name, "clusters", map[string]any{
		"kind": "Cluster", "metadata": map[string]any{"name": "dev", "finalizers": []any{v1alpha1.Finalizer}},
		"spec": map[string]any{"type": "Kubeadm", "controlPlane": map[string]any{"replicas": replicas}},
	})
	w.cluster = &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "dev", Namespace: home.Name}}
	w.reload()
	w.home = v1alpha1.InfrastructureNamespace(w.cluster)
}

func (w *world) create(namespace, resource string, content map[string]any) {
	w.t.Helper()
	content["apiVersion"] = v1alpha1.GroupVersion.String()
	_, err := w.resource(resource, namespace).Create(w.t.Context(), &unstructured.Unstructured{Object: content}, metav1.CreateOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) resource(resource, namespace string) dynamic.ResourceInterface {
	return w.dynamic.Resource(v1alpha1.GroupVersion.WithResource(resource)).Namespace(namespace)
}

// reload reads the cluster as it is now; its status, which nobody here writes, stays.
func (w *world) reload() {
	w.t.Helper()
	content, err := w.resource("clusters", w.cluster.Namespace).Get(w.t.Context(), w.cluster.Name, metav1.GetOptions{})
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

// try runs one step of an operation.
func (w *world) try(ctx context.Context, operation v1alpha1.Operation, name string) error {
	w.t.Helper()
	steps, err := w.provisioner.Steps(operation, w.cluster)
	if err != nil {
		w.t.Fatal(err)
	}
	at := slices.IndexFunc(steps, func(step task.Step) bool { return step.Name == name })
	if at < 0 {
		w.t.Fatalf("%s has no step %s", operation, name)
	}
	scope := &task.Scope{
		Task: &v1alpha1.Task{
			Spec:   v1alpha1.TaskSpec{Operation: operation, Generation: w.cluster.Generation, Force: w.force},
			Status: v1alpha1.TaskStatus{Outputs: maps.Clone(w.outputs)},
		},
		Object: w.cluster.DeepCopy(), Attempt: 1, Log: slog.New(slog.DiscardHandler),
	}
	if err := steps[at].Run(ctx, scope); err != nil {
		return err
	}
	maps.Copy(w.outputs, scope.Outputs())
	return nil
}

// run runs steps of an operation, each of which has to succeed. Meanwhile machines that are made begin to run.
func (w *world) run(operation v1alpha1.Operation, names ...string) {
	w.t.Helper()
	for _, name := range names {
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
		done := make(chan error, 1)
		go func() { done <- w.try(ctx, operation, name) }()
		for running := true; running; {
			select {
			case err := <-done:
				if err != nil {
					cancel()
					w.t.Fatalf("step %s: %v", name, err)
				}
				running = false
			case <-time.After(100 * time.Millisecond):
				w.boot()
			}
		}
		cancel()
	}
}

// machines are those of the cluster.
func (w *world) machines() []v1alpha1.Machine {
	list, err := w.resource("machines", w.cluster.Namespace).List(w.t.Context(), metav1.ListOptions{})
	if err != nil {
		w.t.Error(err)
		return nil
	}
	machines := make([]v1alpha1.Machine, len(list.Items))
	for i := range list.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &machines[i]); err != nil {
			w.t.Error(err)
		}
	}
	return machines
}

// boot does what the controller of machines does: gives those an address that have none.
func (w *world) boot() {
	for _, m := range w.machines() {
		if m.Status.Address == "" {
			w.addresses++
			w.set(m.Name, map[string]any{"id": m.Name, "address": fmt.Sprintf("10.0.0.%d", w.addresses), "observedGeneration": int64(1)}, "", "True")
		}
	}
}

// set writes a machine's status with a condition Ready.
func (w *world) set(name string, status map[string]any, reason, ready string) {
	content, err := w.resource("machines", w.cluster.Namespace).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Error(err)
		return
	}
	if reason == "" {
		reason = "Ready"
	}
	status["conditions"] = []any{map[string]any{
		"type": "Ready", "status": ready, "reason": reason, "message": "", "lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
	}}
	content.Object["status"] = status
	if _, err := w.resource("machines", w.cluster.Namespace).UpdateStatus(w.t.Context(), content, metav1.UpdateOptions{}); err != nil {
		w.t.Error(err)
	}
}

// lose makes a machine one that its provider no longer has.
func (w *world) lose(name string) {
	w.set(name, map[string]any{"id": name, "address": "10.9.9.9", "observedGeneration": int64(1)}, v1alpha1.ReasonMachineLost, "False")
}

// hosts are a Distribution that remembers what was done.
type hosts struct {
	t       *testing.T
	missing error
	failing map[string]error
	keys    hostsetup.Credentials

	mu   sync.Mutex
	done []string
}

var _ hostsetup.Distribution = (*hosts)(nil)

func newHosts(t *testing.T) *hosts {
	t.Helper()
	store := pki.New(t.TempDir(), clock.RealClock{})
	if _, err := store.Ensure([]pki.Leaf{{Name: pki.Admin, CommonName: "admin", CA: pki.ClusterCA, Client: true}}); err != nil {
		t.Fatal(err)
	}
	read := func(path string) []byte {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	cert, key := read(store.CertPath(pki.Admin)), read(store.KeyPath(pki.Admin))
	return &hosts{t: t, failing: map[string]error{}, keys: hostsetup.Credentials{
		CA: read(store.Dir() + "/ca.crt"), AdminCert: cert, AdminKey: key, SuperAdminCert: cert, SuperAdminKey: key,
	}}
}

func (h *hosts) did(format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = append(h.done, text)
	verb, _, _ := strings.Cut(text, " ")
	return h.failing[verb]
}

// forget returns what was done since it was last asked.
func (h *hosts) forget() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	done := h.done
	h.done = nil
	slices.Sort(done)
	return done
}

func (h *hosts) Prepare(_ context.Context, host hostsetup.Host, c hostsetup.Cluster, role hostsetup.Role, progress func(string)) error {
	progress("working")
	if c.Version != version || role != hostsetup.ControlPlane || !strings.HasPrefix(c.Endpoint, "192.0.2.1:") {
		return fmt.Errorf("%+v", c)
	}
	return h.did("prepare %s", host.Name)
}

func (h *hosts) Init(_ context.Context, host hostsetup.Host, _ hostsetup.Cluster) (hostsetup.Credentials, error) {
	return h.keys, h.did("init %s", host.Name)
}

func (h *hosts) JoinControlPlane(_ context.Context, host, first hostsetup.Host, c hostsetup.Cluster, admitted func()) error {
	if len(c.CA) == 0 {
		return errors.New("there is no authority")
	}
	admitted()
	return h.did("join %s by %s", host.Name, first.Name)
}

func (h *hosts) JoinWorker(context.Context, hostsetup.Host, hostsetup.Cluster, string) error {
	return errors.New("that is somebody else's")
}

func (h *hosts) RemoveMember(_ context.Context, through hostsetup.Host, name string) error {
	return h.did("remove %s by %s", name, through.Name)
}

func (h *hosts) Survive(_ context.Context, host hostsetup.Host) error {
	return h.did("survive %s", host.Name)
}

func (h *hosts) Health(_ context.Context, host hostsetup.Host, _ hostsetup.Role) ([]hostsetup.Finding, error) {
	return []hostsetup.Finding{{Check: "kubelet", Subject: host.Name, Message: "it is stopped", Repairable: true}}, h.did("look %s", host.Name)
}

func (h *hosts) Repair(_ context.Context, host hostsetup.Host, _ hostsetup.Cluster, _ hostsetup.Role, _ []hostsetup.Finding) error {
	return h.did("mend %s", host.Name)
}

func (h *hosts) Clean(context.Context, *remote.Client) error {
	return errors.New("that is somebody else's")
}
