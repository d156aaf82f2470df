//go:build e2e

package byocplan

import (
	"slices"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform"
	"plasmacloud.io/plasmacloud/internal/terraform/aws"
	configuration "plasmacloud.io/plasmacloud/terraform"
	"plasmacloud.io/plasmacloud/test/e2e/byoclab"
)

func awsStack(kind, version string) aws.Stack {
	return aws.Stack{Name: "team." + kind, InfraVersion: version, Account: byoclab.AWSAccount()}
}

// added checks that an infra version makes all that the one before makes, and some more.
func added(t *testing.T, before, after planned, want ...string) {
	t.Helper()
	more := after.addresses()
	for _, address := range before.addresses() {
		if !slices.Contains(more, address) {
			t.Errorf("the upgrade would lose %s", address)
		}
		more = slices.DeleteFunc(more, func(other string) bool { return other == address })
	}
	if !slices.Equal(more, want) {
		t.Errorf("the upgrade adds %v, want %v", more, want)
	}
}

func TestAWSNetworks(t *testing.T) {
	cloud, stub := byoclab.New(t, time.Second).AWS(t, 0)
	byDefault := map[string]planned{}
	for _, version := range configuration.Versions(aws.Cloud) {
		with := func(options aws.NetworkOptions) planned {
			t.Helper()
			variables, err := aws.Network(awsStack("network", version), byoclab.Network(), options)
			return plan(t, cloud, version, configuration.Network, variables, err, aws.Rules())
		}
		p := with(aws.NetworkOptions{})
		byDefault[version] = p
		p.has(map[string]int{"aws_vpc": 1, "aws_subnet": 9, "aws_nat_gateway": 1, "aws_eip": 1, "aws_internet_gateway": 1, "aws_vpc_endpoint": 1, "aws_flow_log": 1, "aws_route_table": 5, "aws_default_security_group": 1})
		p.is("aws_vpc.this", map[string]string{"cidr_block": "10.0.0.0/16", "enable_dns_hostnames": "true"})
		p.is("aws_flow_log.this[0]", map[string]string{"traffic_type": "ALL"})
		p.is("aws_cloudwatch_log_group.flow[0]", map[string]string{"retention_in_days": "30"})
		if tags := p.resource("aws_vpc.this").Map("tags_all"); tags[aws.TagStack] != "team.network" || tags["plasmacloud.io/network"] != "main" {
			t.Errorf("%s: the network's tags are %v", version, tags)
		}
		p = with(aws.NetworkOptions{NAT: aws.NATPerZone, LogRetentionDays: 7, Zones: []string{"eu-west-1a", "eu-west-1b"}})
		p.has(map[string]int{"aws_nat_gateway": 2, "aws_subnet": 6})
		p.is("aws_cloudwatch_log_group.flow[0]", map[string]string{"retention_in_days": "7"})
		with(aws.NetworkOptions{NAT: aws.NATNone, NoFlowLogs: true}).has(map[string]int{"aws_nat_gateway": 0, "aws_eip": 0, "aws_flow_log": 0, "aws_iam_role": 0})
	}
	added(t, byDefault["v1.0.0"], byDefault["v1.1.0"], "aws_network_acl.intra[0]", `aws_network_acl_rule.intra["in"]`, `aws_network_acl_rule.intra["out"]`)
	variables, err := aws.Network(awsStack("network", "v1.1.0"), byoclab.Network(), aws.NetworkOptions{InterfaceEndpoints: []string{"ecr.api", "ecr.dkr", "sts"}})
	p := plan(t, cloud, "v1.1.0", configuration.Network, variables, err, aws.Rules())
	p.has(map[string]int{"aws_vpc_endpoint": 4, "aws_security_group": 1})
	p.is(`aws_vpc_endpoint.interface["sts"]`, map[string]string{"service_name": "com.amazonaws.eu-west-1.sts", "private_dns_enabled": "true"})
	if made := stub.Created(); len(made) > 0 {
		t.Errorf("planning has made %v", made)
	}
}

func awsNetwork() *aws.NetworkOutputs {
	return &aws.NetworkOutputs{
		ID:             "vpc-0123456789abcdef0",
		PrivateSubnets: map[string]aws.Placed{"a": {ID: "subnet-1", Zone: "eu-west-1a"}, "b": {ID: "subnet-2", Zone: "eu-west-1b"}},
		IntraSubnets:   map[string]aws.Placed{"a": {ID: "subnet-3", Zone: "eu-west-1a"}, "b": {ID: "subnet-4", Zone: "eu-west-1b"}},
	}
}

