package gcp

import "plasmacloud.io/plasmacloud/internal/terraform"

// Rules are what a plan for Google Cloud has to keep.
func Rules() []terraform.Rule {
	return []terraform.Rule{
		{Type: "google_container_cluster", Check: closedAPI},
		{Type: "google_container_cluster", Check: privateNodes},
		{Type: "google_container_cluster", Check: protected},
		{Type: "google_storage_bucket", Check: closedBucket},
		{Type: "google_compute_firewall", Check: closedFirewall},
	}
}

func closedAPI(cluster terraform.Resource, policy terraform.Policy) string {
	private := cluster.Block("private_cluster_config")
	if private.Flag("enable_private_endpoint") || policy.OpenAPI {
		return ""
	}
	allowed := cluster.Block("master_authorized_networks_config").Blocks("cidr_blocks")
	if len(cluster.Blocks("master_authorized_networks_config")) == 0 || len(allowed) == 0 {
		return "its API would be open to everybody; name the ranges that may reach it, or 0.0.0.0/0 if that is meant"
	}
	for _, block := range allowed {
		if !block.Known("cidr_block") || terraform.Everybody([]string{block.Text("cidr_block")}) {
			return "its API would be open to everybody; name the ranges that may reach it, or 0.0.0.0/0 if that is meant"
		}
	}
	return ""
}

func privateNodes(cluster terraform.Resource, _ terraform.Policy) string {
	if !cluster.Block("private_cluster_config").Flag("enable_private_nodes") {
		return "its nodes would have addresses in the internet"
	}
	return ""
}

func protected(cluster terraform.Resource, policy terraform.Policy) string {
	if policy.DeletionProtection && !cluster.Flag("deletion_protection") {
		return "deletion protection was asked for, and would be off"
	}
	return ""
}

func closedBucket(bucket terraform.Resource, _ terraform.Policy) string {
	if bucket.Text("public_access_prevention") != "enforced" || !bucket.Flag("uniform_bucket_level_access") {
		return "it could be made public"
	}
	return ""
}

func closedFirewall(rule terraform.Resource, _ terraform.Policy) string {
	if rule.Text("direction") != "EGRESS" && len(rule.Blocks("allow")) > 0 && (terraform.Everybody(rule.Texts("source_ranges")) || !rule.Known("source_ranges")) {
		return "it would let everybody in"
	}
	return ""
}
