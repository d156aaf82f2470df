package datastore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

// TestOthersComeAndGoUnnoticed runs a real API server on a tenant's prefix, under load, while tenants come and go. Every
// change of users makes etcd refuse what is under way with an older view of them, and clients repeat it.
func TestOthersComeAndGoUnnoticed(t *testing.T) {
	w := newWorld(t)
	shared := w.installed()
	clients, _ := w.apiServer(w.ensure(shared, "busy"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var load sync.WaitGroup
	var requests atomic.Int64
	for worker := range 4 {
		load.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				if err := workload(t.Context(), clients, fmt.Sprintf("w%d-%d", worker, i), &requests); err != nil {
					t.Errorf("a request failed: %v", err)
					return
				}
			}
		})
	}
	events := w.watchConfigMaps(ctx, clients)
	const others = 50
	var churn sync.WaitGroup
	for part := range 5 {
		churn.Go(func() {
			for i := part; i < others; i += 5 {
				w.comeAndGo(shared, fmt.Sprintf("other-%d", i))
			}
		})
	}
	churn.Wait()
	cancel()
	load.Wait()
	if requests.Load() < 100 {
		t.Errorf("there was hardly any load: %d requests", requests.Load())
	}
	if seen := events(); seen < requests.Load()/10 {
		t.Errorf("watches saw %d of the changes of %d requests", seen, requests.Load())
	}
	t.Logf("%d requests while %d tenants came and went", requests.Load(), others)
	left, err := shared.Tenants(t.Context())
	if err != nil || len(left) != 1 {
		t.Errorf("tenants: %v, %v", left, err)
	}
}

// workload makes, reads, changes, lists and deletes an object.
func workload(ctx context.Context, clients kubernetes.Interface, name string, requests *atomic.Int64) error {
	configs := clients.CoreV1().ConfigMaps("default")
	made, err := configs.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{"a": "1"}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	made.Data["a"] = "2"
	if _, err := configs.Update(ctx, made, metav1.UpdateOptions{}); err != nil {
		return err
	}
	if _, err := configs.Get(ctx, name, metav1.GetOptions{}); err != nil {
		return err
	}
	if _, err := configs.List(ctx, metav1.ListOptions{}); err != nil {
		return err
	}
	requests.Add(5)
	return configs.Delete(ctx, name, metav1.DeleteOptions{})
}

// comeAndGo is the life of another tenant.
func (w *world) comeAndGo(shared *Shared, tenant string) {
	credentials, err := shared.Ensure(w.t.Context(), Tenant{Name: tenant})
	if err != nil {
		w.t.Error(err)
		return
	}
	client, err := dial(w.config, credentials)
	if err != nil {
		w.t.Error(err)
		return
	}
	defer func() { _ = client.Close() }()
	for i := range 10 {
		if _, err := client.Put(w.t.Context(), fmt.Sprintf("%s/%d", credentials.Prefix, i), "1"); err != nil {
			w.t.Errorf("%s: %v", tenant, err)
		}
	}
	if err := shared.Remove(w.t.Context(), Tenant{Name: tenant}); err != nil {
		w.t.Error(err)
	}
}

// watchConfigMaps counts changes; a watch that ends before its context is an error.
func (w *world) watchConfigMaps(ctx context.Context, clients kubernetes.Interface) func() int64 {
	w.t.Helper()
	watcher, err := clients.CoreV1().ConfigMaps("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	var seen atomic.Int64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range watcher.ResultChan() {
			seen.Add(1)
		}
		if ctx.Err() == nil {
			w.t.Error("the watch ended")
		}
	}()
	return func() int64 { <-done; return seen.Load() }
}

