package gcp

import (
	"context"
	"fmt"

	"plasmacloud.io/plasmacloud/internal/terraform"
)

// Finder finds what was left behind in Google Cloud: everything there has a name of our choice.
func Finder(project, region string) terraform.Finder {
	return terraform.FinderFunc(func(_ context.Context, _ string, missing []terraform.Change) (map[string]string, error) {
		found := map[string]string{}
		for _, change := range missing {
			if id := identity(change, project, region); id != "" {
				found[change.Address] = id
			}
		}
		return found, nil
	})
}

func identity(change terraform.Change, project, region string) string {
	r := change.Planned()
	name := r.Text("name")
	regional := func(collection string) string {
		return fmt.Sprintf("projects/%s/regions/%s/%s/%s", project, region, collection, name)
	}
	switch change.Type {
	case "google_compute_network":
		return fmt.Sprintf("projects/%s/global/networks/%s", project, name)
	case "google_compute_subnetwork":
		return regional("subnetworks")
	case "google_compute_router":
		return regional("routers")
	case "google_compute_router_nat":
		return fmt.Sprintf("projects/%s/regions/%s/routers/%s/%s", project, region, r.Text("router"), name)
	case "google_container_cluster":
		return fmt.Sprintf("projects/%s/locations/%s/clusters/%s", project, region, name)
	case "google_container_node_pool":
		if cluster := r.Text("cluster"); cluster != "" {
			return cluster + "/nodePools/" + name
		}
	case "google_service_account":
		return fmt.Sprintf("projects/%s/serviceAccounts/%s@%s.iam.gserviceaccount.com", project, r.Text("account_id"), project)
	case "google_storage_bucket":
		return project + "/" + name
	}
	return ""
}
