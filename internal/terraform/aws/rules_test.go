package aws

import (
	"testing"

	"plasmacloud.io/plasmacloud/internal/terraform"
	"plasmacloud.io/plasmacloud/internal/terraform/translate/translatetest"
)

func TestRules(t *testing.T) {
	const cluster = `{"deletion_protection":true,"vpc_config":[{"endpoint_public_access":true,"public_access_cidrs":["198.51.100.0/24"]}],"encryption_config":[{"resources":["secrets"]}]}`
	with := func(changes string) string { return translatetest.With(t, cluster, changes) }
	const template = `{"block_device_mappings":[{"ebs":[{"encrypted":"true"}]}],"metadata_options":[{"http_tokens":"required"}]}`
	const block = `{"block_public_acls":true,"block_public_policy":true,"ignore_public_acls":true,"restrict_public_buckets":true}`
	translatetest.Rules(t, Rules(), map[string]translatetest.RuleCase{
		"a good cluster":     {Type: "aws_eks_cluster", After: cluster, Policy: terraform.Policy{DeletionProtection: true}},
		"a private cluster":  {Type: "aws_eks_cluster", After: with(`{"vpc_config":[{"endpoint_public_access":false}]}`)},
		"an open cluster":    {Type: "aws_eks_cluster", After: with(`{"vpc_config":[{"endpoint_public_access":true,"public_access_cidrs":["0.0.0.0/0"]}]}`), Says: "open to everybody"},
		"open by default":    {Type: "aws_eks_cluster", After: with(`{"vpc_config":[{"endpoint_public_access":true}]}`), Says: "open to everybody"},
		"open, as wished":    {Type: "aws_eks_cluster", After: with(`{"vpc_config":[{"endpoint_public_access":true,"public_access_cidrs":["0.0.0.0/0"]}]}`), Policy: terraform.Policy{OpenAPI: true}},
		"plain secrets":      {Type: "aws_eks_cluster", After: with(`{"encryption_config":[]}`), Says: "not be encrypted"},
		"unprotected":        {Type: "aws_eks_cluster", After: with(`{"deletion_protection":false}`), Policy: terraform.Policy{DeletionProtection: true}, Says: "deletion protection"},
		"good nodes":         {Type: "aws_launch_template", After: template},
		"plain disks":        {Type: "aws_launch_template", After: translatetest.With(t, template, `{"block_device_mappings":[{"ebs":[{"encrypted":"false"}]}]}`), Says: "disks"},
		"no tokens":          {Type: "aws_launch_template", After: translatetest.With(t, template, `{"metadata_options":[{"http_tokens":"optional"}]}`), Says: "identity"},
		"a closed bucket":    {Type: "aws_s3_bucket_public_access_block", After: block},
		"an open bucket":     {Type: "aws_s3_bucket_public_access_block", After: translatetest.With(t, block, `{"ignore_public_acls":false}`), Says: "ignore_public_acls"},
		"a good group":       {Type: "aws_vpc_security_group_ingress_rule", After: `{"cidr_ipv4":"10.0.0.0/16"}`},
		"an open group":      {Type: "aws_vpc_security_group_ingress_rule", After: `{"cidr_ipv4":"0.0.0.0/0"}`, Says: "everybody"},
		"an open IPv6 group": {Type: "aws_vpc_security_group_ingress_rule", After: `{"cidr_ipv6":"::/0"}`, Says: "everybody"},
	})
}
