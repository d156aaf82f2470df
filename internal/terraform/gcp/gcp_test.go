package gcp

import (
	"encoding/json"
	"flag"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform/translate/translatetest"
)

var _ = flag.Bool("update", false, "write the golden files")

func stack(kind, name string) Stack {
	return Stack{Name: "team." + kind + "." + name, InfraVersion: "v1.0.0", Account: &v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: "prod"},
		Spec:       v1alpha1.AccountSpec{Provider: v1alpha1.ProviderGCP, Region: "europe-west1", GCP: &v1alpha1.GCPAccount{ProjectID: "my-project-123456"}},
	}}
}

func made(t *testing.T) *NetworkOutputs {
	t.Helper()
	var outputs NetworkOutputs
	if err := json.Unmarshal([]byte(`{"id":"projects/p/global/networks/main","subnets":{"nodes":{"id":"projects/p/regions/r/subnetworks/main-nodes","cidr":"10.0.0.0/16"}}}`), &outputs); err != nil {
		t.Fatal(err)
	}
	return &outputs
}

func TestNetworks(t *testing.T) {
	got, err := Network(stack("network", "main"), translatetest.Network(), NetworkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	translatetest.Golden(t, "network", got)
	for name, test := range map[string]struct {
		change  func(*v1alpha1.Network, *NetworkOptions, *Stack)
		message string
	}{
		"pods in the network": {func(_ *v1alpha1.Network, o *NetworkOptions, _ *Stack) { o.PodCIDR = "10.0.0.0/14" }, "overlaps with the network"},
		"services among pods": {func(_ *v1alpha1.Network, o *NetworkOptions, _ *Stack) { o.ServiceCIDR = "172.16.0.0/20" }, "overlaps with pods"},
		"too few pods":        {func(_ *v1alpha1.Network, o *NetworkOptions, _ *Stack) { o.PodCIDR = "172.16.0.0/24" }, "GKE takes ranges"},
		"a zone": {func(n *v1alpha1.Network, _ *NetworkOptions, _ *Stack) {
			n.Spec.Subnets = []v1alpha1.Subnet{{Name: "a", CIDR: "10.0.0.0/20", Zone: "europe-west1-b"}}
		}, "spans all zones"},
		"a public subnet": {func(n *v1alpha1.Network, _ *NetworkOptions, _ *Stack) {
			n.Spec.Subnets = []v1alpha1.Subnet{{Name: "a", CIDR: "10.0.0.0/20", Role: v1alpha1.SubnetPublic}}
		}, "use Private"},
		"two subnets": {func(n *v1alpha1.Network, _ *NetworkOptions, _ *Stack) {
			n.Spec.Subnets = []v1alpha1.Subnet{{Name: "a", CIDR: "10.0.0.0/20"}, {Name: "b", CIDR: "10.0.16.0/20"}}
		}, "at most 1"},
		"no project":    {func(_ *v1alpha1.Network, _ *NetworkOptions, s *Stack) { s.Account.Spec.GCP = nil }, "needs its project"},
		"another cloud": {func(_ *v1alpha1.Network, _ *NetworkOptions, s *Stack) { s.Account.Spec.Provider = v1alpha1.ProviderAWS }, "accounts of GCP"},
	} {
		network, options, s := translatetest.Network(), NetworkOptions{}, stack("network", "main")
		test.change(network, &options, &s)
		_, err := Network(s, network, options)
		translatetest.Refused(t, name, err, test.message)
	}
}

func TestClusters(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.Cluster, *ClusterOptions){
		"cluster":           func(*v1alpha1.Cluster, *ClusterOptions) {},
		"cluster-autopilot": func(c *v1alpha1.Cluster, _ *ClusterOptions) { c.Spec.NodeGroups = nil },
		"cluster-autoscale": func(_ *v1alpha1.Cluster, o *ClusterOptions) { o.Autoscale = true },
		"cluster-options": func(c *v1alpha1.Cluster, o *ClusterOptions) {
			o.ReleaseChannel, o.Spot, o.EncryptionKey, o.PlatformCIDRs = "STABLE", []string{"batch"}, "projects/p/locations/r/keyRings/k/cryptoKeys/c", []string{"203.0.113.7/32"}
			c.Spec.DeletionProtection, c.Spec.Access.CIDRs = true, []string{"198.51.100.0/24"}
			batch := translatetest.Group(2)
			batch.InstanceType, batch.Taints = "c3-highcpu-8", []corev1.Taint{{Key: "batch", Effect: corev1.TaintEffectNoExecute}}
			batch.RollingUpdate.MaxSurge, batch.RollingUpdate.MaxUnavailable = ptr.To(intstr.FromInt32(2)), ptr.To(intstr.FromInt32(1))
			c.Spec.NodeGroups["batch"] = batch
		},
	} {
		cluster, options := translatetest.Cluster(v1alpha1.ClusterGKE), ClusterOptions{}
		change(cluster, &options)
		got, err := Cluster(stack("cluster", "shop"), cluster, made(t), options)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		translatetest.Golden(t, name, got)
	}
}

