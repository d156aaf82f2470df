package azure

import (
	"encoding/json"
	"flag"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform/translate/translatetest"
)

var _ = flag.Bool("update", false, "write the golden files")

const zero = "00000000-0000-0000-0000-000000000000"

func stack(kind, name string) Stack {
	return Stack{Name: "team." + kind + "." + name, InfraVersion: "v1.0.0", Account: &v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: "prod"},
		Spec:       v1alpha1.AccountSpec{Provider: v1alpha1.ProviderAzure, Region: "westeurope", Azure: &v1alpha1.AzureAccount{SubscriptionID: zero, TenantID: zero, ClientID: zero}},
	}}
}

func made() *NetworkOutputs {
	return &NetworkOutputs{ID: "/vnet", ResourceGroup: "main", Subnets: map[string]Placed{"nodes": {"/vnet/subnets/nodes", v1alpha1.SubnetPrivate}}, NATAddresses: []string{"203.0.113.9"}}
}

func TestNetworks(t *testing.T) {
	got, err := Network(stack("network", "main"), translatetest.Network(), NetworkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	translatetest.Golden(t, "network", got)
	for name, test := range map[string]struct {
		change  func(*v1alpha1.Network)
		message string
	}{
		"a zone": {func(n *v1alpha1.Network) {
			n.Spec.Subnets = []v1alpha1.Subnet{{Name: "a", CIDR: "10.0.0.0/20", Zone: "1"}}
		}, "spans all zones"},
		"all intra": {func(n *v1alpha1.Network) {
			n.Spec.Subnets = []v1alpha1.Subnet{{Name: "a", CIDR: "10.0.0.0/20", Role: v1alpha1.SubnetIntra}}
		}, "private subnets"},
		"too narrow": {func(n *v1alpha1.Network) { n.Spec.CIDR = "10.0.0.0/24" }, "name the subnets"},
	} {
		network := translatetest.Network()
		test.change(network)
		_, err := Network(stack("network", "main"), network, NetworkOptions{})
		translatetest.Refused(t, name, err, test.message)
	}
}

func TestClusters(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.Cluster, *ClusterOptions){
		"cluster": func(*v1alpha1.Cluster, *ClusterOptions) {},
		"cluster-options": func(c *v1alpha1.Cluster, o *ClusterOptions) {
			o.SystemPool, o.Spot, o.Zones, o.FreeTier = "workers", []string{"batch"}, []string{"1"}, true
			o.AdminGroups, o.PlatformCIDRs = []string{zero}, []string{"203.0.113.7/32"}
			batch := translatetest.Group(0)
			batch.InstanceType, batch.Taints = "cx1.xlarge", []corev1.Taint{{Key: "batch", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}
			c.Spec.NodeGroups["batch"] = batch
		},
		"cluster-autoscale": func(c *v1alpha1.Cluster, o *ClusterOptions) {
			o.Autoscale, c.Spec.NodeGroups["batch"] = true, translatetest.Group(0)
		},
		"cluster-auto": func(_ *v1alpha1.Cluster, o *ClusterOptions) { o.AutoProvisioning = true },
	} {
		cluster, options := translatetest.Cluster(v1alpha1.ClusterAKS), ClusterOptions{}
		change(cluster, &options)
		got, err := Cluster(stack("cluster", "shop"), cluster, translatetest.Network(), made(), options)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		translatetest.Golden(t, name, got)
	}
}

func TestClustersThatAKSWouldRefuse(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*v1alpha1.Cluster, *ClusterOptions)
		message string
	}{
		"no groups": {func(c *v1alpha1.Cluster, _ *ClusterOptions) { c.Spec.NodeGroups = nil }, "add one"},
		"a long name": {func(c *v1alpha1.Cluster, _ *ClusterOptions) {
			c.Spec.NodeGroups["zz-too-long-name"] = translatetest.Group(1)
		}, "1 to 12"},
		"two, automatically": {func(c *v1alpha1.Cluster, o *ClusterOptions) {
			c.Spec.NodeGroups["zz"], o.AutoProvisioning = translatetest.Group(1), true
		}, "keep one group"},
		"an unknown system pool": {func(_ *v1alpha1.Cluster, o *ClusterOptions) { o.SystemPool = "nosuch" }, "nosuch"},
		"a spot system pool":     {func(_ *v1alpha1.Cluster, o *ClusterOptions) { o.Spot = []string{"workers"} }, "name another system pool"},
		"deletion protection":    {func(c *v1alpha1.Cluster, _ *ClusterOptions) { c.Spec.DeletionProtection = true }, "lock on the resource group"},
		"pods in the network":    {func(c *v1alpha1.Cluster, _ *ClusterOptions) { c.Spec.ClusterNetwork.PodCIDR = "10.0.0.0/16" }, "overlaps with the network"},
		"another type":           {func(c *v1alpha1.Cluster, _ *ClusterOptions) { c.Spec.Type = v1alpha1.ClusterEKS }, "type AKS"},
	} {
		cluster, options := translatetest.Cluster(v1alpha1.ClusterAKS), ClusterOptions{}
		test.change(cluster, &options)
		_, err := Cluster(stack("cluster", "shop"), cluster, translatetest.Network(), made(), options)
		translatetest.Refused(t, name, err, test.message)
	}
}

func TestBucketsAndCredentials(t *testing.T) {
	got, err := NewBucket(stack("bucket", "assets"), Bucket{Name: "assets-of-the-shop", ResourceGroup: "shop", OIDCIssuer: "https://oidc", ServiceAccount: "web"})
	if err != nil || len(got.Name) > 24 {
		t.Fatal(got, err)
	}
	translatetest.Golden(t, "bucket", got)
	_, err = NewBucket(stack("bucket", "assets"), Bucket{Name: "a--b"})
	translatetest.Refused(t, "a bad bucket", err, "single '-'", "belongs to a cluster")

	account := stack("network", "main").Account
	for key, variable := range map[string]string{KeyClientSecret: "ARM_CLIENT_SECRET", KeyCertificate: "ARM_CLIENT_CERTIFICATE", KeyFederatedToken: "ARM_OIDC_TOKEN"} {
		got, err := Environment(account, map[string][]byte{key: []byte("value\n")})
		if err != nil || got[variable] != "value" || got["ARM_CLIENT_ID"] != zero || got["ARM_USE_MSI"] != "false" {
			t.Errorf("Environment = %v, %v", got, err)
		}
	}
	_, err = Environment(account, nil)
	translatetest.Refused(t, "nothing", err, KeyClientSecret)
	account.Spec.Azure.ClientID = ""
	_, err = Environment(account, nil)
	translatetest.Refused(t, "no client", err, "clientID")
}

func TestOutputsBecomeStatus(t *testing.T) {
	var made ClusterOutputs
	if err := json.Unmarshal([]byte(`{"name":"shop","endpoint":"https://shop.azmk8s.io:443","certificate_authority":"LS0tCg==","version":"1.35.2","nodes":4}`), &made); err != nil {
		t.Fatal(err)
	}
	var status v1alpha1.ClusterStatus
	made.Apply(&status)
	if status.Endpoint != "https://shop.azmk8s.io:443" || status.Version != "v1.35.2" || status.Nodes.Desired != 4 {
		t.Errorf("%+v", status)
	}
	if pem, err := made.CA(); err != nil || string(pem) != "---\n" {
		t.Errorf("CA = %q, %v", pem, err)
	}
}
