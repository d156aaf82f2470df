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
)

func TestGCP(t *testing.T) {
	lab := byoclab.New(t, time.Second)
	cloud, stub := lab.GCP(t, delay)
	t.Cleanup(func() {
		if unknown := stub.Unknown(); len(unknown) > 0 {
			t.Errorf("the stub does not know %s", strings.Join(unknown, ", "))
		}
	})
	policy := terraform.Policy{Rules: gcp.Rules()}
	stack := func(kind string) gcp.Stack {
		return gcp.Stack{Name: "team." + kind, InfraVersion: "v1.0.0", Account: byoclab.GCPAccount()}
	}
	variables, err := gcp.Network(stack("network"), byoclab.Network(), gcp.NetworkOptions{})
	if err != nil {
		t.Fatal(err)
	}
	network := cloud.Open(t, "team.network", "v1.0.0", configuration.Network, variables)
	byoclab.Apply(t, network, policy, terraform.PlanOptions{})
	var made gcp.NetworkOutputs
	if err := network.Output(t.Context(), &made); err != nil {
		t.Fatal(err)
	}
	open := func(nodes int32) *terraform.Workspace {
		t.Helper()
		variables, err := gcp.Cluster(stack("cluster"), byoclab.Cluster(v1alpha1.ClusterGKE, nodes), &made, gcp.ClusterOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return cloud.Open(t, "team.cluster", "v1.0.0", configuration.Cluster, variables)
	}
	cluster := open(3)
	byoclab.Apply(t, cluster, policy, terraform.PlanOptions{})
	var outputs gcp.ClusterOutputs
	if err := cluster.Output(t.Context(), &outputs); err != nil {
		t.Fatal(err)
	}
	var status v1alpha1.ClusterStatus
	outputs.Apply(&status)
	if !strings.HasPrefix(status.Endpoint, "https://gke-") || status.Version != "v1.35.2" || status.Nodes.Desired != 3 {
		t.Errorf("%+v", status)
	}
	cluster = open(5)
	if plan := byoclab.Apply(t, cluster, policy, terraform.PlanOptions{}); plan.Count(terraform.EffectChange) != 1 || len(plan.Changes) != 1 {
		t.Errorf("scaling is\n%s", plan)
	}
	bucketVariables, err := gcp.NewBucket(stack("bucket"), gcp.Bucket{Name: "assets-7", ProjectNumber: "42", ServiceAccount: "web"})
	if err != nil {
		t.Fatal(err)
	}
	bucket := cloud.Open(t, "team.bucket", "v1.0.0", configuration.Bucket, bucketVariables)
	byoclab.Apply(t, bucket, policy, terraform.PlanOptions{})
	policy.Consent = []string{"*"}
	for _, workspace := range []*terraform.Workspace{bucket, cluster, network} {
		byoclab.Apply(t, workspace, policy, terraform.PlanOptions{Destroy: true})
		if err := workspace.Close(); err != nil {
			t.Error(err)
		}
	}
	if left := stub.Inventory(); len(left) > 0 {
		t.Errorf("this is left: %v", left)
	}
	lab.NothingTold(t)
}
