package instance

import (
	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
	"plasmacloud.io/plasmacloud/internal/cli/terminal"
)

func console(s *session.Session, kind *resource.Kind[*v1alpha1.Machine]) *cobra.Command {
	return &cobra.Command{
		Use: "console INSTANCE", Short: "Open a terminal on an instance",
		Long: "console opens a shell on an instance, as root. The platform logs in over SSH, with a key that stays there: nothing but\n" +
			"the platform has to be reached from here.",
		Example:           "  cloud instance console dev-cluster-workers-x7k2p",
		Args:              command.Exactly("INSTANCE"),
		ValidArgsFunction: kind.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			machine, err := kind.Fetch(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			return terminal.Open(cmd.Context(), s, machine.Name, nil, true)
		},
	}
}
