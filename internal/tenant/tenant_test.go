package tenant_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
	"plasmacloud.io/plasmacloud/internal/tenant"
	"plasmacloud.io/plasmacloud/internal/testapi"
)

// api is the API of all clusters here. The management cluster's is not needed for more than its secrets.
var api *testapi.Server

func TestMain(m *testing.M) { os.Exit(testapi.Main(m, &api)) }

const patience = time.Minute

type fixture struct {
	t           *testing.T
	management  *fake.Clientset
	tenant      kubernetes.Interface
	connections *tenant.Connections

	mu        sync.Mutex
	changes   []tenant.Change
	addresses []string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	clients, err := kubernetes.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, management: fake.NewClientset(), tenant: clients}
	f.connections = tenant.New(tenant.Config{
		API: f.management, Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler),
		Addresses: func(_ types.NamespacedName, node string) []string {
			f.mu.Lock()
			defer f.mu.Unlock()
			return append([]string{node}, f.addresses...)
		},
	})
	f.connections.Subscribe(func(change tenant.Change) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.changes = append(f.changes, change)
	})
	t.Cleanup(f.connections.Close)
	return f
}

func newCluster(name string) *v1alpha1.Cluster {
	return &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "project-a", Name: name, UID: types.UID("uid-" + name)}}
}

// offer writes a cluster's kubeconfig, for a user.
func (f *fixture) offer(c *v1alpha1.Cluster, leaf, url string) {
	f.t.Helper()
	config, err := api.PKI().EmbeddedKubeconfig(leaf, url)
	if err != nil {
		f.t.Fatal(err)
	}
	content, err := clientcmd.Write(*config)
	if err != nil {
		f.t.Fatal(err)
	}
	secrets := f.management.CoreV1().Secrets(v1alpha1.InfrastructureNamespace(c))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: tenant.KubeconfigSecret}, Data: map[string][]byte{v1alpha1.KubeconfigSuperAdminService: content}}
	if _, err := secrets.Create(f.t.Context(), secret, metav1.CreateOptions{}); err != nil {
		if _, err := secrets.Update(f.t.Context(), secret, metav1.UpdateOptions{}); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fixture) eventually(what string, want func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(patience); !want(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("not within %s: %s", patience, what)
		}
	}
}

func (f *fixture) connected(c *v1alpha1.Cluster) *tenant.Connection {
	f.t.Helper()
	var connection *tenant.Connection
	f.eventually("connected to "+c.Name, func() (ok bool) {
		var err error
		connection, err = f.connections.Get(c)
		return err == nil
	})
	return connection
}

// told tells whether a change was published.
func (f *fixture) told(change tenant.Change) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Contains(f.changes, change)
}

func (f *fixture) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.changes = nil
}

func TestAConnectionWaitsForTheAPIAndTellsOfNodes(t *testing.T) {
	f := newFixture(t)
	c := newCluster("dev")
	key := types.NamespacedName{Namespace: c.Namespace, Name: c.Name}
	if _, err := f.connections.Get(c); !errors.Is(err, tenant.ErrNotConnected) {
		t.Fatal(err)
	}
	f.offer(c, pki.Admin, "https://127.0.0.1:1") // nobody listens there yet
	time.Sleep(300 * time.Millisecond)
	if _, err := f.connections.Get(c); !errors.Is(err, tenant.ErrNotConnected) {
		t.Fatal(err)
	}
	f.offer(c, pki.Admin, api.URL())
	connection := f.connected(c)
	f.eventually("the cluster's API is told of", func() bool { return f.told(tenant.Change{Cluster: key}) })

	nodes := f.tenant.CoreV1().Nodes()
	node, err := nodes.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	change := tenant.Change{Cluster: key, Node: "n1"}
	f.eventually("the new node is told of", func() bool { return f.told(change) && connection.Node("n1") != nil })
	if tenant.ReadyStatus(connection.Node("n1")) != corev1.ConditionUnknown {
		t.Error(connection.Node("n1").Status)
	}
	f.forget()
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if node, err = nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.eventually("its readiness is told of", func() bool {
		return f.told(change) && tenant.ReadyStatus(connection.Node("n1")) == corev1.ConditionTrue
	})
	f.forget()
	node.Status.Conditions[0].LastHeartbeatTime = metav1.Now()
	if _, err = nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	f.eventually("the heartbeat is seen", func() bool { return !connection.Node("n1").Status.Conditions[0].LastHeartbeatTime.IsZero() })
	if f.told(change) {
		t.Error("a heartbeat was told of")
	}
	if err := nodes.Delete(t.Context(), "n1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	f.eventually("its end is told of", func() bool { return f.told(change) && connection.Node("n1") == nil })
}

func TestAConnectionIsMadeAnewWhenTheAPIWasAway(t *testing.T) {
	f := newFixture(t)
	own := testapi.New(t, testapi.Options{WithoutCRDs: true})
	c := newCluster("away")
	config, err := own.PKI().EmbeddedKubeconfig(pki.Admin, own.URL())
	if err != nil {
		t.Fatal(err)
	}
	content, err := clientcmd.Write(*config)
	if err != nil {
		t.Fatal(err)
	}
	secrets := f.management.CoreV1().Secrets(v1alpha1.InfrastructureNamespace(c))
	_, err = secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: tenant.KubeconfigSecret}, Data: map[string][]byte{v1alpha1.KubeconfigSuperAdminService: content},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first := f.connected(c)
	if err := own.Stop(); err != nil {
		t.Fatal(err)
	}
	f.eventually("it is noticed", func() bool {
		_, err := f.connections.Get(c)
		return errors.Is(err, tenant.ErrNotConnected)
	})
	f.offer(c, pki.Admin, api.URL()) // it is back, elsewhere and with other credentials
	if second := f.connected(c); second == first {
		t.Error("it is the old connection")
	}
}

