package terraform

import (
	"fmt"
	"slices"
	"strings"
)

// Policy is what a plan may do. What it does not know, it refuses.
type Policy struct {
	// Consent names resources, by address, that may be replaced or destroyed although that loses something; "*" is all.
	Consent []string
	// OpenAPI: it was asked for that everybody reaches the cluster's API.
	OpenAPI bool
	// DeletionProtection: it was asked for that the cloud itself refuses to delete the cluster.
	DeletionProtection bool
	// Rules of the cloud.
	Rules []Rule
}

// Rule looks at what a resource is to become. It returns what is wrong, in words that say what to do.
type Rule struct {
	Type  string
	Check func(Resource, Policy) string
}

// Resource is what a resource is to become: its fields, of which some are not known yet.
type Resource struct {
	Address         string
	fields, unknown map[string]any
}

// String tells no values: they may be secret.
func (r Resource) String() string { return r.Address }

// GoString is String.
func (r Resource) GoString() string { return r.Address }

// Violation is one reason why a plan is refused.
type Violation struct {
	Address string
	Message string
}

// PolicyError is a plan that was refused.
type PolicyError struct{ Violations []Violation }

func (e *PolicyError) Error() string {
	lines := make([]string, 0, len(e.Violations))
	for _, violation := range e.Violations {
		lines = append(lines, strings.TrimPrefix(violation.Address+": "+violation.Message, ": "))
	}
	return "plan refused: " + strings.Join(lines, "; ")
}

// precious are the types that hold something which cannot be made again.
var precious = map[string]string{
	"aws_eks_cluster": "a cluster", "google_container_cluster": "a cluster", "azurerm_kubernetes_cluster": "a cluster",
	"aws_vpc": "a network", "google_compute_network": "a network", "azurerm_virtual_network": "a network",
	"aws_subnet": "a network", "google_compute_subnetwork": "a network", "azurerm_subnet": "a network",
	"azurerm_resource_group": "all that is in it",
	"aws_s3_bucket":          "data", "google_storage_bucket": "data", "azurerm_storage_account": "data", "azurerm_storage_container": "data",
	"aws_s3_object": "data", "aws_s3_bucket_object": "data", "google_storage_bucket_object": "data", "azurerm_storage_blob": "data",
	"aws_cloudwatch_log_group": "a log", "aws_kms_key": "the key that data is encrypted with", "google_kms_crypto_key": "the key that data is encrypted with",
	"aws_eip": "an address that others may have noted", "google_compute_address": "an address that others may have noted", "azurerm_public_ip": "an address that others may have noted",
}

// disposable are the types that can be made again with nothing lost, and with them those that begin with their name: what
// is not listed needs consent.
var disposable = []string{
	"aws_cloudwatch_event_", "aws_default_", "aws_eks_access_", "aws_eks_addon", "aws_eks_node_group",
	"aws_eks_pod_identity_association", "aws_flow_log", "aws_iam_", "aws_internet_gateway", "aws_kms_alias", "aws_launch_template",
	"aws_nat_gateway", "aws_network_acl", "aws_route", "aws_s3_bucket_", "aws_security_group", "aws_sqs_queue", "aws_vpc_endpoint",
	"aws_vpc_security_group_", "aws_vpc_dhcp_options",
	"google_compute_firewall", "google_compute_route", "google_compute_router", "google_container_node_pool", "google_project_iam_",
	"google_service_account", "google_storage_bucket_iam_", "google_kms_crypto_key_iam_",
	"azurerm_federated_identity_credential", "azurerm_kubernetes_cluster_node_pool", "azurerm_nat_gateway", "azurerm_network_security_",
	"azurerm_role_assignment", "azurerm_route", "azurerm_subnet_nat_gateway_association", "azurerm_subnet_network_security_group_association",
	"azurerm_user_assigned_identity",
	"terraform_data", "null_resource",
}

