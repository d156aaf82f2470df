// Package command is the command line of the prismnet program, for people and
// service managers; the container runtime does not come by here.
package command

import (
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// New makes the root command.
func New() *cobra.Command {
	root := &cobra.Command{
		Use:           "prismnet",
		Short:         "The pod network of a node",
		Long:          "prismnet is the CNI plugin of the pod network when the container runtime runs it,\nand the network's node daemon when you do.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(newDaemon(), newCleanup(), newVersion())
	return root
}

func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			version, goVersion := "unknown", "unknown"
			if info, ok := debug.ReadBuildInfo(); ok {
				version, goVersion = info.Main.Version, info.GoVersion
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "prismnet %s (%s)\n", version, goVersion)
			return err
		},
	}
}
