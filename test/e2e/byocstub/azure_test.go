//go:build e2e

package byocstub

import (
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform"
	"plasmacloud.io/plasmacloud/internal/terraform/azure"
	configuration "plasmacloud.io/plasmacloud/terraform"
	"plasmacloud.io/plasmacloud/test/e2e/byoclab"
	stubazure "plasmacloud.io/plasmacloud/test/stub/azure"
	"plasmacloud.io/plasmacloud/test/stub/ledger"
)

// inAzure is the scenario's stacks there.
type inAzure struct {
	*testing.T
	cloud  byoclab.Cloud
	stub   *stubazure.Server
	policy terraform.Policy
	made   azure.NetworkOutputs
}

func newAzure(t *testing.T) *inAzure {
	t.Helper()
	cloud, stub := byoclab.New(t, time.Second).Azure(t, delay)
	t.Cleanup(func() {
		if unknown := stub.Unknown(); len(unknown) > 0 {
			t.Errorf("the stub does not know %s", strings.Join(unknown, ", "))
		}
	})
	return &inAzure{T: t, cloud: cloud, stub: stub, policy: terraform.Policy{Rules: azure.Rules()}}
}

func (s *inAzure) stack(kind string) azure.Stack {
	return azure.Stack{Name: "team." + kind, InfraVersion: "v1.0.0", Account: byoclab.AzureAccount()}
}

func (s *inAzure) openNetwork() *terraform.Workspace {
	s.Helper()
	variables, err := azure.Network(s.stack("network"), byoclab.Network(), azure.NetworkOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return s.cloud.Open(s.T, "team.network", "v1.0.0", configuration.Network, variables)
}

// network makes the network.
func (s *inAzure) network() *terraform.Workspace {
	s.Helper()
	network := s.openNetwork()
	byoclab.Apply(s.T, network, s.policy, terraform.PlanOptions{})
	if err := network.Output(s.Context(), &s.made); err != nil {
		s.Fatal(err)
	}
	return network
}

func (s *inAzure) cluster(nodes int32, version string) *terraform.Workspace {
	s.Helper()
	cluster := byoclab.Cluster(v1alpha1.ClusterAKS, nodes)
	cluster.Spec.Version = version
	cluster.Spec.NodeGroups["batch"] = byoclab.Cluster(v1alpha1.ClusterAKS, 1).Spec.NodeGroups["workers"]
	variables, err := azure.Cluster(s.stack("cluster"), cluster, byoclab.Network(), &s.made, azure.ClusterOptions{SystemPool: "workers"})
	if err != nil {
		s.Fatal(err)
	}
	return s.cloud.Open(s.T, "team.cluster", "v1.0.0", configuration.Cluster, variables)
}

// destroy takes everything away: the stub is empty afterwards.
func (s *inAzure) destroy(workspaces ...*terraform.Workspace) {
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

func TestAzure(t *testing.T) {
	t.Parallel()
	s := newAzure(t)
	s.stub.Spoil(ledger.Fault{Request: "PUT ", Status: 503, Times: 2})
	s.stub.Spoil(ledger.Fault{Request: "GET ", Status: 429, Times: 2})
	network := s.network()
	cluster := s.cluster(3, "v1.35")
	byoclab.Apply(t, cluster, s.policy, terraform.PlanOptions{})
	var outputs azure.ClusterOutputs
	if err := cluster.Output(t.Context(), &outputs); err != nil {
		t.Fatal(err)
	}
	var status v1alpha1.ClusterStatus
	outputs.Apply(&status)
	if !strings.HasSuffix(status.Endpoint, ".azmk8s.io:443") || status.Version != "v1.35.2" || status.Nodes.Desired != 4 {
		t.Errorf("%+v", status)
	}
	if _, err := outputs.CA(); err != nil {
		t.Error(err)
	}

	// More nodes: in place, and nothing else.
	cluster = s.cluster(5, "v1.35")
	if plan := byoclab.Apply(t, cluster, s.policy, terraform.PlanOptions{}); plan.Count(terraform.EffectChange) != 1 || len(plan.Changes) != 1 {
		t.Errorf("scaling is\n%s", plan)
	}

	// Drift is seen, and put right.
	if changed := s.stub.Change("agentpools", func(pool map[string]any) {
		if pool["name"] == "batch" {
			properties, _ := pool["properties"].(map[string]any)
			properties["count"] = 9
		}
	}); changed != 2 {
		t.Errorf("there are %d pools", changed)
	}
	if plan := byoclab.Apply(t, cluster, s.policy, terraform.PlanOptions{}); plan.Count(terraform.EffectChange) != 1 || len(plan.Drift) == 0 {
		t.Errorf("drift is\n%s%v", plan, plan.Drift)
	}

	// The next Kubernetes version: in place. What would lose the cluster is refused.
	cluster = s.cluster(5, "v1.36")
	if plan := byoclab.Apply(t, cluster, s.policy, terraform.PlanOptions{}); plan.Count(terraform.EffectChange) != 2 || len(plan.Changes) != 2 {
		t.Errorf("the upgrade is\n%s", plan)
	}
	plan := byoclab.Plan(t, cluster, terraform.PlanOptions{Replace: []string{"azurerm_kubernetes_cluster.this"}})
	if err := s.policy.Check(plan); err == nil || !strings.Contains(err.Error(), "a cluster is lost") {
		t.Errorf("a plan that replaces the cluster: %v\n%s", err, plan)
	}
	s.stub.Revoke(true)
	_, err := cluster.Plan(t.Context(), terraform.PlanOptions{})
	if err == nil || !strings.Contains(err.Error(), "AADSTS7000215") || strings.Contains(err.Error(), byoclab.Secret) {
		t.Errorf("with revoked credentials: %v", err)
	}
	s.stub.Revoke(false)
	bucketVariables, err := azure.NewBucket(s.stack("bucket"), azure.Bucket{Name: "assets-7", ResourceGroup: outputs.ResourceGroup, OIDCIssuer: outputs.OIDCIssuer, ServiceAccount: "web"})
	if err != nil {
		t.Fatal(err)
	}
	bucket := s.cloud.Open(t, "team.bucket", "v1.0.0", configuration.Bucket, bucketVariables)
	byoclab.Apply(t, bucket, s.policy, terraform.PlanOptions{})
	s.destroy(bucket, cluster, network)
}

func TestAzureProvisionsNodes(t *testing.T) {
	t.Parallel()
	s := newAzure(t)
	network := s.network()
	variables, err := azure.Cluster(s.stack("cluster"), byoclab.Cluster(v1alpha1.ClusterAKS, 2), byoclab.Network(), &s.made, azure.ClusterOptions{AutoProvisioning: true})
	if err != nil {
		t.Fatal(err)
	}
	cluster := s.cloud.Open(t, "team.cluster", "v1.0.0", configuration.Cluster, variables)
	byoclab.Apply(t, cluster, s.policy, terraform.PlanOptions{})
	s.destroy(cluster, network)
}
