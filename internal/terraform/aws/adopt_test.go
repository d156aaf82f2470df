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
	})
	translatetest.Found(t, finder, map[string][3]string{
		"the network":             {"aws_vpc", `{"tags_all":{"Name":"main"}}`, "vpc-1"},
		"a subnet":                {"aws_subnet", `{"tags_all":{"Name":"main-a"}}`, "subnet-1"},
		"a subnet that is not":    {"aws_subnet", `{"tags_all":{"Name":"main-b"}}`, ""},
		"one of two":              {"aws_subnet", `{"tags_all":{"Name":"main-twice"}}`, ""},
		"a key":                   {"aws_kms_key", `{}`, "key-1"},
		"a cluster":               {"aws_eks_cluster", `{"name":"shop"}`, "shop"},
		"a group":                 {"aws_eks_node_group", `{"cluster_name":"shop","node_group_name":"workers"}`, "shop:workers"},
		"a group, too early":      {"aws_eks_node_group", `{"node_group_name":"workers"}`, ""},
		"an attachment":           {"aws_iam_role_policy_attachment", `{"role":"r","policy_arn":"arn:p"}`, "r/arn:p"},
		"a bucket's setting":      {"aws_s3_bucket_versioning", `{"bucket":"assets"}`, "assets"},
		"what cannot be imported": {"aws_route", `{}`, ""},
	})
}
