package datastore

import (
	"cmp"
	"context"
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

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/release"
	"plasmacloud.io/plasmacloud/internal/testapi"
)

var api *testapi.Server

func TestMain(m *testing.M) { os.Exit(testapi.Main(m, &api)) }

// world is a management cluster without nodes: what its StatefulSet says is started by hand, on the loopback interface.
type world struct {
	t      testing.TB
	api    kubernetes.Interface
	config Config
	etcd   *component.Process
	client string // the address on which etcd listens to clients
	peer   string
	health string
	dir    string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldOn(t, api)
}

func newWorldOn(t testing.TB, api *testapi.Server) *world {
	t.Helper()
	clients, err := kubernetes.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, api: clients, dir: t.TempDir(), client: freeAddress(t), peer: freeAddress(t), health: freeAddress(t)}
	w.config = Config{
		API: clients, Dynamic: objects, Namespace: api.Namespace(t), Image: "registry.k8s.io/etcd:3.6.8-0",
		Storage: Storage{Directory: "/var/lib/plasmacloud/datastore"},
		Dial:    w.dial, Clock: clock.RealClock{}, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	makeNode(t, clients, "node-a")
	return w
}

// dial knows one host.
func (w *world) dial(ctx context.Context, address string) (net.Conn, error) {
	switch host, _, _ := strings.Cut(address, "."); host {
	case "datastore", "datastore-0":
		return (&net.Dialer{}).DialContext(ctx, "tcp", w.client)
	}
	return nil, fmt.Errorf("no such host: %s", address)
}

func (w *world) shared() *Shared {
	w.t.Helper()
	shared, err := NewShared(w.config)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = shared.Close() })
	return shared
}

// installed returns a shared etcd that runs.
func (w *world) installed() *Shared {
	w.t.Helper()
	shared := w.shared()
	if err := shared.Install(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.start()
	if err := shared.Ready(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	return shared
}

// start runs the StatefulSet's first member, as its manifest says.
func (w *world) start(more ...string) {
	w.t.Helper()
	w.writeSecret()
	w.etcd = component.NewProcess(slog.New(slog.DiscardHandler), component.Spec{
		Name: "etcd", Path: binary(w.t, "etcd"), Args: append(w.args(), more...), Env: w.env(), LogDir: w.dir, RunDir: w.dir,
		Probe: func(ctx context.Context) error { return get(ctx, http.DefaultClient, "http://"+w.health+"/readyz") },
		Grace: time.Second,
	})
	run(w.t, w.etcd, w.dir)
}

func (w *world) stop() {
	w.t.Helper()
	if err := w.etcd.Stop(context.Background()); err != nil {
		w.t.Fatal(err)
	}
}

// args are the container's, with addresses and paths of this host.
func (w *world) args() []string {
	w.t.Helper()
	set, err := w.api.AppsV1().StatefulSets(w.config.Namespace).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	replace := strings.NewReplacer("$(MEMBER)", "datastore-0", "/etc/etcd/tls", w.dir+"/tls", "/var/lib/etcd", w.dir,
		"0.0.0.0:2379", w.client, "0.0.0.0:2380", w.peer, "0.0.0.0:2381", w.health)
	var args []string
	for _, arg := range set.Spec.Template.Spec.Containers[0].Args {
		args = append(args, replace.Replace(arg))
	}
	return append(args, "--unsafe-no-fsync")
}

func (w *world) env() []string {
	w.t.Helper()
	config, err := w.api.CoreV1().ConfigMaps(w.config.Namespace).Get(w.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return []string{"ETCD_INITIAL_CLUSTER=" + config.Data[initialClusterKey], "ETCD_INITIAL_CLUSTER_STATE=" + config.Data[initialStateKey]}
}

func (w *world) writeSecret() {
	w.t.Helper()
	secret, err := w.api.CoreV1().Secrets(w.config.Namespace).Get(w.t.Context(), tlsSecret, metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	writeFiles(w.t, filepath.Join(w.dir, "tls"), secret.Data)
}

// tenant connects as the tenant's control plane does.
func (w *world) tenant(c Credentials) *clientv3.Client {
	w.t.Helper()
	client, err := dial(w.config, c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = client.Close() })
	return client
}

func (w *world) ensure(shared Datastore, tenant string) Credentials {
	w.t.Helper()
	credentials, err := shared.Ensure(w.t.Context(), Tenant{Name: tenant})
	if err != nil {
		w.t.Fatal(err)
	}
	return credentials
}

func run(t testing.TB, process *component.Process, dir string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	t.Cleanup(func() { _ = process.Stop(context.Background()) })
	for _, step := range []func(context.Context) error{process.Init, process.Start, process.Ready} {
		if err := step(ctx); err != nil {
			log, _ := os.ReadFile(filepath.Join(dir, process.Name()+".log"))
			t.Fatalf("%v\n%s", err, log)
		}
	}
}

func get(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, response.Status)
	}
	return nil
}

func makeNode(t testing.TB, clients kubernetes.Interface, host string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: host, Labels: map[string]string{corev1.LabelHostname: host}}}
	made, err := clients.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	made.Spec.Taints = nil
	if made, err = clients.CoreV1().Nodes().Update(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	made.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if _, err := clients.CoreV1().Nodes().UpdateStatus(t.Context(), made, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func writeFiles(t testing.TB, dir string, files map[string][]byte) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, content := range files {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func catalogue(t testing.TB) *release.Catalogue {
	t.Helper()
	found, err := release.Open(cmp.Or(os.Getenv(release.EnvDir), filepath.Join("..", "..", "_output", "release")))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func binary(t testing.TB, program string) string {
	t.Helper()
	path, err := catalogue(t).Binary(program)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func freeAddress(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().String()
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}
