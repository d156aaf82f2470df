package aws

import (
	"context"
	"fmt"
	"strings"

	"plasmacloud.io/plasmacloud/internal/terraform"
)

// TagStack is the tag that everything of a stack has.
const TagStack = "plasmacloud.io/stack"

// Tagged is something in the account that has a stack's tag.
type Tagged struct {
	ARN  string
	Tags map[string]string
}

// Tags lists what has a stack's tag, as AWS's tagging API does.
type Tags interface {
	List(ctx context.Context, stack string) ([]Tagged, error)
}

// Finder finds what was left behind in AWS: what has a name of our choice by that name, and the rest by its tags.
func Finder(tags Tags) terraform.Finder {
	return terraform.FinderFunc(func(ctx context.Context, stack string, missing []terraform.Change) (map[string]string, error) {
		tagged, err := tags.List(ctx, stack)
		if err != nil {
			return nil, err
		}
		found := map[string]string{}
		for _, change := range missing {
			if id := named(change); id != "" {
				found[change.Address] = id
			} else if id := byTag(change, tagged); id != "" {
				found[change.Address] = id
			}
		}
		return found, nil
	})
}

// named is the ID of a resource that has a name of our choice.
func named(change terraform.Change) string {
	r := change.Planned()
	join := func(separator string, fields ...string) string {
		values := make([]string, 0, len(fields))
		for _, field := range fields {
			value := r.Text(field)
			if value == "" {
				return "" // not known before something else is adopted
			}
			values = append(values, value)
		}
		return strings.Join(values, separator)
	}
	switch change.Type {
	case "aws_eks_cluster", "aws_iam_role", "aws_cloudwatch_log_group", "aws_kms_alias":
		return r.Text("name")
	case "aws_eks_node_group":
		return join(":", "cluster_name", "node_group_name")
	case "aws_eks_addon":
		return join(":", "cluster_name", "addon_name")
	case "aws_eks_access_entry":
		return join(":", "cluster_name", "principal_arn")
	case "aws_eks_access_policy_association":
		return join("#", "cluster_name", "principal_arn", "policy_arn")
	case "aws_iam_role_policy":
		return join(":", "role", "name")
	case "aws_iam_role_policy_attachment":
		return join("/", "role", "policy_arn")
	case "aws_s3_bucket":
		return r.Text("bucket")
	case "aws_cloudwatch_event_rule":
		return join("/", "name")
	case "aws_route":
		return join("_", "route_table_id", "destination_cidr_block")
	case "aws_route_table_association":
		return join("/", "subnet_id", "route_table_id")
	case "aws_network_acl_rule":
		if number, ok := r.Number("rule_number"); ok && r.Text("network_acl_id") != "" {
			return fmt.Sprintf("%s:%d:%s:%t", r.Text("network_acl_id"), number, r.Text("protocol"), r.Flag("egress"))
		}
	}
	if strings.HasPrefix(change.Type, "aws_s3_bucket_") {
		return r.Text("bucket")
	}
	return ""
}

// arnKinds are the types that AWS names itself, by what their ARNs say. What is missing in all of this, such as queues and
// targets of events, AWS makes once however often it is asked to.
var arnKinds = map[string]string{
	"aws_vpc": ":vpc/", "aws_subnet": ":subnet/", "aws_internet_gateway": ":internet-gateway/", "aws_eip": ":elastic-ip/", "aws_nat_gateway": ":natgateway/",
	"aws_route_table": ":route-table/", "aws_security_group": ":security-group/", "aws_network_acl": ":network-acl/", "aws_vpc_endpoint": ":vpc-endpoint/",
	"aws_flow_log": ":vpc-flow-log/", "aws_launch_template": ":launch-template/", "aws_kms_key": ":key/", "aws_vpc_security_group_ingress_rule": ":security-group-rule/",
	"aws_iam_openid_connect_provider": ":oidc-provider/", "aws_eks_pod_identity_association": ":podidentityassociation/",
}

// byTag is the ID of a resource by its kind and its Name; nothing if there are none, or several, of which only a person
// can tell which one is meant.
func byTag(change terraform.Change, tagged []Tagged) string {
	kind := arnKinds[change.Type]
	if kind == "" {
		return ""
	}
	name, hasName := change.Planned().Map("tags_all")["Name"]
	found := ""
	for _, one := range tagged {
		_, id, ok := strings.Cut(one.ARN, kind)
		if !ok || hasName && one.Tags["Name"] != name {
			continue
		}
		if found != "" {
			return ""
		}
		switch change.Type {
		case "aws_iam_openid_connect_provider":
			id = one.ARN
		case "aws_eks_pod_identity_association":
			id = strings.Replace(id, "/", ",", 1) // the cluster, and the association
		}
		found = id
	}
	return found
}

// String says what it is, for people to judge.
func (t Tagged) String() string { return fmt.Sprintf("%s (%s)", t.ARN, t.Tags["Name"]) }