// Check refuses a plan that would lose something without consent, that does what is not understood, or that breaks a
// rule. All reasons are in the error, a *PolicyError.
func (p Policy) Check(plan *Plan) error {
	var found []Violation
	if plan.incomplete {
		found = append(found, Violation{Message: "the engine does not know all that it would do"})
	}
	for _, change := range plan.Changes {
		if message := p.loss(change); message != "" {
			found = append(found, Violation{change.Address, message})
		}
		if change.Effect == EffectDestroy || change.Effect == EffectForget {
			continue
		}
		for _, rule := range p.Rules {
			if rule.Type != change.Type {
				continue
			}
			if message := rule.Check(change.Planned(), p); message != "" {
				found = append(found, Violation{change.Address, message})
			}
		}
	}
	if len(found) == 0 {
		return nil
	}
	return &PolicyError{found}
}

// Lacking are the addresses that have to be agreed to for a plan to be done. What else a policy refuses is not cured by that.
func (p Policy) Lacking(plan *Plan) []string {
	var addresses []string
	agreed := Policy{Consent: []string{"*"}}
	for _, change := range plan.Changes {
		if p.loss(change) != "" && agreed.loss(change) == "" {
			addresses = append(addresses, change.Address)
		}
	}
	return addresses
}

// loss says what a change would lose, if it is not agreed to.
func (p Policy) loss(change Change) string {
	agreed := slices.Contains(p.Consent, "*") || slices.Contains(p.Consent, change.Address)
	switch change.Effect {
	case EffectUnknown:
		return "what would happen to it is not known"
	case EffectReplace, EffectDestroy, EffectForget:
	default:
		return ""
	}
	if agreed {
		return ""
	}
	why := ""
	if change.Reason != "" {
		why = " (" + change.Reason + ")"
	}
	if what := precious[change.Type]; what != "" {
		return fmt.Sprintf("it would be %s%s, and with it %s is lost; agree to it by name, or change what was asked for", change.Effect, why, what)
	}
	if change.Effect == EffectForget {
		return "it would be left behind in the cloud, unknown to the platform; agree to it by name"
	}
	for _, prefix := range disposable {
		if change.Type == prefix || strings.HasPrefix(change.Type, strings.TrimSuffix(prefix, "_")+"_") {
			return ""
		}
	}
	return fmt.Sprintf("it would be %s%s, and what is lost with it is not known; agree to it by name", change.Effect, why)
}

// Known tells whether all of a field is known before it is made.
func (r Resource) Known(name string) bool { return !marked(r.unknown[name]) }

// Text is a field's text, empty if it has none.
func (r Resource) Text(name string) string {
	text, _ := r.fields[name].(string)
	return text
}

// Number is a field's whole number; false if it has none, or one that is not known yet.
func (r Resource) Number(name string) (int, bool) {
	number, ok := r.fields[name].(float64)
	return int(number), ok
}

// Flag is a field's truth.
func (r Resource) Flag(name string) bool {
	flag, _ := r.fields[name].(bool)
	return flag
}

// Texts are a list of texts.
func (r Resource) Texts(name string) []string {
	list, _ := r.fields[name].([]any)
	texts := make([]string, 0, len(list))
	for _, item := range list {
		if text, ok := item.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

// Map is a field of texts by name, as tags are.
func (r Resource) Map(name string) map[string]string {
	texts := map[string]string{}
	for key, value := range object(r.fields[name]) {
		if text, ok := value.(string); ok {
			texts[key] = text
		}
	}
	return texts
}

// Blocks are the nested blocks of a name.
func (r Resource) Blocks(name string) []Resource {
	list, _ := r.fields[name].([]any)
	unknown, _ := r.unknown[name].([]any)
	blocks := make([]Resource, 0, len(list))
	for i, item := range list {
		block := Resource{Address: r.Address, fields: object(item)}
		if i < len(unknown) {
			block.unknown = object(unknown[i])
		}
		blocks = append(blocks, block)
	}
	return blocks
}

// Block is the first nested block of a name; an empty one if there is none.
func (r Resource) Block(name string) Resource {
	if blocks := r.Blocks(name); len(blocks) > 0 {
		return blocks[0]
	}
	return Resource{Address: r.Address}
}

// Everybody tells whether a list of ranges lets everybody in.
func Everybody(ranges []string) bool {
	return slices.ContainsFunc(ranges, func(one string) bool {
		return strings.HasSuffix(one, "/0") || one == "*" || strings.EqualFold(one, "internet") || strings.EqualFold(one, "any")
	})
}
