// Package account is the commands about accounts, which infrastructure comes from.
package account

import (
	"strconv"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
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
	}
}

// Command is the group.
func Command(s *session.Session) *cobra.Command {
	kind := Kind()
	return command.Alias(command.Group("account", "Accounts, which infrastructure comes from",
		create(s, kind), kind.List(s), kind.Get(s), kind.Delete(s), verify(s, kind)), "accounts")
}
