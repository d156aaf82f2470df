package aws

import (
	"context"
	"testing"

	"plasmacloud.io/plasmacloud/internal/terraform/translate/translatetest"
)

type tags []Tagged

func (t tags) List(context.Context, string) ([]Tagged, error) { return t, nil }

func TestWhatWasLeftBehindIsRecognised(t *testing.T) {
	finder := Finder(tags{
		{ARN: "arn:aws:ec2:eu-west-1:1:vpc/vpc-1", Tags: map[string]string{"Name": "main"}},
		{ARN: "arn:aws:ec2:eu-west-1:1:subnet/subnet-1", Tags: map[string]string{"Name": "main-a"}},
		{ARN: "arn:aws:ec2:eu-west-1:1:subnet/subnet-2", Tags: map[string]string{"Name": "main-twice"}},
		{ARN: "arn:aws:ec2:eu-west-1:1:subnet/subnet-3", Tags: map[string]string{"Name": "main-twice"}},
		{ARN: "arn:aws:kms:eu-west-1:1:key/key-1", Tags: nil},
		{ARN: "arn:aws:iam::1:oidc-provider/oidc.eks.amazonaws.com/id/X", Tags: nil},
		{ARN: "arn:aws:eks:eu-west-1:1:podidentityassociation/shop/a-1", Tags: nil},
		{ARN: "arn:aws:ec2:eu-west-1:1:launch-template/lt-1", Tags: map[string]string{"Name": "shop-a"}},
		{ARN: "arn:aws:ec2:eu-west-1:1:launch-template/lt-2", Tags: map[string]string{"Name": "shop-b"}},
	})
	translatetest.Found(t, finder, map[string][3]string{
		"the network":            {"aws_vpc", `{"tags_all":{"Name":"main"}}`, "vpc-1"},
		"a subnet":               {"aws_subnet", `{"tags_all":{"Name":"main-a"}}`, "subnet-1"},
		"a subnet that is not":   {"aws_subnet", `{"tags_all":{"Name":"main-b"}}`, ""},
		"one of two":             {"aws_subnet", `{"tags_all":{"Name":"main-twice"}}`, ""},
		"a key":                  {"aws_kms_key", `{}`, "key-1"},
		"a cluster":              {"aws_eks_cluster", `{"name":"shop"}`, "shop"},
		"a group":                {"aws_eks_node_group", `{"cluster_name":"shop","node_group_name":"workers"}`, "shop:workers"},
		"a group, too early":     {"aws_eks_node_group", `{"node_group_name":"workers"}`, ""},
		"an attachment":          {"aws_iam_role_policy_attachment", `{"role":"r","policy_arn":"arn:p"}`, "r/arn:p"},
		"a bucket's setting":     {"aws_s3_bucket_versioning", `{"bucket":"assets"}`, "assets"},
		"a route":                {"aws_route", `{"route_table_id":"rtb-1","destination_cidr_block":"0.0.0.0/0"}`, "rtb-1_0.0.0.0/0"},
		"a route, too early":     {"aws_route", `{"destination_cidr_block":"0.0.0.0/0"}`, ""},
		"an association":         {"aws_route_table_association", `{"subnet_id":"subnet-1","route_table_id":"rtb-1"}`, "subnet-1/rtb-1"},
		"a rule":                 {"aws_network_acl_rule", `{"network_acl_id":"acl-1","rule_number":100,"protocol":"-1","egress":true}`, "acl-1:100:-1:true"},
		"a rule, too early":      {"aws_network_acl_rule", `{"rule_number":100,"protocol":"-1"}`, ""},
		"an issuer":              {"aws_iam_openid_connect_provider", `{}`, "arn:aws:iam::1:oidc-provider/oidc.eks.amazonaws.com/id/X"},
		"a pod's identity":       {"aws_eks_pod_identity_association", `{}`, "shop,a-1"},
		"one of two templates":   {"aws_launch_template", `{"tags_all":{"Name":"shop-b"}}`, "lt-2"},
		"what is made only once": {"aws_sqs_queue", `{"name":"shop-karpenter"}`, ""},
	})
}
