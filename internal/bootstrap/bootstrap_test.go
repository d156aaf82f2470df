package bootstrap_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/k8shost/config"
	"plasmacloud.io/plasmacloud/internal/k8shost/pki"
)

// authorityOf makes an authority, and returns its certificate and where it is.
func authorityOf(t *testing.T, leaves ...pki.Leaf) (*pki.Store, []byte) {
	t.Helper()
	store := pki.New(t.TempDir(), clock.RealClock{})
	if _, err := store.Ensure(leaves); err != nil {
		t.Fatal(err)
	}
	ca, err := os.ReadFile(store.CAPath(pki.ClusterCA))
	if err != nil {
		t.Fatal(err)
	}
	return store, ca
}

func joinOf(t *testing.T) bootstrap.Join {
	t.Helper()
	_, ca := authorityOf(t)
	join, err := bootstrap.NewJoin(bootstrap.Join{
		Server: "https://192.0.2.1:31234", CA: ca, KubernetesVersion: "v1.36.3", NodeImage: "example/node:v1.36.3",
		Konnectivity: "192.0.2.1:31235", ClusterDomain: "cluster.local", PodCIDR: "192.168.0.0/16", CNI: "prismnet",
	})
	if err != nil {
		t.Fatal(err)
	}
	return join
}

func TestJoinMaterialSurvivesItsSecret(t *testing.T) {
	join := joinOf(t)
	content, err := join.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	read, err := bootstrap.ParseJoin(content)
	if err != nil || string(read.CA) != string(join.CA) || read.CAHash != join.CAHash || read.Server != join.Server || read.NodeImage != join.NodeImage {
		t.Errorf("%+v, %v", read, err)
	}
	for _, broken := range []bootstrap.Join{
		{}, {Server: "http://192.0.2.1:1", CA: join.CA, CAHash: join.CAHash, KubernetesVersion: "v1.36.3"},
		{Server: "https://192.0.2.1", CA: join.CA, CAHash: join.CAHash, KubernetesVersion: "v1.36.3"},
		{Server: join.Server, CA: join.CA, CAHash: join.CAHash},
	} {
		if _, err := broken.Marshal(); err == nil {
			t.Errorf("%+v can be used", broken)
		}
	}
}

