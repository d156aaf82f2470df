package aws

import (
	"encoding/json"
	"flag"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform/translate/translatetest"
)

var _ = flag.Bool("update", false, "write the golden files")

func stack(kind, name string) Stack {
	return Stack{Name: "team." + kind + "." + name, InfraVersion: "v1.1.0", Account: &v1alpha1.Account{
		ObjectMeta: metav1.ObjectMeta{Name: "prod"},
		Spec: v1alpha1.AccountSpec{Provider: v1alpha1.ProviderAWS, Region: "eu-west-1", AWS: &v1alpha1.AWSAccount{
			RoleARN: "arn:aws:iam::123456789012:role/plasmacloud", ExternalID: "external-7",
		}},
	}}
}

func made() *NetworkOutputs {
	return &NetworkOutputs{
		ID:             "vpc-1",
		PrivateSubnets: map[string]Placed{"private-1": {"subnet-1", "eu-west-1a"}, "private-2": {"subnet-2", "eu-west-1b"}},
		IntraSubnets:   map[string]Placed{"intra-1": {"subnet-3", "eu-west-1a"}, "intra-2": {"subnet-4", "eu-west-1b"}},
		PublicSubnets:  map[string]Placed{"public-1": {"subnet-5", "eu-west-1a"}},
	}
}

func TestNetworks(t *testing.T) {
	defaults, err := Network(stack("network", "main"), translatetest.Network(), NetworkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	translatetest.Golden(t, "network", defaults)
	chosen := translatetest.Network()
	chosen.Spec.Subnets = []v1alpha1.Subnet{
		{Name: "a", CIDR: "10.0.0.0/20", Role: v1alpha1.SubnetPrivate, Zone: "eu-west-1a"}, {Name: "b", CIDR: "10.0.16.0/20", Role: v1alpha1.SubnetPrivate, Zone: "eu-west-1b"},
	}
	options := NetworkOptions{NAT: NATNone, NoFlowLogs: true, LogRetentionDays: 7, InterfaceEndpoints: []string{"ecr.api", "sts"}}
	got, err := Network(stack("network", "main"), chosen, options)
	if err != nil {
		t.Fatal(err)
	}
	translatetest.Golden(t, "network-options", got)
}

func TestNetworksThatAWSWouldRefuse(t *testing.T) {
	private := v1alpha1.Subnet{Name: "a", CIDR: "10.0.0.0/20", Role: v1alpha1.SubnetPrivate, Zone: "eu-west-1a"}
	other := v1alpha1.Subnet{Name: "b", CIDR: "10.0.16.0/20", Role: v1alpha1.SubnetPrivate, Zone: "eu-west-1b"}
	public := v1alpha1.Subnet{Name: "p", CIDR: "10.0.32.0/20", Role: v1alpha1.SubnetPublic, Zone: "eu-west-1a"}
	for name, test := range map[string]struct {
		change  func(*v1alpha1.Network, *NetworkOptions, *Stack)
		message string
	}{
		"too large":        {func(n *v1alpha1.Network, _ *NetworkOptions, _ *Stack) { n.Spec.CIDR = "10.0.0.0/8" }, "AWS takes ranges from /16 to /28"},
		"too small to cut": {func(n *v1alpha1.Network, _ *NetworkOptions, _ *Stack) { n.Spec.CIDR = "10.0.0.0/24" }, "name the subnets"},
		"IPv6":             {func(n *v1alpha1.Network, _ *NetworkOptions, _ *Stack) { n.Spec.CIDR = "fd00::/56" }, "IPv4"},
		"no zone": {func(n *v1alpha1.Network, _ *NetworkOptions, _ *Stack) {
			n.Spec.Subnets = []v1alpha1.Subnet{{Name: "a", CIDR: "10.0.0.0/20"}}
		}, "such as eu-west-1a"},
		"another region": {func(n *v1alpha1.Network, _ *NetworkOptions, _ *Stack) {
			n.Spec.Subnets = []v1alpha1.Subnet{{Name: "a", CIDR: "10.0.0.0/20", Zone: "us-east-1a"}}
		}, "the account's region"},
		"one zone": {func(n *v1alpha1.Network, o *NetworkOptions, _ *Stack) {
			n.Spec.Subnets, o.NAT = []v1alpha1.Subnet{private}, NATNone
		}, "two zones at least"},
		"NAT without public": {func(n *v1alpha1.Network, _ *NetworkOptions, _ *Stack) {
			n.Spec.Subnets = []v1alpha1.Subnet{private, other}
		}, "choose no NAT"},
		"NAT in every zone": {func(n *v1alpha1.Network, o *NetworkOptions, _ *Stack) {
			n.Spec.Subnets, o.NAT = []v1alpha1.Subnet{private, other, public}, NATPerZone
		}, "a public subnet in eu-west-1b"},
		"endpoints too soon": {func(_ *v1alpha1.Network, o *NetworkOptions, s *Stack) {
			o.InterfaceEndpoints, s.InfraVersion = []string{"sts"}, "v1.0.0"
		}, "upgrade the network first"},
		"another cloud": {func(_ *v1alpha1.Network, _ *NetworkOptions, s *Stack) { s.Account.Spec.Provider = v1alpha1.ProviderGCP }, "accounts of AWS"},
		"no region":     {func(_ *v1alpha1.Network, _ *NetworkOptions, s *Stack) { s.Account.Spec.Region = "" }, "such as eu-west-1"},
	} {
		network, options, s := translatetest.Network(), NetworkOptions{}, stack("network", "main")
		test.change(network, &options, &s)
		_, err := Network(s, network, options)
		translatetest.Refused(t, name, err, test.message)
	}
}

func TestClusters(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.Cluster, *ClusterOptions){
		"cluster":      func(*v1alpha1.Cluster, *ClusterOptions) {},
		"cluster-auto": func(c *v1alpha1.Cluster, _ *ClusterOptions) { c.Spec.NodeGroups = nil },
		"cluster-options": func(c *v1alpha1.Cluster, o *ClusterOptions) {
			o.Compute, o.AMI, o.Spot, o.ExtendedSupport, o.LogRetentionDays = ComputeKarpenter, "AL2023", []string{"batch"}, true, 365
			o.Admins, o.PlatformCIDRs = []string{"arn:aws:iam::123456789012:role/b", "arn:aws:iam::123456789012:role/a"}, []string{"203.0.113.7/32"}
			c.Spec.DeletionProtection, c.Spec.Access.CIDRs = true, []string{"198.51.100.0/24"}
			batch := translatetest.Group(0)
			batch.InstanceType, batch.MaxReplicas, batch.EphemeralStorage = "c7g.large", 50, ptr.To(resource.MustParse("100Gi"))
			batch.Labels, batch.Roles = map[string]string{"tier": "batch"}, []string{"worker"}
			batch.Taints = []corev1.Taint{{Key: "batch", Value: "yes", Effect: corev1.TaintEffectNoSchedule}}
			gpu := translatetest.Group(1)
			gpu.InstanceType, gpu.GPUs = "gn1.xlarge", []v1alpha1.GPU{{Name: "nvidia.com/gpu"}}
			c.Spec.NodeGroups["batch"], c.Spec.NodeGroups["gpu"] = batch, gpu
		},
	} {
		cluster, options := translatetest.Cluster(v1alpha1.ClusterEKS), ClusterOptions{}
		change(cluster, &options)
		got, err := Cluster(stack("cluster", "shop"), cluster, translatetest.Network(), made(), options)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		translatetest.Golden(t, name, got)
	}
}

