package terraform

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	tfjson "github.com/hashicorp/terraform-json"
)

// Effect is what a plan does to a resource.
type Effect string

// The effects, the gravest last.
const (
	EffectNone    Effect = "none"
	EffectRead    Effect = "read"
	EffectImport  Effect = "imported"
	EffectForget  Effect = "forgotten"
	EffectCreate  Effect = "created"
	EffectChange  Effect = "changed"
	EffectReplace Effect = "replaced"
	EffectDestroy Effect = "destroyed"
	EffectUnknown Effect = "unknown" // what this code does not know is refused by policies
)

// Change is what a plan does to one resource, and why.
type Change struct {
	Address string   `json:"address"`
	Type    string   `json:"type"`
	Effect  Effect   `json:"effect"`
	Reason  string   `json:"reason,omitempty"`
	Fields  []string `json:"fields,omitempty"` // such as version "1.35" → "1.36"; no secrets

	before, after, unknown map[string]any
}

// String tells no values: a resource's fields may be secret.
func (c Change) String() string { return c.Address + " is " + string(c.Effect) }

// GoString is String.
func (c Change) GoString() string { return c.String() }

// Plan is what an operation would do. The engine's own file of it is secret, and lies in the workspace.
type Plan struct {
	Changes []Change `json:"changes"` // only of resources that are touched, the gravest first
	Drift   []Change `json:"drift,omitempty"`
	Outputs []string `json:"outputs,omitempty"` // that change
	Destroy bool     `json:"destroy,omitempty"` // of everything

	file       string
	incomplete bool
}

// Empty tells whether there is nothing to do.
func (p *Plan) Empty() bool { return len(p.Changes) == 0 && len(p.Outputs) == 0 }

// Count tells how many resources have an effect.
func (p *Plan) Count(effect Effect) int {
	count := 0
	for _, change := range p.Changes {
		if change.Effect == effect {
			count++
		}
	}
	return count
}

// operations is how many things the engine will say that it has done.
func (p *Plan) operations() int {
	total := 0
	for _, change := range p.Changes {
		switch change.Effect {
		case EffectCreate, EffectChange, EffectDestroy, EffectUnknown, EffectForget:
			total++
		case EffectReplace:
			total += 2
		}
	}
	return total
}

// effects by how grave they are.
var effects = []Effect{EffectUnknown, EffectDestroy, EffectReplace, EffectChange, EffectCreate, EffectImport, EffectForget, EffectRead}

// String is the plan as people read it.
func (p *Plan) String() string {
	if len(p.Changes) == 0 {
		return "nothing to do\n"
	}
	var out strings.Builder
	marks := map[Effect]string{
		EffectUnknown: "?", EffectDestroy: "-", EffectReplace: "-/+", EffectChange: "~", EffectCreate: "+", EffectImport: "<-", EffectForget: "x", EffectRead: "<=",
	}
	for _, change := range p.Changes {
		fmt.Fprintf(&out, "%3s %s is %s", marks[change.Effect], change.Address, change.Effect)
		if change.Reason != "" {
			fmt.Fprintf(&out, ": %s", change.Reason)
		}
		out.WriteString("\n")
		for _, field := range change.Fields {
			fmt.Fprintf(&out, "      %s\n", field)
		}
	}
	var counts []string
	for _, effect := range []Effect{EffectCreate, EffectChange, EffectReplace, EffectDestroy, EffectImport, EffectForget} {
		if count := p.Count(effect); count > 0 || effect != EffectImport && effect != EffectForget {
			counts = append(counts, fmt.Sprintf("%d %s", count, effect))
		}
	}
	fmt.Fprintf(&out, "%s\n", strings.Join(counts, ", "))
	return out.String()
}

// ParsePlan reads what the engine shows of a plan as JSON. Such a plan can be looked at, and not be applied.
func ParsePlan(data []byte) (*Plan, error) {
	var raw tfjson.Plan
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	return readPlan(&raw, "", false), nil
}

// Planned is what the resource is to become.
func (c Change) Planned() Resource {
	return Resource{Address: c.Address, fields: c.after, unknown: c.unknown}
}

// readPlan turns the engine's plan into ours.
func readPlan(raw *tfjson.Plan, file string, destroy bool) *Plan {
	plan := &Plan{file: file, Destroy: destroy, incomplete: raw.Complete != nil && !*raw.Complete}
	for _, change := range raw.ResourceChanges {
		one := readChange(change)
		if one.Effect != EffectNone && one.Effect != EffectRead {
			plan.Changes = append(plan.Changes, one)
		}
	}
	for _, change := range raw.DeferredChanges { // the engine does not know yet what it will do there
		plan.incomplete = true
		if change.ResourceChange != nil {
			plan.Changes = append(plan.Changes, Change{Address: change.ResourceChange.Address, Type: change.ResourceChange.Type, Effect: EffectUnknown, Reason: change.Reason})
		}
	}
	for _, change := range raw.ResourceDrift {
		if one := readChange(change); one.Effect != EffectNone {
			plan.Drift = append(plan.Drift, one)
		}
	}
	for name, change := range raw.OutputChanges {
		if change != nil && !change.Actions.NoOp() {
			plan.Outputs = append(plan.Outputs, name)
		}
	}
	slices.Sort(plan.Outputs)
	slices.SortStableFunc(plan.Changes, func(a, b Change) int {
		if byEffect := slices.Index(effects, a.Effect) - slices.Index(effects, b.Effect); byEffect != 0 {
			return byEffect
		}
		return strings.Compare(a.Address, b.Address)
	})
	return plan
}

