// Package account is the commands about accounts, which infrastructure comes from.
package account

import (
	"net"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// Kind is accounts.
func Kind() *resource.Kind[*v1alpha1.Account] {
	return &resource.Kind[*v1alpha1.Account]{
		Name: "Account", Noun: "account", Plural: "accounts",
		New:     func() *v1alpha1.Account { return &v1alpha1.Account{} },
		NewList: func() client.ObjectList { return &v1alpha1.AccountList{} },
		Columns: []resource.Column[*v1alpha1.Account]{
			resource.Text("PROVIDER", func(a *v1alpha1.Account) string { return string(a.Spec.Provider) }),
			resource.Text("REGION", func(a *v1alpha1.Account) string { return a.Spec.Region }),
			resource.Text("NETWORKS", func(a *v1alpha1.Account) string { return strconv.Itoa(int(a.Status.Networks)) }),
			resource.Text("STATUS", func(a *v1alpha1.Account) string { return string(a.Status.Phase) }),
			resource.Age[*v1alpha1.Account](),
		},
		Conditions: func(a *v1alpha1.Account) []metav1.Condition { return a.Status.Conditions },
		Details:    details,
	}
}

func details(a *v1alpha1.Account, now time.Time) []output.Section {
	sections := hosts(a, now)
	if rows := identity(a); len(rows) > 0 {
		sections = append(sections, output.Section{Table: output.Table{Rows: rows}})
	}
	return sections
}

// hosts are the account's machines, and who has them.
func hosts(a *v1alpha1.Account, _ time.Time) []output.Section {
	if len(a.Status.Hosts) == 0 {
		return nil
	}
	table := output.Table{Indent: "  ", Header: []string{"HOST", "CLUSTER", "INSTANCE", "HOST KEY", "PROBLEM"}}
	for _, host := range a.Status.Hosts {
		address := host.Address
		if host.Port != 0 && host.Port != sshPort {
			address = net.JoinHostPort(host.Address, strconv.Itoa(int(host.Port)))
		}
		table.Rows = append(table.Rows, []string{address, output.Or(host.Cluster), output.Or(host.Machine), output.Or(host.HostKey), host.Problem})
	}
	return []output.Section{{Heading: "Hosts:", Table: table}}
}

// Command is the group.
func Command(s *session.Session) *cobra.Command {
	kind := Kind()
	return command.Alias(command.Group("account", "Accounts, which infrastructure comes from",
		create(s, kind), kind.List(s), kind.Get(s), kind.Delete(s), verify(s, kind), setKey(s, kind), setCredentials(s, kind), deployerToken(s, kind)), "accounts")
}