// What a machine is told is what k8shost understands.
func TestAgentUnderstandsItsConfiguration(t *testing.T) {
	join := joinOf(t)
	content, err := bootstrap.AgentConfig(join, bootstrap.NodeOptions{
		Name: "dev-workers-abc", TokenFile: "/etc/k8shost/token",
		Labels: map[string]string{"plasmacloud.io/node-group": "workers", "disk": "ssd"},
		Taints: []corev1.Taint{{Key: "gpu", Value: "yes", Effect: corev1.TaintEffectNoSchedule}, {Key: "alone", Effect: corev1.TaintEffectNoExecute}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	agent := &config.Agent{}
	flags := pflag.NewFlagSet("agent", pflag.ContinueOnError)
	agent.AddFlags(flags)
	if err := flags.Parse([]string{"--config", file}); err != nil {
		t.Fatal(err)
	}
	if err := config.Load(flags, nil); err != nil {
		t.Fatalf("%v\n%s", err, content)
	}
	if agent.ServerURL != join.Server || agent.NodeName != "dev-workers-abc" || agent.TokenFile != "/etc/k8shost/token" || agent.KubernetesVersion != "v1.36.3" {
		t.Errorf("%+v", agent.Node)
	}
	if want := []string{"disk=ssd", "plasmacloud.io/node-group=workers"}; !slices.Equal(agent.NodeLabels, want) {
		t.Errorf("labels %v, want %v", agent.NodeLabels, want)
	}
	if want := []string{"gpu=yes:NoSchedule", "alone=:NoExecute"}; !slices.Equal(agent.NodeTaints, want) {
		t.Errorf("taints %v, want %v", agent.NodeTaints, want)
	}
	for _, taint := range agent.NodeTaints {
		if _, err := config.ParseTaint(taint); err != nil {
			t.Error(err)
		}
	}
	if _, err := bootstrap.AgentConfig(join, bootstrap.NodeOptions{Name: "a"}); err == nil {
		t.Error("a node without a token can be configured")
	}
}

func hostedPlane() bootstrap.HostedPlane {
	return bootstrap.HostedPlane{
		Name: "control-plane", Namespace: "cluster-dev-12345678", ServiceAddress: netip.MustParseAddr("10.43.0.77"),
		Address: netip.MustParseAddr("192.0.2.1"), Host: "dev.example.com", ClusterDomain: "cluster.local", ServiceCIDR: netip.MustParsePrefix("10.96.0.0/12"),
	}
}

func TestAPIServerIsKnownByAllItsNames(t *testing.T) {
	leaves, err := hostedPlane().Leaves()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(leaves, func(l pki.Leaf) bool { return l.Name == pki.APIServer })
	if at < 0 {
		t.Fatal("no certificate for the API server")
	}
	var names []string
	for _, address := range leaves[at].IPs {
		names = append(names, address.String())
	}
	names = append(names, leaves[at].DNSNames...)
	for _, want := range []string{
		"dev.example.com", "192.0.2.1", "10.43.0.77", "10.96.0.1", "127.0.0.1", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		"control-plane.cluster-dev-12345678.svc", "control-plane.cluster-dev-12345678.svc.cluster.local",
	} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is not among %v", want, names)
		}
	}
}

func TestOnlyTheSuperAdministratorIsAboveRBAC(t *testing.T) {
	leaves, err := hostedPlane().Leaves()
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range leaves {
		if above := slices.Contains(leaf.Organizations, "system:masters"); above != (leaf.Name == bootstrap.SuperAdmin) {
			t.Errorf("%s is in groups %v", leaf.Name, leaf.Organizations)
		}
		if strings.Contains(leaf.Name, "/") {
			t.Errorf("%s cannot be a key of a Secret", leaf.Name)
		}
	}
	// They can all be issued.
	authorityOf(t, leaves...)
}

func TestFlags(t *testing.T) {
	paths := pki.New("/pki", clock.RealClock{})
	args := bootstrap.APIServer{
		PKI: paths, AdvertiseAddress: "192.0.2.1", BindAddress: "0.0.0.0", Port: 31234, ServiceCIDR: "10.96.0.0/12", ClusterDomain: "cluster.local",
		Datastore:      bootstrap.Etcd{Servers: []string{"https://a:2379", "https://b:2379"}, CA: "/pki/etcd-ca.crt", Cert: "/pki/e.crt", Key: "/pki/e.key", Prefix: "/tenants/dev", CompactsItself: true},
		Webhook:        bootstrap.Webhook{Config: "/pki/hook.yaml", CacheTTL: 2 * time.Minute},
		EgressSelector: "/pki/egress.yaml", SharedAddress: true, ShutdownDelay: 4 * time.Second,
	}.Args()
	for _, want := range []string{
		"etcd-servers=https://a:2379,https://b:2379", "etcd-prefix=/tenants/dev", "etcd-compaction-interval=0", "secure-port=31234",
		"advertise-address=192.0.2.1", "service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"egress-selector-config-file=/pki/egress.yaml", "authentication-token-webhook-config-file=/pki/hook.yaml",
		"endpoint-reconciler-type=none", "shutdown-delay-duration=4s", "encryption-provider-config=/pki/encryption-config.yaml",
	} {
		if !slices.Contains(args, want) {
			t.Errorf("%s is missing", want)
		}
	}
	plain := strings.Join(bootstrap.APIServer{PKI: paths}.Args(), "\n")
	for _, unwanted := range []string{"egress-selector", "webhook", "endpoint-reconciler", "service-node-port-range", "etcd-prefix", "shutdown-delay"} {
		if strings.Contains(plain, unwanted) {
			t.Errorf("%s is set though nobody asked for it", unwanted)
		}
	}
	scheduler := strings.Join(bootstrap.Flags(bootstrap.Scheduler{Client: bootstrap.Client{Kubeconfig: "/k", BindAddress: "0.0.0.0", Lease: 15 * time.Second}}.Args()), " ")
	for _, want := range []string{"--leader-elect-lease-duration=15s", "--leader-elect-renew-deadline=10s", "--leader-elect-retry-period=2s", "--secure-port=10259"} {
		if !strings.Contains(scheduler, want) {
			t.Errorf("%s is not in %s", want, scheduler)
		}
	}
}

func TestEgressSelector(t *testing.T) {
	content, err := bootstrap.EgressSelector("/run/x.sock")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"apiVersion: apiserver.k8s.io/v1beta1", "kind: EgressSelectorConfiguration", "udsName: /run/x.sock", "proxyProtocol: GRPC", "proxyProtocol: Direct"} {
		if !strings.Contains(string(content), want) {
			t.Errorf("no %q in\n%s", want, content)
		}
	}
}

func TestKubeconfigIsComplete(t *testing.T) {
	store, ca := authorityOf(t, pki.Leaf{Name: pki.Admin, CA: pki.ClusterCA, CommonName: "a", Client: true})
	var pair bootstrap.Credentials
	var err error
	if pair.Cert, err = os.ReadFile(store.CertPath(pki.Admin)); err != nil {
		t.Fatal(err)
	}
	if pair.Key, err = os.ReadFile(store.KeyPath(pki.Admin)); err != nil {
		t.Fatal(err)
	}
	content, err := bootstrap.Kubeconfig{Cluster: "dev", User: "admin", Server: "https://192.0.2.1:31234", CA: ca, Credentials: pair}.Render()
	if err != nil {
		t.Fatal(err)
	}
	rest, err := clientcmd.RESTConfigFromKubeConfig(content)
	if err != nil || rest.Host != "https://192.0.2.1:31234" || len(rest.CertData) == 0 || len(rest.KeyData) == 0 || len(rest.CAData) == 0 {
		t.Errorf("%v, %v", rest, err)
	}
	if strings.Contains(pair.String()+pair.GoString(), "PRIVATE") {
		t.Error("a key can be logged")
	}
}