func readChange(raw *tfjson.ResourceChange) Change {
	change := Change{Address: raw.Address, Type: raw.Type, Effect: EffectUnknown}
	if raw.Change == nil {
		return change
	}
	actions := raw.Change.Actions
	switch {
	case actions.NoOp() && raw.Change.Importing != nil:
		change.Effect = EffectImport
	case actions.NoOp():
		change.Effect = EffectNone
	case actions.Read():
		change.Effect = EffectRead
	case actions.Create():
		change.Effect = EffectCreate
	case actions.Update():
		change.Effect = EffectChange
	case actions.Replace():
		change.Effect = EffectReplace
	case actions.Delete():
		change.Effect = EffectDestroy
	case actions.Forget():
		change.Effect = EffectForget
	}
	change.before, change.after, change.unknown = object(raw.Change.Before), object(raw.Change.After), object(raw.Change.AfterUnknown)
	change.Reason = reason(raw)
	if change.Effect == EffectChange || change.Effect == EffectReplace {
		change.Fields = fields(raw.Change, change.Effect == EffectReplace)
	}
	return change
}

func object(value any) map[string]any {
	fields, _ := value.(map[string]any)
	return fields
}

// reason says in words why a resource is replaced or destroyed.
func reason(raw *tfjson.ResourceChange) string {
	switch raw.ActionReason {
	case tfjson.ActionReasonReplaceBecauseCannotUpdate:
		names := make([]string, 0, len(raw.Change.ReplacePaths))
		for _, path := range raw.Change.ReplacePaths {
			names = append(names, pathName(path))
		}
		slices.Sort(names)
		return strings.Join(slices.Compact(names), ", ") + " cannot be changed in place"
	case tfjson.ActionReasonReplaceBecauseTainted:
		return "an earlier operation was interrupted while making it"
	case tfjson.ActionReasonReplaceByRequest:
		return "its replacement was asked for"
	case tfjson.ActionReasonReplaceByTriggers:
		return "something that it follows is replaced"
	case tfjson.ActionReasonDeleteBecauseNoResourceConfig, tfjson.ActionReasonDeleteBecauseNoModule, tfjson.ActionReasonDeleteBecauseNoMoveTarget:
		return "the configuration does not have it any more"
	case tfjson.ActionReasonDeleteBecauseWrongRepetition, tfjson.ActionReasonDeleteBecauseCountIndex, tfjson.ActionReasonDeleteBecauseEachKey:
		return "it is not asked for any more"
	case tfjson.ActionReasonNone:
		return ""
	default:
		return strings.ReplaceAll(string(raw.ActionReason), "_", " ")
	}
}

func pathName(path any) string {
	steps, ok := path.([]any)
	if !ok {
		return fmt.Sprint(path)
	}
	var out strings.Builder
	for _, step := range steps {
		if name, ok := step.(string); ok {
			if out.Len() > 0 {
				out.WriteString(".")
			}
			out.WriteString(name)
			continue
		}
		fmt.Fprintf(&out, "[%v]", step)
	}
	return out.String()
}

// fields describes what of a resource changes: top-level fields, values only where they are short and no secret. Of what
// is made anew, nearly everything is not known yet, which tells nothing.
func fields(change *tfjson.Change, anew bool) []string {
	before, after, unknown := object(change.Before), object(change.After), object(change.AfterUnknown)
	secretBefore, secretAfter := object(change.BeforeSensitive), object(change.AfterSensitive)
	names := make(map[string]bool)
	for name := range before {
		names[name] = true
	}
	for name := range after {
		names[name] = true
	}
	for name := range unknown {
		names[name] = true
	}
	var described []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		secret := marked(secretBefore[name]) || marked(secretAfter[name])
		switch {
		case marked(unknown[name]) && after[name] == nil:
			if before[name] != nil && !anew {
				described = append(described, name+" known after apply")
			}
		case reflect.DeepEqual(before[name], after[name]), empty(before[name]) && empty(after[name]):
		case secret:
			described = append(described, name+" (secret) changes")
		default:
			described = append(described, fmt.Sprintf("%s %s → %s", name, short(before[name]), short(after[name])))
		}
	}
	return described
}

// empty tells whether a value is as good as none.
func empty(value any) bool {
	switch value := value.(type) {
	case nil:
		return true
	case string:
		return value == ""
	case bool:
		return !value
	case []any:
		return len(value) == 0
	case map[string]any:
		return len(value) == 0
	}
	return false
}

// marked tells whether any part of a value is marked.
func marked(value any) bool {
	switch value := value.(type) {
	case bool:
		return value
	case []any:
		return slices.ContainsFunc(value, marked)
	case map[string]any:
		return slices.ContainsFunc(slices.Collect(maps.Values(value)), marked)
	}
	return false
}

func short(value any) string {
	const longest = 80
	data, err := json.Marshal(value)
	if err != nil {
		return "?"
	}
	if len(data) > longest {
		return string([]rune(string(data))[:longest/2]) + "…"
	}
	return string(data)
}
