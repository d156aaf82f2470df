// Package vpc is the commands about networks, which clusters are in.
package vpc

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// Kind is networks.
func Kind() *resource.Kind[*v1alpha1.Network] {
	return &resource.Kind[*v1alpha1.Network]{
		Name: "Network", Noun: "vpc", Plural: "vpcs", Tasks: true, // of those in clouds
		New:     func() *v1alpha1.Network { return &v1alpha1.Network{} },
		NewList: func() client.ObjectList { return &v1alpha1.NetworkList{} },
		Columns: []resource.Column[*v1alpha1.Network]{
			resource.Text("CIDR", func(n *v1alpha1.Network) string { return n.Spec.CIDR }),
			resource.Text("ACCOUNT", func(n *v1alpha1.Network) string { return n.Spec.Account }),
			resource.Text("CLUSTERS", func(n *v1alpha1.Network) string { return strconv.Itoa(int(n.Status.Clusters)) }),
			resource.Text("STATUS", func(n *v1alpha1.Network) string { return string(n.Status.Phase) }),
			resource.Age[*v1alpha1.Network](),
		},
		Conditions: func(n *v1alpha1.Network) []metav1.Condition { return n.Status.Conditions },
		Details:    subnets,
		Related:    securityGroups,
	}
}

// Command is the group.
func Command(s *session.Session) *cobra.Command {
	kind := Kind()
	byAccount := &resource.Filter{Flag: "account", Usage: "only those of this `account`", Field: "spec.account"}
	return command.Alias(command.Group("vpc", "Networks, which clusters are in",
		create(s, kind), kind.List(s, byAccount), kind.Get(s), kind.DeleteWith(s, &resource.Deletion{Forgettable: true}),
		kind.PlanCommand(s, inCloud), kind.UpgradeCommand(s, inCloud), kind.Repair(s, inCloud)), "vpcs", "network", "networks")
}

// inCloud refuses a network that is not in a cloud, or not yet.
func inCloud(n *v1alpha1.Network) error {
	if n.Status.InfraVersion == "" {
		return exit.Refusedf("", "vpc %s is in no cloud, or not there yet", n.Name)
	}
	return nil
}

func subnets(n *v1alpha1.Network, _ time.Time) []output.Section {
	if len(n.Spec.Subnets) == 0 {
		return nil
	}
	table := output.Table{Indent: "  ", Header: []string{"NAME", "CIDR", "ROLE", "ZONE"}}
	for _, subnet := range n.Spec.Subnets {
		table.Rows = append(table.Rows, []string{subnet.Name, subnet.CIDR, output.Or(string(subnet.Role)), output.Or(subnet.Zone)})
	}
	return []output.Section{{Heading: "Subnets:", Table: table}}
}
