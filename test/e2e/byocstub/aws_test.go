//go:build e2e

// Package byocstub applies the configurations with the real OpenTofu and the real providers to stubs of the clouds:
// networks, clusters and buckets live, change, drift, are upgraded and destroyed, and leave nothing behind.
package byocstub

import (
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform"
	"plasmacloud.io/plasmacloud/internal/terraform/aws"
	configuration "plasmacloud.io/plasmacloud/terraform"
	"plasmacloud.io/plasmacloud/test/e2e/byoclab"
	stub "plasmacloud.io/plasmacloud/test/stub/aws"
	"plasmacloud.io/plasmacloud/test/stub/ledger"
)

// delay is what things in the stubs take.
const delay = 2 * time.Second

// inAWS is the scenario's stacks there.
type inAWS struct {
	*testing.T
	cloud  byoclab.Cloud
	stub   *stub.Server
	policy terraform.Policy
	made   aws.NetworkOutputs
}

func (s *inAWS) stack(kind, version string) aws.Stack {
	return aws.Stack{Name: "team." + kind, InfraVersion: version, Account: byoclab.AWSAccount()}
}

func (s *inAWS) network(version string, options aws.NetworkOptions) *terraform.Workspace {
	s.Helper()
	variables, err := aws.Network(s.stack("network", version), byoclab.Network(), options)
	if err != nil {
		s.Fatal(err)
	}
	return s.cloud.Open(s.T, "team.network", version, configuration.Network, variables)
}

func (s *inAWS) cluster(version string, cluster *v1alpha1.Cluster, options aws.ClusterOptions) *terraform.Workspace {
	s.Helper()
	variables, err := aws.Cluster(s.stack("cluster", version), cluster, byoclab.Network(), &s.made, options)
	if err != nil {
		s.Fatal(err)
	}
	return s.cloud.Open(s.T, "team.cluster", version, configuration.Cluster, variables)
}

// check fails on requests that the stub does not know.
func (s *inAWS) check() {
	s.Helper()
	if unknown := s.stub.Unknown(); len(unknown) > 0 {
		s.Fatalf("the stub does not know %s", strings.Join(unknown, ", "))
	}
}

func newAWS(t *testing.T) *inAWS {
	t.Helper()
	lab := byoclab.New(t, time.Second)
	cloud, stub := lab.AWS(t, delay)
	s := &inAWS{T: t, cloud: cloud, stub: stub, policy: terraform.Policy{Rules: aws.Rules()}}
	t.Cleanup(func() {
		if unknown := stub.Unknown(); len(unknown) > 0 {
			t.Errorf("the stub does not know %s", strings.Join(unknown, ", "))
		}
	})
	return s
}

func TestAWS(t *testing.T) {
	t.Parallel()
	s := newAWS(t)
	network := s.network("v1.0.0", aws.NetworkOptions{})
	byoclab.Apply(t, network, s.policy, terraform.PlanOptions{})
	if err := network.Output(t.Context(), &s.made); err != nil || s.made.ID == "" || len(s.made.PrivateSubnets) != 3 {
		t.Fatalf("%+v, %v", s.made, err)
	}
	cluster := s.cluster("v1.0.0", byoclab.Cluster(v1alpha1.ClusterEKS, 3), aws.ClusterOptions{})
	byoclab.Apply(t, cluster, s.policy, terraform.PlanOptions{})
	var made aws.ClusterOutputs
	if err := cluster.Output(t.Context(), &made); err != nil {
		t.Fatal(err)
	}
	var status v1alpha1.ClusterStatus
	made.Apply(&status)
	if status.Endpoint == "" || status.Version != "v1.35" || status.Nodes.Desired != 3 {
		t.Errorf("%+v", status)
	}

	// More nodes: in place, and nothing else.
	cluster = s.cluster("v1.0.0", byoclab.Cluster(v1alpha1.ClusterEKS, 5), aws.ClusterOptions{})
	if plan := byoclab.Apply(t, cluster, s.policy, terraform.PlanOptions{}); plan.Count(terraform.EffectChange) != 1 || len(plan.Changes) != 1 {
		t.Errorf("scaling is\n%s", plan)
	}

	// Drift is seen, and put right.
	s.stub.Change("nodegroups", func(data map[string]any, _ map[string]string) {
		data["scalingConfig"] = map[string]any{"minSize": 0, "maxSize": 10, "desiredSize": 1}
	})
	if plan := byoclab.Plan(t, cluster, terraform.PlanOptions{}); plan.Count(terraform.EffectChange) != 1 || len(plan.Drift) == 0 {
		t.Errorf("drift is\n%s%v", plan, plan.Drift)
	}
	byoclab.Apply(t, cluster, s.policy, terraform.PlanOptions{})

	// The next infra version replaces nothing.
	network = s.network("v1.1.0", aws.NetworkOptions{InterfaceEndpoints: []string{"ecr.api", "sts"}})
	cluster = s.cluster("v1.1.0", byoclab.Cluster(v1alpha1.ClusterEKS, 5), aws.ClusterOptions{})
	for _, workspace := range []*terraform.Workspace{network, cluster} {
		if plan := byoclab.Apply(t, workspace, s.policy, terraform.PlanOptions{}); plan.Count(terraform.EffectReplace)+plan.Count(terraform.EffectDestroy) > 0 {
			t.Errorf("the upgrade is\n%s", plan)
		}
	}
	bucketVariables, err := aws.NewBucket(s.stack("bucket", "v1.1.0"), aws.Bucket{Name: "assets-7", Cluster: made.Name, ServiceAccount: "web"})
	if err != nil {
		t.Fatal(err)
	}
	bucket := s.cloud.Open(t, "team.bucket", "v1.1.0", configuration.Bucket, bucketVariables)
	byoclab.Apply(t, bucket, s.policy, terraform.PlanOptions{})
	s.check()
	s.upgrade()
	s.destroy(bucket, cluster, network)
}

