package translatetest

import (
	"encoding/json"
	"strings"
	"testing"

	"plasmacloud.io/plasmacloud/internal/terraform"
)

// RuleCase is a resource that is to be created, and what is said of it: nothing if it is good.
type RuleCase struct {
	Type   string
	After  string // its fields, as JSON
	Policy terraform.Policy
	Says   string
}

// Rules checks what rules say of resources.
func Rules(t *testing.T, rules []terraform.Rule, cases map[string]RuleCase) {
	t.Helper()
	seen := map[string]bool{}
	for name, test := range cases {
		plan, err := terraform.ParsePlan([]byte(`{"format_version":"1.2","resource_changes":[{"address":"a.b","type":"` + test.Type + `","change":{"actions":["create"],"after":` + test.After + `}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		test.Policy.Rules = rules
		err = test.Policy.Check(plan)
		switch {
		case test.Says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.Says != "" && (err == nil || !strings.Contains(err.Error(), test.Says)):
			t.Errorf("%s: %v, want %q", name, err, test.Says)
		}
		if test.Says != "" {
			seen[test.Type] = true
		}
	}
	for _, rule := range rules {
		if !seen[rule.Type] {
			t.Errorf("no case breaks a rule for %s", rule.Type)
		}
	}
}

// With changes fields of a JSON object: a null takes one away.
func With(t *testing.T, object, changes string) string {
	t.Helper()
	var fields, other map[string]any
	if err := json.Unmarshal([]byte(object), &fields); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(changes), &other); err != nil {
		t.Fatal(err)
	}
	for name, value := range other {
		fields[name] = value
	}
	data, err := json.Marshal(fields)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Found checks what a finder finds: of the type of a resource that is to be created and its fields as JSON, the ID, or
// nothing.
func Found(t *testing.T, finder terraform.Finder, cases map[string][3]string) {
	t.Helper()
	for name, test := range cases {
		plan, err := terraform.ParsePlan([]byte(`{"format_version":"1.2","resource_changes":[{"address":"a.b","type":"` + test[0] + `","change":{"actions":["create"],"after":` + test[1] + `}}]}`))
		if err != nil {
			t.Fatal(err)
		}
		found, err := finder.Find(t.Context(), "stack", plan.Changes)
		if err != nil || found["a.b"] != test[2] {
			t.Errorf("%s: %v, %v, want %q", name, found, err, test[2])
		}
	}
}