func TestClustersThatEKSWouldRefuse(t *testing.T) {
	group := func(change func(*v1alpha1.NodeGroupTemplate)) func(*v1alpha1.Cluster, *ClusterOptions) {
		return func(c *v1alpha1.Cluster, _ *ClusterOptions) {
			template := translatetest.Group(1)
			change(&template)
			c.Spec.NodeGroups["workers"] = template
		}
	}
	for name, test := range map[string]struct {
		change  func(*v1alpha1.Cluster, *ClusterOptions)
		message string
	}{
		"Auto Mode with groups":       {func(_ *v1alpha1.Cluster, o *ClusterOptions) { o.Compute = ComputeAuto }, "remove the groups"},
		"Karpenter without nodes":     {func(c *v1alpha1.Cluster, o *ClusterOptions) { o.Compute, c.Spec.NodeGroups = ComputeKarpenter, nil }, "need nodes to run on"},
		"another compute":             {func(_ *v1alpha1.Cluster, o *ClusterOptions) { o.Compute = "Magic" }, "Unsupported value"},
		"another AMI":                 {func(_ *v1alpha1.Cluster, o *ClusterOptions) { o.AMI = "Windows" }, "Bottlerocket"},
		"a patch version":             {func(c *v1alpha1.Cluster, _ *ClusterOptions) { c.Spec.Version = "v1.35.4" }, "such as v1.35"},
		"no version":                  {func(c *v1alpha1.Cluster, _ *ClusterOptions) { c.Spec.Version = "" }, "spec.version"},
		"another type":                {func(c *v1alpha1.Cluster, _ *ClusterOptions) { c.Spec.Type = v1alpha1.ClusterGKE }, "type EKS"},
		"services in the network":     {func(c *v1alpha1.Cluster, _ *ClusterOptions) { c.Spec.ClusterNetwork.ServiceCIDR = "10.0.0.0/20" }, "overlaps with the network"},
		"services too small":          {func(c *v1alpha1.Cluster, _ *ClusterOptions) { c.Spec.ClusterNetwork.ServiceCIDR = "10.96.0.0/28" }, "EKS takes ranges"},
		"another domain":              {func(c *v1alpha1.Cluster, _ *ClusterOptions) { c.Spec.ClusterNetwork.Domain = "example.com" }, "cluster.local"},
		"a pod network of one's own":  {func(c *v1alpha1.Cluster, _ *ClusterOptions) { c.Spec.ClusterNetwork.CNI = "none" }, "brings its own"},
		"an unknown spot group":       {func(_ *v1alpha1.Cluster, o *ClusterOptions) { o.Spot = []string{"nosuch"} }, "nosuch"},
		"a machine that is too small": {group(func(g *v1alpha1.NodeGroupTemplate) { g.InstanceType = "u1.nano" }), "no counterpart"},
		"resources":                   {group(func(g *v1alpha1.NodeGroupTemplate) { g.Resources.CPU = ptr.To(resource.MustParse("3")) }), "name an instanceType"},
		"a GPU without one":           {group(func(g *v1alpha1.NodeGroupTemplate) { g.GPUs = []v1alpha1.GPU{{Name: "nvidia.com/gpu"}} }), "has no GPU"},
		"a small disk":                {group(func(g *v1alpha1.NodeGroupTemplate) { g.EphemeralStorage = ptr.To(resource.MustParse("8Gi")) }), "20Gi at least"},
		"a group of none":             {group(func(g *v1alpha1.NodeGroupTemplate) { g.MaxReplicas, g.Replicas = 0, ptr.To(int32(0)) }), "remove the group"},
		"Kubernetes' own labels":      {group(func(g *v1alpha1.NodeGroupTemplate) { g.Labels = map[string]string{"node-role.kubernetes.io/x": ""} }), "another prefix"},
		"a strange taint":             {group(func(g *v1alpha1.NodeGroupTemplate) { g.Taints = []corev1.Taint{{Key: "a", Effect: "Sometimes"}} }), "Unsupported value"},
	} {
		cluster, options := translatetest.Cluster(v1alpha1.ClusterEKS), ClusterOptions{}
		test.change(cluster, &options)
		_, err := Cluster(stack("cluster", "shop"), cluster, translatetest.Network(), made(), options)
		translatetest.Refused(t, name, err, test.message)
	}
	narrow := made()
	narrow.IntraSubnets, narrow.PrivateSubnets = nil, map[string]Placed{"a": {"subnet-1", "eu-west-1a"}}
	_, err := Cluster(stack("cluster", "shop"), translatetest.Cluster(v1alpha1.ClusterEKS), translatetest.Network(), narrow, ClusterOptions{})
	translatetest.Refused(t, "one zone", err, "two zones at least")
}