func TestClustersThatGKEWouldRefuse(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*v1alpha1.Cluster, *ClusterOptions)
		message string
	}{
		"Autopilot with groups":   {func(_ *v1alpha1.Cluster, o *ClusterOptions) { o.Autopilot = ptr.To(true) }, "remove the groups"},
		"standard without groups": {func(c *v1alpha1.Cluster, o *ClusterOptions) { c.Spec.NodeGroups, o.Autopilot = nil, ptr.To(false) }, "choose Autopilot"},
		"another channel":         {func(_ *v1alpha1.Cluster, o *ClusterOptions) { o.ReleaseChannel = "WILD" }, "Unsupported value"},
		"another type":            {func(c *v1alpha1.Cluster, _ *ClusterOptions) { c.Spec.Type = v1alpha1.ClusterEKS }, "type GKE"},
		"a percentage": {func(c *v1alpha1.Cluster, _ *ClusterOptions) {
			group := translatetest.Group(1)
			group.RollingUpdate.MaxSurge = ptr.To(intstr.FromString("25%"))
			c.Spec.NodeGroups["workers"] = group
		}, "no percentage"},
		"an unknown spot group": {func(_ *v1alpha1.Cluster, o *ClusterOptions) { o.Spot = []string{"nosuch"} }, "nosuch"},
	} {
		cluster, options := translatetest.Cluster(v1alpha1.ClusterGKE), ClusterOptions{}
		test.change(cluster, &options)
		_, err := Cluster(stack("cluster", "shop"), cluster, made(t), options)
		translatetest.Refused(t, name, err, test.message)
	}
	_, err := Cluster(stack("cluster", "shop"), translatetest.Cluster(v1alpha1.ClusterGKE), &NetworkOutputs{}, ClusterOptions{})
	translatetest.Refused(t, "no subnet", err, "no subnet yet")
}

func TestBucketsAndCredentials(t *testing.T) {
	got, err := NewBucket(stack("bucket", "assets"), Bucket{Name: "assets-7", ProjectNumber: "42", ServiceAccount: "web"})
	if err != nil {
		t.Fatal(err)
	}
	translatetest.Golden(t, "bucket", got)
	_, err = NewBucket(stack("bucket", "assets"), Bucket{Name: "Assets", ServiceAccount: "web"})
	translatetest.Refused(t, "a bad bucket", err, "lower-case", "number of the project")

	account := stack("network", "main").Account
	if got, err := Environment(account, map[string][]byte{KeyAccessToken: []byte("ya29.x\n")}); err != nil || got["GOOGLE_OAUTH_ACCESS_TOKEN"] != "ya29.x" {
		t.Errorf("Environment = %v, %v", got, err)
	}
	key := []byte(`{"type":"external_account"}`)
	account.Spec.GCP.ServiceAccount = "deployer@p.iam.gserviceaccount.com"
	if got, err := Environment(account, map[string][]byte{KeyCredentials: key}); err != nil || got["GOOGLE_CREDENTIALS"] != string(key) || got["GOOGLE_IMPERSONATE_SERVICE_ACCOUNT"] == "" {
		t.Errorf("Environment = %v, %v", got, err)
	}
	_, err = Environment(account, nil)
	translatetest.Refused(t, "nothing", err, KeyCredentials)
	_, err = Environment(account, map[string][]byte{KeyCredentials: []byte("nonsense")})
	translatetest.Refused(t, "nonsense", err, "no key file")
}

func TestOutputsBecomeStatus(t *testing.T) {
	var made ClusterOutputs
	if err := json.Unmarshal([]byte(`{"name":"shop","endpoint":"https://1.2.3.4","dns_endpoint":"https://gke-1.gke.goog","certificate_authority":"LS0tCg==","version":"1.35.2-gke.1234000","node_pools":{"a":{"min":2,"version":"1.35"}}}`), &made); err != nil {
		t.Fatal(err)
	}
	var status v1alpha1.ClusterStatus
	made.Apply(&status)
	if status.Endpoint != "https://gke-1.gke.goog" || status.Version != "v1.35.2" || status.Nodes.Desired != 2 {
		t.Errorf("%+v", status)
	}
	if pem, err := made.CA(); err != nil || string(pem) != "---\n" {
		t.Errorf("CA = %q, %v", pem, err)
	}
}
