package gcp

import (
	"testing"

	"plasmacloud.io/plasmacloud/internal/terraform/translate/translatetest"
)

func TestWhatWasLeftBehindHasAName(t *testing.T) {
	translatetest.Found(t, Finder("p", "r"), map[string][3]string{
		"a network":         {"google_compute_network", `{"name":"main"}`, "projects/p/global/networks/main"},
		"a subnetwork":      {"google_compute_subnetwork", `{"name":"main"}`, "projects/p/regions/r/subnetworks/main"},
		"NAT":               {"google_compute_router_nat", `{"name":"main","router":"x"}`, "projects/p/regions/r/routers/x/main"},
		"a cluster":         {"google_container_cluster", `{"name":"shop"}`, "projects/p/locations/r/clusters/shop"},
		"an account":        {"google_service_account", `{"account_id":"shop"}`, "projects/p/serviceAccounts/shop@p.iam.gserviceaccount.com"},
		"a pool, too early": {"google_container_node_pool", `{"name":"a"}`, ""},
		"a pool":            {"google_container_node_pool", `{"name":"a","cluster":"projects/p/locations/r/clusters/shop"}`, "projects/p/locations/r/clusters/shop/nodePools/a"},
	})
}
