//go:build e2e

package byocplan

import (
	"encoding/json"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform/gcp"
	configuration "plasmacloud.io/plasmacloud/terraform"
	"plasmacloud.io/plasmacloud/test/e2e/byoclab"
)

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

func TestBucketsInGCP(t *testing.T) {
	cloud, _ := byoclab.New(t, time.Second).GCP(t, 0)
	bucket, err := gcp.NewBucket(gcp.Stack{Name: "team.bucket", Account: byoclab.GCPAccount()}, gcp.Bucket{Name: "assets-7", ProjectNumber: "42", ServiceAccount: "web"})
	plan(t, cloud, "v1.0.0", configuration.Bucket, bucket, err, gcp.Rules()).has(map[string]int{"google_storage_bucket": 1, "google_storage_bucket_iam_member": 1})
}
