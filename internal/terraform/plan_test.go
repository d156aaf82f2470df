package terraform

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the golden files")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// samplePlan is a plan with one change of every kind.
const samplePlan = `{"format_version":"1.2","resource_changes":[
 {"address":"aws_vpc.this","type":"aws_vpc","mode":"managed","action_reason":"replace_because_cannot_update",
  "change":{"actions":["delete","create"],"before":{"cidr_block":"10.0.0.0/16","id":"vpc-1"},"after":{"cidr_block":"10.1.0.0/16"},"after_unknown":{"id":true},"replace_paths":[["cidr_block"]]}},
 {"address":"aws_eks_cluster.this","type":"aws_eks_cluster","mode":"managed",
  "change":{"actions":["update"],"before":{"version":"1.35","token":"old","endpoint":"https://a"},"after":{"version":"1.36","token":"new","endpoint":"https://a"},"before_sensitive":{"token":true},"after_sensitive":{"token":true}}},
 {"address":"aws_subnet.a","type":"aws_subnet","mode":"managed","change":{"actions":["no-op"],"before":{},"after":{}}},
 {"address":"data.aws_partition.this","type":"aws_partition","mode":"data","change":{"actions":["read"]}},
 {"address":"aws_eks_node_group.this[\"web\"]","type":"aws_eks_node_group","mode":"managed","action_reason":"delete_because_each_key","change":{"actions":["delete"],"before":{}}},
 {"address":"aws_kms_key.cluster","type":"aws_kms_key","mode":"managed","change":{"actions":["create"],"after":{}}},
 {"address":"aws_iam_role.found","type":"aws_iam_role","mode":"managed","change":{"actions":["no-op"],"importing":{"id":"found"}}},
 {"address":"aws_s3_bucket.data","type":"aws_s3_bucket","mode":"managed","action_reason":"delete_because_no_resource_config","change":{"actions":["delete"],"before":{}}}
],"output_changes":{"id":{"actions":["update"]},"name":{"actions":["no-op"]}}}`

func parsePlan(t *testing.T, text string) *Plan {
	t.Helper()
	plan, err := ParsePlan([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func TestAPlanIsToldInWords(t *testing.T) {
	plan := parsePlan(t, samplePlan)
	golden(t, "plan.txt", plan.String())
	if strings.Contains(plan.String(), "old") || strings.Contains(plan.String(), "new") {
		t.Error("it tells a secret")
	}
	for _, shown := range []string{fmt.Sprint(plan.Changes), fmt.Sprintf("%+v", plan.Changes), fmt.Sprintf("%#v", plan.Changes[0]), fmt.Sprintf("%#v", plan.Changes[0].Planned())} {
		if strings.Contains(shown, "10.1.0.0") || strings.Contains(shown, "old") {
			t.Errorf("printed, it tells %s", shown)
		}
	}
	if plan.operations() != 6 { // a replacement is two
		t.Errorf("%d operations", plan.operations())
	}
	if plan.Empty() || len(plan.Outputs) != 1 || plan.Count(EffectDestroy) != 2 {
		t.Errorf("%+v", plan)
	}
	if empty := parsePlan(t, `{"format_version":"1.2"}`); !empty.Empty() || empty.String() != "nothing to do\n" {
		t.Errorf("an empty plan is %q", empty)
	}
}

func violations(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	var refused *PolicyError
	if !errors.As(err, &refused) {
		t.Fatalf("%v is no refusal", err)
	}
	var addresses []string
	for _, violation := range refused.Violations {
		addresses = append(addresses, violation.Address)
	}
	return strings.Join(addresses, " ")
}

func TestLossNeedsConsent(t *testing.T) {
	plan := parsePlan(t, samplePlan)
	for want, consent := range map[string][]string{
		"aws_s3_bucket.data aws_vpc.this": nil,
		"aws_s3_bucket.data":              {"aws_vpc.this"},
		"":                                {"*"},
	} {
		if got := violations(t, Policy{Consent: consent}.Check(plan)); got != want {
			t.Errorf("with consent to %v: %q, want %q", consent, got, want)
		}
	}
	for want, consent := range map[string][]string{"aws_s3_bucket.data aws_vpc.this": nil, "aws_s3_bucket.data": {"aws_vpc.this"}, "": {"*"}} {
		if got := strings.Join(Policy{Consent: consent}.Lacking(plan), " "); got != want {
			t.Errorf("with consent to %v lacks %q, want %q", consent, got, want)
		}
	}
	err := Policy{}.Check(plan)
	for _, want := range []string{"aws_vpc.this", "a network is lost", "cidr_block cannot be changed in place", "agree to it by name"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}

func TestWhatIsNotUnderstoodIsRefused(t *testing.T) {
	for name, text := range map[string]string{
		"an unknown action":        `{"resource_changes":[{"address":"a.b","type":"aws_iam_role","change":{"actions":["transmute"]}}]}`,
		"no change":                `{"resource_changes":[{"address":"a.b","type":"aws_iam_role"}]}`,
		"an unknown type":          `{"resource_changes":[{"address":"a.b","type":"aws_rds_cluster","change":{"actions":["delete"]}}]}`,
		"something left behind":    `{"resource_changes":[{"address":"a.b","type":"aws_iam_role","change":{"actions":["forget"]}}]}`,
		"a change that is put off": `{"deferred_changes":[{"reason":"unknown","resource_change":{"address":"a.b","type":"aws_iam_role"}}]}`,
		"an incomplete plan":       `{"complete":false}`,
	} {
		text = `{"format_version":"1.2",` + text[1:]
		if err := (Policy{}).Check(parsePlan(t, text)); err == nil {
			t.Errorf("%s is not refused", name)
		}
	}
	for _, kind := range []string{"aws_route_table_association", "aws_iam_role_policy", "google_compute_router_nat", "terraform_data"} {
		plan := parsePlan(t, `{"format_version":"1.2","resource_changes":[{"address":"a.b","type":"`+kind+`","change":{"actions":["delete"]}}]}`)
		if err := (Policy{}).Check(plan); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

func TestRulesSeeWhatWillBe(t *testing.T) {
	rule := Rule{Type: "aws_eks_cluster", Check: func(r Resource, p Policy) string {
		network := r.Block("vpc_config")
		if !p.OpenAPI && (Everybody(network.Texts("public_access_cidrs")) || !network.Known("public_access_cidrs")) {
			return "open"
		}
		return ""
	}}
	plan := func(after, unknown string) *Plan {
		return parsePlan(t, `{"format_version":"1.2","resource_changes":[{"address":"c","type":"aws_eks_cluster","change":{"actions":["create"],"after":{"vpc_config":[`+after+`]},"after_unknown":{"vpc_config":[`+unknown+`]}}}]}`)
	}
	for name, test := range map[string]struct {
		plan    *Plan
		open    bool
		refused bool
	}{
		"closed":          {plan(`{"public_access_cidrs":["203.0.113.0/24"]}`, `{}`), false, false},
		"open":            {plan(`{"public_access_cidrs":["0.0.0.0/0"]}`, `{}`), false, true},
		"open for IPv6":   {plan(`{"public_access_cidrs":["::/0"]}`, `{}`), false, true},
		"not known":       {plan(`{}`, `{"public_access_cidrs":true}`), false, true},
		"open, as wished": {plan(`{"public_access_cidrs":["0.0.0.0/0"]}`, `{}`), true, false},
	} {
		if err := (Policy{OpenAPI: test.open, Rules: []Rule{rule}}).Check(test.plan); (err != nil) != test.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}
