//go:build e2e

// Package byocplan plans the configurations of all clouds with the real OpenTofu and the real providers, and looks at
// what would be made: by default, and with every option. Nothing is applied; the stubs are there for the login only.
package byocplan

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform"
	"plasmacloud.io/plasmacloud/internal/terraform/aws"
	"plasmacloud.io/plasmacloud/internal/terraform/azure"
	"plasmacloud.io/plasmacloud/internal/terraform/gcp"
	configuration "plasmacloud.io/plasmacloud/terraform"
	"plasmacloud.io/plasmacloud/test/e2e/byoclab"
)

// planned is a plan, and what it would create by type.
type planned struct {
	*testing.T
	*terraform.Plan
	types map[string]int
}

// plan plans a stack that is not there yet, and checks the plan.
func plan(t *testing.T, cloud byoclab.Cloud, version string, kind configuration.Kind, variables any, err error, rules []terraform.Rule) planned {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	workspace := cloud.Open(t, "team."+string(kind), version, kind, variables)
	made := byoclab.Plan(t, workspace, terraform.PlanOptions{})
	if err := (terraform.Policy{Rules: rules}).Check(made); err != nil {
		t.Error(err)
	}
	if err := workspace.Close(); err != nil {
		t.Error(err)
	}
	p := planned{t, made, map[string]int{}}
	for _, change := range made.Changes {
		if change.Effect != terraform.EffectCreate {
			t.Errorf("%s is %s", change.Address, change.Effect)
		}
		p.types[change.Type]++
	}
	return p
}

// has checks how many of each type there are.
func (p planned) has(want map[string]int) {
	p.Helper()
	for kind, count := range want {
		if p.types[kind] != count {
			p.Errorf("there are %d %s, want %d", p.types[kind], kind, count)
		}
	}
}

// resource is one of the plan's.
func (p planned) resource(address string) terraform.Resource {
	p.Helper()
	for _, change := range p.Changes {
		if change.Address == address {
			return change.Planned()
		}
	}
	p.Fatalf("there is no %s in\n%s", address, p.Plan)
	return terraform.Resource{}
}

func awsStack(kind, version string) aws.Stack {
	return aws.Stack{Name: "team." + kind, InfraVersion: version, Account: byoclab.AWSAccount()}
}

func TestAWSNetworks(t *testing.T) {
	cloud, _ := byoclab.New(t, time.Second).AWS(t, 0)
	for _, version := range configuration.Versions(aws.Cloud) {
		variables, err := aws.Network(awsStack("network", version), byoclab.Network(), aws.NetworkOptions{})
		p := plan(t, cloud, version, configuration.Network, variables, err, aws.Rules())
		p.has(map[string]int{"aws_vpc": 1, "aws_subnet": 9, "aws_nat_gateway": 1, "aws_eip": 1, "aws_internet_gateway": 1, "aws_vpc_endpoint": 1, "aws_flow_log": 1, "aws_route_table": 5, "aws_default_security_group": 1})
		if version != "v1.0.0" {
			p.has(map[string]int{"aws_network_acl": 1, "aws_network_acl_rule": 2})
		}
		variables, err = aws.Network(awsStack("network", version), byoclab.Network(), aws.NetworkOptions{NAT: aws.NATPerZone, NoFlowLogs: true})
		plan(t, cloud, version, configuration.Network, variables, err, aws.Rules()).has(map[string]int{"aws_nat_gateway": 3, "aws_flow_log": 0})
		variables, err = aws.Network(awsStack("network", version), byoclab.Network(), aws.NetworkOptions{NAT: aws.NATNone})
		plan(t, cloud, version, configuration.Network, variables, err, aws.Rules()).has(map[string]int{"aws_nat_gateway": 0, "aws_eip": 0})
	}
	variables, err := aws.Network(awsStack("network", "v1.1.0"), byoclab.Network(), aws.NetworkOptions{InterfaceEndpoints: []string{"ecr.api", "ecr.dkr", "sts"}})
	plan(t, cloud, "v1.1.0", configuration.Network, variables, err, aws.Rules()).has(map[string]int{"aws_vpc_endpoint": 4, "aws_security_group": 1})
}

