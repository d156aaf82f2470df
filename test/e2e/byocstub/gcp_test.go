//go:build e2e

package byocstub

import (
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform"
	"plasmacloud.io/plasmacloud/internal/terraform/gcp"
	configuration "plasmacloud.io/plasmacloud/terraform"
	"plasmacloud.io/plasmacloud/test/e2e/byoclab"
	stubgcp "plasmacloud.io/plasmacloud/test/stub/gcp"
	"plasmacloud.io/plasmacloud/test/stub/ledger"
)

// inGCP is the scenario's stacks there.
type inGCP struct {
	*testing.T
	cloud  byoclab.Cloud
	stub   *stubgcp.Server
	policy terraform.Policy
	made   gcp.NetworkOutputs
}

func newGCP(t *testing.T) *inGCP {
	t.Helper()
	cloud, stub := byoclab.New(t, time.Second).GCP(t, delay)
	t.Cleanup(func() {
		if unknown := stub.Unknown(); len(unknown) > 0 {
			t.Errorf("the stub does not know %s", strings.Join(unknown, ", "))
		}
	})
	return &inGCP{T: t, cloud: cloud, stub: stub, policy: terraform.Policy{Rules: gcp.Rules()}}
}

func (s *inGCP) stack(kind string) gcp.Stack {
	return gcp.Stack{Name: "team." + kind, InfraVersion: "v1.0.0", Account: byoclab.GCPAccount()}
}

func (s *inGCP) openNetwork() *terraform.Workspace {
	s.Helper()
	variables, err := gcp.Network(s.stack("network"), byoclab.Network(), gcp.NetworkOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return s.cloud.Open(s.T, "team.network", "v1.0.0", configuration.Network, variables)
}

// network makes the network.
func (s *inGCP) network() *terraform.Workspace {
	s.Helper()
	network := s.openNetwork()
	byoclab.Apply(s.T, network, s.policy, terraform.PlanOptions{})
	if err := network.Output(s.Context(), &s.made); err != nil {
		s.Fatal(err)
	}
	return network
}

func (s *inGCP) cluster(nodes int32, version string) *terraform.Workspace {
	s.Helper()
	cluster := byoclab.Cluster(v1alpha1.ClusterGKE, nodes)
	cluster.Spec.Version = version
	variables, err := gcp.Cluster(s.stack("cluster"), cluster, &s.made, gcp.ClusterOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return s.cloud.Open(s.T, "team.cluster", "v1.0.0", configuration.Cluster, variables)
}

// destroy takes everything away: the stub is empty afterwards.
func (s *inGCP) destroy(workspaces ...*terraform.Workspace) {
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

func TestGCP(t *testing.T) {
	t.Parallel()
	s := newGCP(t)
	s.stub.Spoil(ledger.Fault{Request: "POST /compute", Status: 503, Times: 2})
	network := s.network()
	cluster := s.cluster(3, "v1.35")
	byoclab.Apply(t, cluster, s.policy, terraform.PlanOptions{})
	var outputs gcp.ClusterOutputs
	if err := cluster.Output(t.Context(), &outputs); err != nil {
		t.Fatal(err)
	}
	var status v1alpha1.ClusterStatus
	outputs.Apply(&status)
	if !strings.HasPrefix(status.Endpoint, "https://gke-") || status.Version != "v1.35.2" || status.Nodes.Desired != 3 {
		t.Errorf("%+v", status)
	}
	cluster = s.cluster(5, "v1.35")
	if plan := byoclab.Apply(t, cluster, s.policy, terraform.PlanOptions{}); plan.Count(terraform.EffectChange) != 1 || len(plan.Changes) != 1 {
		t.Errorf("scaling is\n%s", plan)
	}
	s.stub.Change("nodePools", func(pool map[string]any) {
		pool["autoscaling"] = map[string]any{"enabled": true, "totalMinNodeCount": 1, "totalMaxNodeCount": 1, "locationPolicy": "BALANCED"}
	})
	if plan := byoclab.Apply(t, cluster, s.policy, terraform.PlanOptions{}); plan.Count(terraform.EffectChange) != 1 || len(plan.Drift) == 0 {
		t.Errorf("drift is\n%s%v", plan, plan.Drift)
	}

	// The next Kubernetes version: in place; the release channel brings the nodes along.
	cluster = s.cluster(5, "v1.36")
	if plan := byoclab.Apply(t, cluster, s.policy, terraform.PlanOptions{}); plan.Count(terraform.EffectChange) != 1 || len(plan.Changes) != 1 {
		t.Errorf("the upgrade is\n%s", plan)
	}
	s.stub.Revoke(true)
	_, err := cluster.Plan(t.Context(), terraform.PlanOptions{})
	if err == nil || !strings.Contains(err.Error(), "invalid authentication credentials") || strings.Contains(err.Error(), byoclab.Secret) {
		t.Errorf("with revoked credentials: %v", err)
	}
	s.stub.Revoke(false)
	variables, err := gcp.NewBucket(s.stack("bucket"), gcp.Bucket{Name: "assets-7", ProjectNumber: "42", ServiceAccount: "web"})
	if err != nil {
		t.Fatal(err)
	}
	bucket := s.cloud.Open(t, "team.bucket", "v1.0.0", configuration.Bucket, variables)
	byoclab.Apply(t, bucket, s.policy, terraform.PlanOptions{})
	s.destroy(bucket, cluster, network)
}

func TestGCPAutopilot(t *testing.T) {
	t.Parallel()
	s := newGCP(t)
	network := s.network()
	cluster := s.cluster(0, "v1.35")
	byoclab.Apply(t, cluster, s.policy, terraform.PlanOptions{})
	s.destroy(cluster, network)
}
