package vpc

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// securityGroups are a network's own groups and those of its clusters, with their rules. Clusters whose rules are the
// network's are shown as having the same: there may be many.
func securityGroups(ctx context.Context, s *session.Session, n *v1alpha1.Network) ([]output.Section, error) {
	api, err := s.Client(ctx)
	if err != nil {
		return nil, err
	}
	var clusters v1alpha1.ClusterList
	if err := api.List(ctx, &clusters, client.InNamespace(n.Namespace), client.MatchingFields{"spec.network": n.Name}); err != nil {
		return nil, fmt.Errorf("list clusters of vpc %s: %w", n.Name, err)
	}
	groups := slices.Clone(n.Spec.SecurityGroups)
	shared := map[string]bool{}
	for _, cluster := range clusters.Items {
		group := n.Spec.SecurityGroupOf(cluster.Name)
		if !slices.ContainsFunc(groups, func(other v1alpha1.SecurityGroup) bool { return other.Name == group.Name }) {
			groups = append(groups, group)
			shared[group.Name] = true
		}
	}
	if len(groups) == 0 {
		return nil, nil
	}
	slices.SortFunc(groups, func(a, b v1alpha1.SecurityGroup) int { return cmp.Compare(a.Name, b.Name) })
	table := output.Table{Indent: "  ", Header: []string{"NAME", "PROTOCOL", "PORTS", "SOURCE", "DESCRIPTION"}}
	first := "" // of those with the same rules
	for _, group := range groups {
		switch {
		case shared[group.Name] && first != "":
			table.Rows = append(table.Rows, []string{group.Name, "", "", "", "the same rules as " + first})
			continue
		case shared[group.Name]:
			first = group.Name
		}
		table.Rows = append(table.Rows, rows(group)...)
	}
	return []output.Section{{Heading: "Security groups:", Table: table}}, nil
}

func rows(group v1alpha1.SecurityGroup) [][]string {
	if len(group.Rules) == 0 {
		return [][]string{{group.Name, "-", "-", "-", "lets nothing in"}}
	}
	var rows [][]string
	name := group.Name
	for _, rule := range group.Rules {
		rows = append(rows, []string{name, string(rule.Protocol), output.Or(rule.Ports), output.Or(rule.Source), output.Or(rule.Description)})
		name = ""
	}
	return rows
}
