// Package quota reads quotas from flags and shows them beside what is used of them, for the commands of organizations and
// projects.
package quota

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/output"
)

// Usage of the flag.
const Usage = "`limits`, such as clusters=3,nodes=20,vcpu=40,memory=160Gi,volumes=50; what is not named is not limited"

func names() []string { return []string{"clusters", "nodes", "vcpu", "memory", "volumes"} }

// Parse reads limits as the flag has them; none where there are none.
func Parse(text string) (*v1alpha1.Quota, error) {
	if text == "" {
		return nil, nil
	}
	quota := &v1alpha1.Quota{}
	for part := range strings.SplitSeq(text, ",") {
		name, value, found := strings.Cut(part, "=")
		if !found {
			return nil, exit.Usagef("--quota: %q is no limit; it looks like clusters=3", part)
		}
		if err := set(quota, strings.TrimSpace(name), strings.TrimSpace(value)); err != nil {
			return nil, exit.Usagef("--quota: %w", err)
		}
	}
	return quota, nil
}

func set(quota *v1alpha1.Quota, name, value string) (err error) {
	switch name {
	case "clusters":
		quota.Clusters, err = number(name, value)
	case "nodes":
		quota.Nodes, err = number(name, value)
	case "volumes":
		quota.Volumes, err = number(name, value)
	case "vcpu":
		quota.VCPU, err = quantity(name, value)
	case "memory":
		quota.Memory, err = quantity(name, value)
	default:
		return fmt.Errorf("there is no limit of %q; there are %s%s", name, strings.Join(names(), ", "), command.DidYouMean(name, names(), ""))
	}
	return err
}

func number(name, value string) (*int32, error) {
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return nil, fmt.Errorf("%s: %q is not a whole number", name, value)
	}
	limit := int32(n)
	return &limit, nil
}

func quantity(name, value string) (*resource.Quantity, error) {
	limit, err := resource.ParseQuantity(value)
	if err != nil || limit.Sign() < 0 {
		return nil, fmt.Errorf("%s: %q is no quantity; it looks like 40 or 160Gi", name, value)
	}
	return &limit, nil
}

// Details are what is used, beside the limits.
func Details(limit, used *v1alpha1.Quota) []output.Section {
	if limit == nil && used == nil {
		return nil
	}
	if limit == nil {
		limit = &v1alpha1.Quota{}
	}
	if used == nil {
		used = &v1alpha1.Quota{}
	}
	table := output.Table{Indent: "  ", Header: []string{"OF", "USED", "LIMIT"}}
	row := func(name, used, limit string) { table.Rows = append(table.Rows, []string{name, used, limit}) }
	row("clusters", count(used.Clusters, "0"), count(limit.Clusters, "-"))
	row("nodes", count(used.Nodes, "0"), count(limit.Nodes, "-"))
	row("vcpu", size(used.VCPU, "0"), size(limit.VCPU, "-"))
	row("memory", size(used.Memory, "0"), size(limit.Memory, "-"))
	row("volumes", count(used.Volumes, "0"), count(limit.Volumes, "-"))
	return []output.Section{{Heading: "Quota:", Table: table}}
}

func count(n *int32, none string) string {
	if n == nil {
		return none
	}
	return strconv.Itoa(int(*n))
}

func size(q *resource.Quantity, none string) string {
	if q == nil {
		return none
	}
	return q.String()
}

// Clusters is how many of them are used, for a table.
func Clusters(used *v1alpha1.Quota) string {
	if used == nil {
		return ""
	}
	return count(used.Clusters, "")
}

// Nodes is how many of them are used, for a table.
func Nodes(used *v1alpha1.Quota) string {
	if used == nil {
		return ""
	}
	return count(used.Nodes, "")
}