// TestAClusterMovesToAnotherEtcd is how a cluster leaves the shared etcd for one of its own: nothing is missing.
func TestAClusterMovesToAnotherEtcd(t *testing.T) {
	old, next := newWorld(t), newWorld(t)
	shared := old.installed()
	tenant := Tenant{Name: "moving"}
	from := old.ensure(shared, tenant.Name)
	clients, stop := old.apiServer(from)
	for i := range 150 {
		config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("c-", i)}, Data: map[string]string{"a": fmt.Sprint(i)}}
		if _, err := clients.CoreV1().ConfigMaps("default").Create(t.Context(), config, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	dedicated, err := NewDedicated(next.config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dedicated.Ensure(t.Context(), tenant); !errors.Is(err, ErrNotReady) {
		t.Fatal(err)
	}
	next.start()
	to := next.ensure(dedicated, tenant.Name)
	stop()
	both := old.config
	both.Dial = func(ctx context.Context, address string) (net.Conn, error) {
		if strings.Contains(address, next.config.Namespace) {
			return next.dial(ctx, address)
		}
		return old.dial(ctx, address)
	}
	copied, err := Copy(t.Context(), both, from, to)
	if err != nil || copied < 150 {
		t.Fatalf("copied %d: %v", copied, err)
	}
	if err := shared.Remove(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	clients, _ = next.apiServer(to)
	configs, err := clients.CoreV1().ConfigMaps("default").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(configs.Items) != 150 {
		t.Fatalf("%d objects, %v", len(configs.Items), err)
	}
	var requests atomic.Int64
	if err := workload(t.Context(), clients, "after", &requests); err != nil {
		t.Error(err)
	}
}

// apiServer starts kube-apiserver as a hosted control plane does.
func (w *world) apiServer(c Credentials) (clients kubernetes.Interface, stop func()) {
	w.t.Helper()
	dir := w.t.TempDir()
	writeFiles(w.t, filepath.Join(dir, "etcd"), map[string][]byte{"ca.crt": c.CA, "tls.crt": c.Cert, "tls.key": c.Key})
	cidr := netip.MustParsePrefix("10.96.0.0/16")
	store := pki.New(filepath.Join(dir, "tls"), clock.RealClock{})
	if _, err := store.Ensure(pki.Server{NodeName: "tenant", ClusterDomain: "cluster.local", ServiceCIDRs: []netip.Prefix{cidr}}.Leaves()); err != nil {
		w.t.Fatal(err)
	}
	address := freeAddress(w.t)
	_, port, _ := net.SplitHostPort(address)
	config := &rest.Config{Host: "https://" + address, QPS: -1, TLSClientConfig: rest.TLSClientConfig{
		CAFile: store.CAPath(pki.ClusterCA), CertFile: store.CertPath(pki.Admin), KeyFile: store.KeyPath(pki.Admin),
	}}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		w.t.Fatal(err)
	}
	versions := catalogue(w.t).Versions()
	kube, err := catalogue(w.t).Kube(versions[0])
	if err != nil {
		w.t.Fatal(err)
	}
	process := component.NewProcess(slog.New(slog.DiscardHandler), component.Spec{
		Name: "kube-apiserver", Path: kube, LogDir: dir, RunDir: dir, Grace: time.Second,
		Probe: func(ctx context.Context) error { return get(ctx, client, "https://"+address+"/readyz") },
		Args: []string{
			"--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", "--secure-port=" + port,
			"--tls-cert-file=" + store.CertPath(pki.APIServer), "--tls-private-key-file=" + store.KeyPath(pki.APIServer),
			"--client-ca-file=" + store.CAPath(pki.ClusterCA),
			"--etcd-servers=https://" + w.client, "--etcd-prefix=" + c.Prefix, "--etcd-compaction-interval=0",
			"--etcd-cafile=" + dir + "/etcd/ca.crt", "--etcd-certfile=" + dir + "/etcd/tls.crt", "--etcd-keyfile=" + dir + "/etcd/tls.key",
			"--service-cluster-ip-range=" + cidr.String(), "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
			"--service-account-key-file=" + store.ServiceAccountPublicKeyPath(), "--service-account-signing-key-file=" + store.ServiceAccountKeyPath(),
			"--authorization-mode=RBAC", "--disable-admission-plugins=ServiceAccount", "--endpoint-reconciler-type=none",
			"--shutdown-watch-termination-grace-period=1s",
		},
	})
	run(w.t, process, dir)
	w.t.Cleanup(func() { w.expectNoRefusal(string(readFile(w.t, filepath.Join(dir, "kube-apiserver.log")))) })
	clients, err = kubernetes.NewForConfig(config)
	if err != nil {
		w.t.Fatal(err)
	}
	return clients, func() { _ = process.Stop(context.Background()) }
}

// expectNoRefusal tells of what the API server asked etcd for and may not have.
func (w *world) expectNoRefusal(log string) {
	w.t.Helper()
	for line := range strings.Lines(log) {
		if strings.Contains(line, "permission denied") {
			w.t.Errorf("refused: %s", line)
		}
	}
}