func awsNetwork() *aws.NetworkOutputs {
	return &aws.NetworkOutputs{
		ID:             "vpc-0123456789abcdef0",
		PrivateSubnets: map[string]aws.Placed{"a": {ID: "subnet-1", Zone: "eu-west-1a"}, "b": {ID: "subnet-2", Zone: "eu-west-1b"}},
		IntraSubnets:   map[string]aws.Placed{"a": {ID: "subnet-3", Zone: "eu-west-1a"}, "b": {ID: "subnet-4", Zone: "eu-west-1b"}},
	}
}

func TestAWSClusters(t *testing.T) {
	cloud, _ := byoclab.New(t, time.Second).AWS(t, 0)
	for _, version := range configuration.Versions(aws.Cloud) {
		variables, err := aws.Cluster(awsStack("cluster", version), byoclab.Cluster(v1alpha1.ClusterEKS, 3), byoclab.Network(), awsNetwork(), aws.ClusterOptions{})
		p := plan(t, cloud, version, configuration.Cluster, variables, err, aws.Rules())
		p.has(map[string]int{"aws_eks_cluster": 1, "aws_eks_node_group": 1, "aws_launch_template": 1, "aws_eks_addon": 5, "aws_kms_key": 1, "aws_iam_openid_connect_provider": 1, "aws_sqs_queue": 0})
		cluster := p.resource("aws_eks_cluster.this")
		if cluster.Block("access_config").Text("authentication_mode") != "API" || cluster.Flag("bootstrap_self_managed_addons") || cluster.Block("compute_config").Flag("enabled") {
			t.Errorf("%s: the cluster is %+v", version, cluster)
		}
		if group := p.resource(`aws_eks_node_group.this["workers"]`); group.Text("ami_type") != "BOTTLEROCKET_x86_64" {
			t.Errorf("%s: the group is %+v", version, group)
		}
		variables, err = aws.Cluster(awsStack("cluster", version), byoclab.Cluster(v1alpha1.ClusterEKS, 0), byoclab.Network(), awsNetwork(), aws.ClusterOptions{})
		p = plan(t, cloud, version, configuration.Cluster, variables, err, aws.Rules())
		p.has(map[string]int{"aws_eks_node_group": 0, "aws_eks_addon": 0, "aws_launch_template": 0})
		cluster = p.resource("aws_eks_cluster.this")
		if !cluster.Block("compute_config").Flag("enabled") || !cluster.Block("storage_config").Block("block_storage").Flag("enabled") {
			t.Errorf("%s: Auto Mode is %+v", version, cluster)
		}
		options := aws.ClusterOptions{Compute: aws.ComputeKarpenter, AMI: "AL2023", Spot: []string{"workers"}, ExtendedSupport: true, Admins: []string{"arn:aws:iam::123456789012:role/admin"}}
		wished := byoclab.Cluster(v1alpha1.ClusterEKS, 3)
		wished.Spec.DeletionProtection = true
		variables, err = aws.Cluster(awsStack("cluster", version), wished, byoclab.Network(), awsNetwork(), options)
		p = plan(t, cloud, version, configuration.Cluster, variables, err, aws.Rules())
		p.has(map[string]int{"aws_sqs_queue": 1, "aws_cloudwatch_event_rule": 4, "aws_eks_access_entry": 1, "aws_eks_access_policy_association": 1, "aws_eks_pod_identity_association": 1})
		if cluster := p.resource("aws_eks_cluster.this"); !cluster.Flag("deletion_protection") || cluster.Block("upgrade_policy").Text("support_type") != "EXTENDED" {
			t.Errorf("%s: the cluster is %+v", version, cluster)
		}
		if group := p.resource(`aws_eks_node_group.this["workers"]`); group.Text("capacity_type") != "SPOT" || group.Text("ami_type") != "AL2023_x86_64_STANDARD" {
			t.Errorf("%s: the group is %+v", version, group)
		}
	}
}