func TestAnotherClusterOfTheSameNameIsAnotherOne(t *testing.T) {
	f := newFixture(t)
	c := newCluster("twin")
	f.offer(c, pki.Admin, api.URL())
	first := f.connected(c)
	c.UID = "another"
	if _, err := f.connections.Get(c); !errors.Is(err, tenant.ErrNotConnected) {
		t.Fatal(err)
	}
	f.offer(c, pki.Admin, api.URL())
	if second := f.connected(c); second == first {
		t.Error("it is the old cluster's connection")
	}
}

func TestManyConnectionsAreCheapAndLeaveNothing(t *testing.T) {
	f := newFixture(t)
	before := runtime.NumGoroutine()
	const many = 50
	var clusters []*v1alpha1.Cluster
	for i := range many {
		c := newCluster(fmt.Sprintf("c%d", i))
		f.offer(c, pki.Admin, api.URL())
		clusters = append(clusters, c)
		_, _ = f.connections.Get(c)
	}
	for _, c := range clusters {
		f.connected(c)
	}
	each := (runtime.NumGoroutine() - before) / many
	t.Logf("%d goroutines for each of %d connections", each, many)
	if each > 25 {
		t.Errorf("%d goroutines for each connection", each)
	}
	for _, c := range clusters {
		f.connections.Drop(types.NamespacedName{Namespace: c.Namespace, Name: c.Name})
	}
	f.eventually("all goroutines end", func() bool { return runtime.NumGoroutine() < before+10 })
	f.connections.Close()
	if _, err := f.connections.Get(clusters[0]); !errors.Is(err, tenant.ErrNotConnected) {
		t.Error(err)
	}
}

func TestKubeletsGetCertificatesForTheirMachinesAddressesOnly(t *testing.T) {
	f := newFixture(t)
	c := newCluster("certificates")
	f.offer(c, pki.Admin, api.URL())
	f.connected(c)
	f.mu.Lock()
	f.addresses = []string{"10.0.0.1"}
	f.mu.Unlock()
	const user = "system:node:dev-workers-abcde"
	kubelet, err := kubernetes.NewForConfig(api.ConfigFor(t, user, "system:nodes", "system:masters"))
	if err != nil {
		t.Fatal(err)
	}
	requests := kubelet.CertificatesV1().CertificateSigningRequests()
	for name, ip := range map[string]string{"another": "10.0.0.2", "its-own": "10.0.0.1"} {
		_, err := requests.Create(t.Context(), &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: request(t, user, ip), SignerName: certificatesv1.KubeletServingSignerName,
				Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageServerAuth},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	approved := func(name string) bool {
		found, err := requests.Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && slices.ContainsFunc(found.Status.Conditions, func(condition certificatesv1.CertificateSigningRequestCondition) bool {
			return condition.Type == certificatesv1.CertificateApproved
		})
	}
	f.eventually("its own address is approved", func() bool { return approved("its-own") })
	time.Sleep(500 * time.Millisecond)
	if approved("another") {
		t.Error("another machine's address is approved")
	}
}

func request(t *testing.T, user, ip string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject: pkix.Name{CommonName: user, Organization: []string{"system:nodes"}}, IPAddresses: []net.IP{net.ParseIP(ip)},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}
