package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/distro/module"
)

func newAdd(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "add VERSION",
		Short: "Add a Kubernetes minor, or move one that is there to another patch version",
		Long: "Add writes distro/v1.NN for the given Kubernetes version: main.go of the newest minor, a go.mod whose replace\n" +
			"block comes from upstream's, and go.sum. Every module is verified against the checksum database.",
		Example: "  distro add v1.34.4",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			minor, err := module.Add(cmd.Context(), o.distroDir(), args[0], cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s is at %s; build it with: make distro\n", minor.Dir, minor.Version)
			return err
		},
	}
}