func TestBuckets(t *testing.T) {
	lab := byoclab.New(t, time.Second)
	inAWS, _ := lab.AWS(t, 0)
	forAWS, err := aws.NewBucket(awsStack("bucket", "v1.1.0"), aws.Bucket{Name: "assets-7", Cluster: "shop", ServiceAccount: "web"})
	plan(t, inAWS, "v1.1.0", configuration.Bucket, forAWS, err, aws.Rules()).has(map[string]int{"aws_s3_bucket": 1, "aws_s3_bucket_public_access_block": 1, "aws_eks_pod_identity_association": 1})
	inGCP, _ := lab.GCP(t, 0)
	forGCP, err := gcp.NewBucket(gcp.Stack{Name: "team.bucket", Account: byoclab.GCPAccount()}, gcp.Bucket{Name: "assets-7", ProjectNumber: "42", ServiceAccount: "web"})
	plan(t, inGCP, "v1.0.0", configuration.Bucket, forGCP, err, gcp.Rules()).has(map[string]int{"google_storage_bucket": 1, "google_storage_bucket_iam_member": 1})
	inAzure, _ := lab.Azure(t, 0)
	forAzure, err := azure.NewBucket(azure.Stack{Name: "team.bucket", Account: byoclab.AzureAccount()}, azure.Bucket{Name: "assets-7", ResourceGroup: "shop", OIDCIssuer: "https://oidc.example.com/", ServiceAccount: "web"})
	plan(t, inAzure, "v1.0.0", configuration.Bucket, forAzure, err, azure.Rules()).has(map[string]int{"azurerm_storage_account": 1, "azurerm_storage_container": 1, "azurerm_federated_identity_credential": 1})
}

func TestGCP(t *testing.T) {
	cloud, _ := byoclab.New(t, time.Second).GCP(t, 0)
	stack := func(kind string) gcp.Stack { return gcp.Stack{Name: "team." + kind, Account: byoclab.GCPAccount()} }
	network, err := gcp.Network(stack("network"), byoclab.Network(), gcp.NetworkOptions{})
	plan(t, cloud, "v1.0.0", configuration.Network, network, err, gcp.Rules()).has(map[string]int{"google_compute_network": 1, "google_compute_subnetwork": 1, "google_compute_router_nat": 1})
	var made gcp.NetworkOutputs
	if err := json.Unmarshal([]byte(`{"id":"projects/stub-project/global/networks/main","subnets":{"nodes":{"id":"projects/stub-project/regions/europe-west1/subnetworks/main-nodes"}}}`), &made); err != nil {
		t.Fatal(err)
	}
	standard, err := gcp.Cluster(stack("cluster"), byoclab.Cluster(v1alpha1.ClusterGKE, 3), &made, gcp.ClusterOptions{})
	p := plan(t, cloud, "v1.0.0", configuration.Cluster, standard, err, gcp.Rules())
	p.has(map[string]int{"google_container_cluster": 1, "google_container_node_pool": 1, "google_service_account": 1})
	if cluster := p.resource("google_container_cluster.this"); cluster.Text("datapath_provider") != "ADVANCED_DATAPATH" || !cluster.Block("private_cluster_config").Flag("enable_private_nodes") {
		t.Errorf("the cluster is %+v", cluster)
	}
	autopilot, err := gcp.Cluster(stack("cluster"), byoclab.Cluster(v1alpha1.ClusterGKE, 0), &made, gcp.ClusterOptions{ReleaseChannel: "STABLE"})
	p = plan(t, cloud, "v1.0.0", configuration.Cluster, autopilot, err, gcp.Rules())
	p.has(map[string]int{"google_container_cluster": 1, "google_container_node_pool": 0})
	if cluster := p.resource("google_container_cluster.this"); !cluster.Flag("enable_autopilot") {
		t.Errorf("the cluster is %+v", cluster)
	}
	private := byoclab.Cluster(v1alpha1.ClusterGKE, 3)
	private.Spec.Access.CIDRs = nil
	closed, err := gcp.Cluster(stack("cluster"), private, &made, gcp.ClusterOptions{Spot: []string{"workers"}, Autoscale: true, EncryptionKey: "projects/p/locations/europe-west1/keyRings/k/cryptoKeys/c"})
	plan(t, cloud, "v1.0.0", configuration.Cluster, closed, err, gcp.Rules())
}