const eksCluster = "aws_eks_cluster.this"

func TestAWSClusters(t *testing.T) {
	cloud, _ := byoclab.New(t, time.Second).AWS(t, 0)
	byDefault := map[string]planned{}
	for _, version := range configuration.Versions(aws.Cloud) {
		with := func(cluster *v1alpha1.Cluster, options aws.ClusterOptions) planned {
			t.Helper()
			variables, err := aws.Cluster(awsStack("cluster", version), cluster, byoclab.Network(), awsNetwork(), options)
			return plan(t, cloud, version, configuration.Cluster, variables, err, aws.Rules())
		}
		p := with(byoclab.Cluster(v1alpha1.ClusterEKS, 3), aws.ClusterOptions{})
		byDefault[version] = p
		p.has(map[string]int{"aws_eks_cluster": 1, "aws_eks_node_group": 1, "aws_launch_template": 1, "aws_eks_addon": 5, "aws_kms_key": 1, "aws_iam_openid_connect_provider": 1, "aws_sqs_queue": 0})
		p.is(eksCluster, map[string]string{
			"version": "1.35", "access_config.authentication_mode": "API", "bootstrap_self_managed_addons": "", "compute_config.enabled": "", "deletion_protection": "",
			"vpc_config.endpoint_public_access": "true", "vpc_config.public_access_cidrs": "198.51.100.0/24", "vpc_config.endpoint_private_access": "true", "vpc_config.subnet_ids": "subnet-3,subnet-4",
			"encryption_config.resources": "secrets", "upgrade_policy.support_type": "STANDARD", "kubernetes_network_config.service_ipv4_cidr": "10.96.0.0/12",
		})
		p.is(`aws_eks_node_group.this["workers"]`, map[string]string{"ami_type": "BOTTLEROCKET_x86_64", "capacity_type": "ON_DEMAND", "instance_types": "m7i.large", "scaling_config.desired_size": "3", "scaling_config.max_size": "10"})
		p.is(`aws_launch_template.node["workers"]`, map[string]string{"metadata_options.http_tokens": "required", "metadata_options.http_put_response_hop_limit": "1", "block_device_mappings.ebs.encrypted": "true", "block_device_mappings.ebs.volume_size": "30"})
		p.is("aws_cloudwatch_log_group.cluster", map[string]string{"retention_in_days": "90"})

		private := byoclab.Cluster(v1alpha1.ClusterEKS, 0)
		private.Spec.Access.CIDRs = nil
		p = with(private, aws.ClusterOptions{})
		p.has(map[string]int{"aws_eks_node_group": 0, "aws_eks_addon": 0, "aws_launch_template": 0})
		p.is(eksCluster, map[string]string{
			"compute_config.enabled": "true", "compute_config.node_pools": "general-purpose,system", "storage_config.block_storage.enabled": "true", "kubernetes_network_config.elastic_load_balancing.enabled": "true",
			"vpc_config.endpoint_public_access": "",
		})

		wished := byoclab.Cluster(v1alpha1.ClusterEKS, 3)
		wished.Spec.DeletionProtection = true
		p = with(wished, aws.ClusterOptions{
			Compute: aws.ComputeKarpenter, AMI: "AL2023", Spot: []string{"workers"}, ExtendedSupport: true, LogRetentionDays: 7,
			Admins: []string{"arn:aws:iam::123456789012:role/admin"}, PlatformCIDRs: []string{"203.0.113.7/32"},
		})
		p.has(map[string]int{"aws_sqs_queue": 1, "aws_cloudwatch_event_rule": 4, "aws_eks_access_entry": 1, "aws_eks_access_policy_association": 1, "aws_eks_pod_identity_association": map[string]int{"v1.0.0": 1, "v1.1.0": 2}[version]})
		p.is(eksCluster, map[string]string{"deletion_protection": "true", "upgrade_policy.support_type": "EXTENDED", "vpc_config.public_access_cidrs": "198.51.100.0/24,203.0.113.7/32"})
		p.is(`aws_eks_node_group.this["workers"]`, map[string]string{"capacity_type": "SPOT", "ami_type": "AL2023_x86_64_STANDARD"})
		p.is("aws_cloudwatch_log_group.cluster", map[string]string{"retention_in_days": "7"})
	}
	added(t, byDefault["v1.0.0"], byDefault["v1.1.0"], "aws_eks_pod_identity_association.load_balancer[0]", "aws_iam_role.load_balancer[0]", "aws_iam_role_policy.load_balancer[0]", "aws_kms_alias.cluster")
	byDefault["v1.1.0"].is(eksCluster, map[string]string{"zonal_shift_config.enabled": "true"})
}

