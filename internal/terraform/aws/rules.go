package aws

import (
	"slices"

	"plasmacloud.io/plasmacloud/internal/terraform"
)

// Rules are what a plan for AWS has to keep.
func Rules() []terraform.Rule {
	return []terraform.Rule{
		{Type: "aws_eks_cluster", Check: closedAPI},
		{Type: "aws_eks_cluster", Check: encryptedSecrets},
		{Type: "aws_eks_cluster", Check: protected},
		{Type: "aws_launch_template", Check: encryptedDisks},
		{Type: "aws_s3_bucket_public_access_block", Check: closedBucket},
		{Type: "aws_vpc_security_group_ingress_rule", Check: closedGroup},
	}
}

func closedAPI(cluster terraform.Resource, policy terraform.Policy) string {
	network := cluster.Block("vpc_config")
	if !network.Flag("endpoint_public_access") && network.Known("endpoint_public_access") || policy.OpenAPI {
		return ""
	}
	cidrs := network.Texts("public_access_cidrs")
	if len(cidrs) == 0 || !network.Known("public_access_cidrs") || terraform.Everybody(cidrs) {
		return "its API would be open to everybody; name the ranges that may reach it, or 0.0.0.0/0 if that is meant"
	}
	return ""
}

func encryptedSecrets(cluster terraform.Resource, _ terraform.Policy) string {
	for _, block := range cluster.Blocks("encryption_config") {
		if slices.Contains(block.Texts("resources"), "secrets") {
			return ""
		}
	}
	return "its secrets would not be encrypted with a key of their own"
}

func protected(cluster terraform.Resource, policy terraform.Policy) string {
	if policy.DeletionProtection && !cluster.Flag("deletion_protection") {
		return "deletion protection was asked for, and would be off"
	}
	return ""
}

func encryptedDisks(template terraform.Resource, _ terraform.Policy) string {
	for _, mapping := range template.Blocks("block_device_mappings") {
		if disk := mapping.Block("ebs"); disk.Text("encrypted") != "true" && !disk.Flag("encrypted") {
			return "its nodes' disks would not be encrypted"
		}
	}
	if options := template.Block("metadata_options"); options.Text("http_tokens") != "required" {
		return "pods would reach the node's identity; its metadata service has to ask for tokens"
	}
	return ""
}

func closedBucket(block terraform.Resource, _ terraform.Policy) string {
	for _, flag := range []string{"block_public_acls", "block_public_policy", "ignore_public_acls", "restrict_public_buckets"} {
		if !block.Flag(flag) {
			return "the bucket could be made public: " + flag + " is off"
		}
	}
	return ""
}

func closedGroup(rule terraform.Resource, _ terraform.Policy) string {
	if terraform.Everybody([]string{rule.Text("cidr_ipv4"), rule.Text("cidr_ipv6")}) {
		return "it would let everybody in"
	}
	return ""
}