func TestAzure(t *testing.T) {
	cloud, _ := byoclab.New(t, time.Second).Azure(t, 0)
	stack := func(kind string) azure.Stack {
		return azure.Stack{Name: "team." + kind, Account: byoclab.AzureAccount()}
	}
	network, err := azure.Network(stack("network"), byoclab.Network(), azure.NetworkOptions{})
	plan(t, cloud, "v1.0.0", configuration.Network, network, err, azure.Rules()).has(map[string]int{"azurerm_virtual_network": 1, "azurerm_subnet": 1, "azurerm_nat_gateway": 1})
	made := &azure.NetworkOutputs{NATAddresses: []string{"203.0.113.9"}, Subnets: map[string]azure.Placed{"nodes": {
		ID: "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/main/providers/Microsoft.Network/virtualNetworks/main/subnets/nodes", Role: v1alpha1.SubnetPrivate,
	}}}
	for name, options := range map[string]azure.ClusterOptions{
		"by default": {}, "autoscaled": {Autoscale: true}, "provisioned by Azure": {AutoProvisioning: true}, "free": {FreeTier: true, Zones: []string{"1"}},
	} {
		variables, err := azure.Cluster(stack("cluster"), byoclab.Cluster(v1alpha1.ClusterAKS, 3), byoclab.Network(), made, options)
		p := plan(t, cloud, "v1.0.0", configuration.Cluster, variables, err, azure.Rules())
		p.has(map[string]int{"azurerm_kubernetes_cluster": 1, "azurerm_user_assigned_identity": 1, "azurerm_role_assignment": 1})
		if cluster := p.resource("azurerm_kubernetes_cluster.this"); cluster.Block("network_profile").Text("network_data_plane") != "cilium" || !cluster.Flag("local_account_disabled") {
			t.Errorf("%s: the cluster is %+v", name, cluster)
		}
	}
	cluster := byoclab.Cluster(v1alpha1.ClusterAKS, 3)
	cluster.Spec.NodeGroups["batch"] = cluster.Spec.NodeGroups["workers"]
	variables, err := azure.Cluster(stack("cluster"), cluster, byoclab.Network(), made, azure.ClusterOptions{SystemPool: "workers", Spot: []string{"batch"}})
	plan(t, cloud, "v1.0.0", configuration.Cluster, variables, err, azure.Rules()).has(map[string]int{"azurerm_kubernetes_cluster_node_pool": 1})
}

// What the translations let through, and the providers themselves refuse, is told in one line.
func TestTheProvidersWordIsKept(t *testing.T) {
	cloud, _ := byoclab.New(t, time.Second).AWS(t, 0)
	variables, err := aws.Cluster(awsStack("cluster", "v1.1.0"), byoclab.Cluster(v1alpha1.ClusterEKS, 3), byoclab.Network(), awsNetwork(), aws.ClusterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	variables.SupportType = "FOREVER"
	workspace := cloud.Open(t, "team.cluster", "v1.1.0", configuration.Cluster, variables)
	_, err = workspace.Plan(t.Context(), terraform.PlanOptions{})
	if err == nil || !strings.Contains(err.Error(), "support_type") || strings.Contains(err.Error(), "\n") {
		t.Errorf("Plan = %v", err)
	}
}
