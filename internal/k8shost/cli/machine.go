package cli

import (
	"os"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/machine/guest"
)

// machineCommand is the first process of a machine that is a pod. In a machine that runs, it makes what is done there last.
func machineCommand() *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:    "machine-init COMMAND...",
		Short:  "Prepare the machine that this container is, and become its init",
		Hidden: true,
		Args: func(cmd *cobra.Command, args []string) error {
			if keep {
				return cobra.NoArgs(cmd, args)
			}
			return cobra.MinimumNArgs(1)(cmd, args)
		},
		RunE: func(_ *cobra.Command, command []string) error {
			if keep {
				return guest.Keep()
			}
			return guest.Init(command, os.Getenv)
		},
	}
	cmd.Flags().BoolVar(&keep, "keep", false, "instead, make changes to the machine last as long as its disk")
	return cmd
}