// upgrade moves the cluster to the next Kubernetes version, in place; and is refused what would lose it.
func (s *inAWS) upgrade() {
	s.Helper()
	next := byoclab.Cluster(v1alpha1.ClusterEKS, 5)
	next.Spec.Version = "v1.36"
	cluster := s.cluster("v1.1.0", next, aws.ClusterOptions{})
	if plan := byoclab.Apply(s.T, cluster, s.policy, terraform.PlanOptions{}); plan.Count(terraform.EffectReplace) > 0 {
		s.Errorf("the upgrade is\n%s", plan)
	}
	next.Spec.ClusterNetwork.ServiceCIDR = "172.30.0.0/16"
	moved := s.cluster("v1.1.0", next, aws.ClusterOptions{})
	plan := byoclab.Plan(s.T, moved, terraform.PlanOptions{})
	if err := s.policy.Check(plan); err == nil || !strings.Contains(err.Error(), "a cluster is lost") {
		s.Errorf("a plan that replaces the cluster: %v\n%s", err, plan)
	}
}

// destroy takes everything away: the stub is empty afterwards.
func (s *inAWS) destroy(workspaces ...*terraform.Workspace) {
	s.Helper()
	all := s.policy
	all.Consent = []string{"*"}
	for _, workspace := range workspaces {
		byoclab.Apply(s.T, workspace, all, terraform.PlanOptions{Destroy: true})
		if err := workspace.Close(); err != nil {
			s.Error(err)
		}
	}
	empty(s.T, s.stub)
	s.cloud.Lab.NothingTold(s.T)
}

func TestAWSAutoMode(t *testing.T) {
	t.Parallel()
	s := newAWS(t)
	network := s.network("v1.1.0", aws.NetworkOptions{NAT: aws.NATPerZone})
	byoclab.Apply(t, network, s.policy, terraform.PlanOptions{})
	if err := network.Output(t.Context(), &s.made); err != nil {
		t.Fatal(err)
	}
	cluster := s.cluster("v1.1.0", byoclab.Cluster(v1alpha1.ClusterEKS, 0), aws.ClusterOptions{Admins: []string{"arn:aws:iam::123456789012:role/admin"}})
	byoclab.Apply(t, cluster, s.policy, terraform.PlanOptions{})
	s.destroy(cluster, network)
}

func TestAWSUnderBadConditions(t *testing.T) {
	t.Parallel()
	s := newAWS(t)
	s.stub.Spoil(ledger.Fault{Status: 503, Code: "RequestLimitExceeded", Times: 3})
	s.stub.Spoil(ledger.Fault{Request: "ec2:CreateSubnet", Status: 500, Code: "InternalError", Times: 2})
	network := s.network("v1.0.0", aws.NetworkOptions{NoFlowLogs: true})
	byoclab.Apply(t, network, s.policy, terraform.PlanOptions{})
	if made := s.stub.Created(); made["Vpcs"] != 1 || made["Subnets"] != 9 {
		t.Errorf("it was made %v", made)
	}
	s.stub.Revoke(true)
	_, err := network.Plan(t.Context(), terraform.PlanOptions{})
	if err == nil || !strings.Contains(err.Error(), "InvalidClientTokenId") || strings.Contains(err.Error(), byoclab.Secret) {
		t.Errorf("with revoked credentials: %v", err)
	}
	s.stub.Revoke(false)
	s.destroy(network)
}
