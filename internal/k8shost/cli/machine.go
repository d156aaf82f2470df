package cli

import (
	"os"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/machine/guest"
)

// machineCommand is the first process of a machine that is a pod.
func machineCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "machine-init COMMAND...",
		Short:  "Prepare the machine that this container is, and become its init",
		Hidden: true,
		Args:   cobra.MinimumNArgs(1),
		RunE:   func(_ *cobra.Command, command []string) error { return guest.Init(command, os.Getenv) },
	}
}
