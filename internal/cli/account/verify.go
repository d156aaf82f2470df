package account

import (
	"fmt"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

func verify(s *session.Session, kind *resource.Kind[*v1alpha1.Account]) *cobra.Command {
	return &cobra.Command{
		Use: "verify ACCOUNT", Short: "Tell whether infrastructure can come from an account",
		Long:              "verify shows what the platform found when it looked at the account last, and ends with exit code 1 where it cannot be used.",
		Args:              command.Exactly("ACCOUNT"),
		ValidArgsFunction: kind.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			account, err := kind.Fetch(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			if err := kind.Show(s, account); err != nil {
				return err
			}
			return judge(account)
		},
	}
}

// judge puts the account's condition into an exit code.
func judge(account *v1alpha1.Account) error {
	if account.Status.ObservedGeneration < account.Generation {
		return exit.With(exit.Failed, "try again in a moment", fmt.Errorf("the platform has not looked at account %s yet", account.Name))
	}
	for _, condition := range account.Status.Conditions {
		if condition.Type == v1alpha1.ConditionReady && condition.Status == "True" {
			return nil
		}
		if condition.Type == v1alpha1.ConditionReady {
			return exit.With(exit.Failed, "", fmt.Errorf("account %s cannot be used: %s", account.Name, condition.Message))
		}
	}
	return exit.With(exit.Failed, "try again in a moment", fmt.Errorf("the platform has not looked at account %s yet", account.Name))
}
