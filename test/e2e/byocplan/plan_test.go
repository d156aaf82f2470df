//go:build e2e

// Package byocplan plans the configurations of all clouds with the real OpenTofu and the real providers, and looks at
// what would be made: by default, and with every option. Nothing is applied; the stubs are there for the login only.
package byocplan

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"plasmacloud.io/plasmacloud/internal/terraform"
	configuration "plasmacloud.io/plasmacloud/terraform"
	"plasmacloud.io/plasmacloud/test/e2e/byoclab"
)

// planned is a plan, and what it would create by type.
type planned struct {
	*testing.T
	*terraform.Plan
	types map[string]int
}

// plan plans a stack that is not there yet, and checks the plan.
func plan(t *testing.T, cloud byoclab.Cloud, version string, kind configuration.Kind, variables any, err error, rules []terraform.Rule) planned {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	workspace := cloud.Open(t, "team."+string(kind), version, kind, variables)
	made := byoclab.Plan(t, workspace, terraform.PlanOptions{})
	if err := (terraform.Policy{Rules: rules}).Check(made); err != nil {
		t.Error(err)
	}
	if err := workspace.Close(); err != nil {
		t.Error(err)
	}
	p := planned{t, made, map[string]int{}}
	for _, change := range made.Changes {
		if change.Effect != terraform.EffectCreate {
			t.Errorf("%s is %s", change.Address, change.Effect)
		}
		p.types[change.Type]++
	}
	return p
}

// has checks how many of each type there are.
func (p planned) has(want map[string]int) {
	p.Helper()
	for kind, count := range want {
		if p.types[kind] != count {
			p.Errorf("there are %d %s, want %d", p.types[kind], kind, count)
		}
	}
}

// addresses are what would be created.
func (p planned) addresses() []string {
	var all []string
	for _, change := range p.Changes {
		all = append(all, change.Address)
	}
	slices.Sort(all)
	return all
}

// is checks a field of a resource that is a text.
func (p planned) is(address string, want map[string]string) {
	p.Helper()
	found := p.resource(address)
	for path, value := range want {
		at, names := found, strings.Split(path, ".")
		for _, name := range names[:len(names)-1] {
			at = at.Block(name)
		}
		last := names[len(names)-1]
		got := at.Text(last)
		if number, ok := at.Number(last); ok {
			got = strconv.Itoa(number)
		} else if list := at.Texts(last); len(list) > 0 {
			got = strings.Join(list, ",")
		} else if at.Flag(last) {
			got = "true"
		}
		if got != value {
			p.Errorf("%s: %s is %q, want %q", address, path, got, value)
		}
	}
}

// resource is one of the plan's.
func (p planned) resource(address string) terraform.Resource {
	p.Helper()
	for _, change := range p.Changes {
		if change.Address == address {
			return change.Planned()
		}
	}
	p.Fatalf("there is no %s in\n%s", address, p.Plan)
	return terraform.Resource{}
}

// refusedByEngine checks that a plan fails, and that what is said is one line.
func refusedByEngine(t *testing.T, workspace *terraform.Workspace, want string) {
	t.Helper()
	_, err := workspace.Plan(t.Context(), terraform.PlanOptions{})
	if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("Plan = %v, want %q", err, want)
	}
}
