package gcp

import (
	"testing"

	"plasmacloud.io/plasmacloud/internal/terraform"
	"plasmacloud.io/plasmacloud/internal/terraform/translate/translatetest"
)

func TestRules(t *testing.T) {
	const cluster = `{"deletion_protection":true,"private_cluster_config":[{"enable_private_nodes":true,"enable_private_endpoint":false}],"master_authorized_networks_config":[{"cidr_blocks":[{"cidr_block":"198.51.100.0/24"}]}]}`
	with := func(changes string) string { return translatetest.With(t, cluster, changes) }
	const bucket = `{"public_access_prevention":"enforced","uniform_bucket_level_access":true}`
	translatetest.Rules(t, Rules(), map[string]translatetest.RuleCase{
		"a good cluster":    {Type: "google_container_cluster", After: cluster, Policy: terraform.Policy{DeletionProtection: true}},
		"a private cluster": {Type: "google_container_cluster", After: with(`{"private_cluster_config":[{"enable_private_nodes":true,"enable_private_endpoint":true}],"master_authorized_networks_config":[]}`)},
		"an open cluster":   {Type: "google_container_cluster", After: with(`{"master_authorized_networks_config":[{"cidr_blocks":[{"cidr_block":"0.0.0.0/0"}]}]}`), Says: "open to everybody"},
		"open by default":   {Type: "google_container_cluster", After: with(`{"master_authorized_networks_config":[]}`), Says: "open to everybody"},
		"public nodes":      {Type: "google_container_cluster", After: with(`{"private_cluster_config":[{"enable_private_endpoint":true}]}`), Says: "addresses in the internet"},
		"unprotected":       {Type: "google_container_cluster", After: with(`{"deletion_protection":false}`), Policy: terraform.Policy{DeletionProtection: true}, Says: "deletion protection"},
		"a closed bucket":   {Type: "google_storage_bucket", After: bucket},
		"an open bucket":    {Type: "google_storage_bucket", After: translatetest.With(t, bucket, `{"public_access_prevention":"inherited"}`), Says: "public"},
		"a good firewall":   {Type: "google_compute_firewall", After: `{"allow":[{"protocol":"tcp"}],"source_ranges":["10.0.0.0/8"]}`},
		"an open firewall":  {Type: "google_compute_firewall", After: `{"allow":[{"protocol":"tcp"}],"source_ranges":["0.0.0.0/0"]}`, Says: "everybody"},
	})
}