func TestBuckets(t *testing.T) {
	got, err := NewBucket(stack("bucket", "assets"), Bucket{Name: "assets-7", Cluster: "shop-abc", ServiceAccount: "web"})
	if err != nil {
		t.Fatal(err)
	}
	translatetest.Golden(t, "bucket", got)
	_, err = NewBucket(stack("bucket", "assets"), Bucket{Name: "Assets", ServiceAccount: "web"})
	translatetest.Refused(t, "a bad bucket", err, "lower-case", "is one of a cluster")
}

func TestCredentials(t *testing.T) {
	account := stack("network", "main").Account
	got, err := Environment(account, map[string][]byte{KeyAccessKeyID: []byte("AKIA\n"), KeySecretAccessKey: []byte("secret"), KeySessionToken: []byte("token")})
	if err != nil || len(got) != 3 || got["AWS_ACCESS_KEY_ID"] != "AKIA" {
		t.Errorf("Environment = %v, %v", got, err)
	}
	if got, err := Environment(account, nil); err != nil || len(got) != 0 {
		t.Errorf("Environment of a role alone = %v, %v", got, err)
	}
	_, err = Environment(account, map[string][]byte{KeyAccessKeyID: []byte("AKIA")})
	translatetest.Refused(t, "half a key", err, KeySecretAccessKey)
	account.Spec.AWS = nil
	_, err = Environment(account, nil)
	translatetest.Refused(t, "nothing", err, "neither keys nor a role")
}

func TestOutputsBecomeStatus(t *testing.T) {
	const outputs = `{"name":"shop-abc","arn":"arn:aws:eks:eu-west-1:1:cluster/shop-abc","endpoint":"https://x.eks.amazonaws.com","certificate_authority":"LS0tCg==","version":"1.35",
		"oidc_issuer":"https://oidc","oidc_provider_arn":"arn","node_role_arn":"arn","cluster_security_group":"sg-1","node_groups":{"workers":{"desired":3,"status":"ACTIVE"}},"karpenter":null}`
	var made ClusterOutputs
	if err := json.Unmarshal([]byte(outputs), &made); err != nil {
		t.Fatal(err)
	}
	var status v1alpha1.ClusterStatus
	made.Apply(&status)
	if status.Endpoint != "https://x.eks.amazonaws.com" || status.Version != "v1.35" || status.Nodes.Desired != 3 {
		t.Errorf("%+v", status)
	}
	if pem, err := made.CA(); err != nil || string(pem) != "---\n" {
		t.Errorf("CA = %q, %v", pem, err)
	}
	made.CertificateAuthority = "?"
	if _, err := made.CA(); err == nil {
		t.Error("CA of nonsense: want an error")
	}
	var network v1alpha1.NetworkStatus
	(&NetworkOutputs{ID: "vpc-1"}).Apply(&network)
	if network.ID != "vpc-1" {
		t.Errorf("%+v", network)
	}
}