func TestBucketsInAWS(t *testing.T) {
	cloud, _ := byoclab.New(t, time.Second).AWS(t, 0)
	bucket, err := aws.NewBucket(awsStack("bucket", "v1.1.0"), aws.Bucket{Name: "assets-7", Cluster: "shop", ServiceAccount: "web"})
	p := plan(t, cloud, "v1.1.0", configuration.Bucket, bucket, err, aws.Rules())
	p.has(map[string]int{"aws_s3_bucket": 1, "aws_s3_bucket_public_access_block": 1, "aws_eks_pod_identity_association": 1})
	p.is("aws_s3_bucket_versioning.this", map[string]string{"versioning_configuration.status": "Enabled"})
	p.is("aws_s3_bucket.this", map[string]string{"force_destroy": ""})
	key := "arn:aws:kms:eu-west-1:123456789012:key/k"
	bucket, err = aws.NewBucket(awsStack("bucket", "v1.0.0"), aws.Bucket{Name: "assets-7", NoVersioning: true, DestroyObjects: true, KMSKeyARN: key})
	p = plan(t, cloud, "v1.0.0", configuration.Bucket, bucket, err, aws.Rules())
	p.has(map[string]int{"aws_iam_role": 0, "aws_eks_pod_identity_association": 0})
	p.is("aws_s3_bucket_versioning.this", map[string]string{"versioning_configuration.status": "Suspended"})
	p.is("aws_s3_bucket.this", map[string]string{"force_destroy": "true"})
	p.is("aws_s3_bucket_server_side_encryption_configuration.this", map[string]string{"rule.apply_server_side_encryption_by_default.kms_master_key_id": key})
}

// What does not go together is refused in our words, and nobody is asked: not the engine, not the cloud. Handed to the
// engine all the same, it is refused too, by the configuration or by the provider itself, in one line.
func TestAWSRefusals(t *testing.T) {
	cloud, stub := byoclab.New(t, time.Second).AWS(t, 0)
	cluster := func(nodes int32, options aws.ClusterOptions) (*aws.ClusterVariables, error) {
		return aws.Cluster(awsStack("cluster", "v1.1.0"), byoclab.Cluster(v1alpha1.ClusterEKS, nodes), byoclab.Network(), awsNetwork(), options)
	}
	_, auto := cluster(3, aws.ClusterOptions{Compute: aws.ComputeAuto})
	_, image := cluster(3, aws.ClusterOptions{AMI: "Windows"})
	_, endpoints := aws.Network(awsStack("network", "v1.0.0"), byoclab.Network(), aws.NetworkOptions{InterfaceEndpoints: []string{"sts"}})
	for want, err := range map[string]error{"with Auto Mode AWS makes the nodes": auto, `Unsupported value: "Windows"`: image, "interface endpoints come with v1.1.0": endpoints} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if asked := stub.Requests(); len(asked) > 0 {
		t.Errorf("somebody asked the cloud: %v", asked)
	}

	network, err := aws.Network(awsStack("network", "v1.1.0"), byoclab.Network(), aws.NetworkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	network.NAT = "Sometimes"
	refusedByEngine(t, cloud.Open(t, "team.network", "v1.1.0", configuration.Network, network), "NAT is None, Single or PerZone")
	wrong, err := cluster(3, aws.ClusterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	wrong.SupportType = "FOREVER"
	refusedByEngine(t, cloud.Open(t, "team.cluster", "v1.1.0", configuration.Cluster, wrong), "support_type")

	// And what the provider has nothing against, but is open to everybody, the policy refuses.
	open, err := cluster(3, aws.ClusterOptions{PlatformCIDRs: []string{"0.0.0.0/0"}})
	if err != nil {
		t.Fatal(err)
	}
	made := byoclab.Plan(t, cloud.Open(t, "team.cluster", "v1.1.0", configuration.Cluster, open), terraform.PlanOptions{})
	if err := (terraform.Policy{Rules: aws.Rules()}).Check(made); err == nil || !strings.Contains(err.Error(), "open to everybody") {
		t.Errorf("an API for everybody: %v", err)
	}
}
