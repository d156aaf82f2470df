package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/release"
)

func newVerify(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "verify",
		Short: "Read every file of the release and compare it with the manifest",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			catalogue, err := release.Open(o.releaseDir())
			if err != nil {
				return err
			}
			count, err := catalogue.Verify(cmd.Context())
			if err != nil {
				return fmt.Errorf("%w\nmend it with: distro build --rebuild STEP", err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d files are as %s says\n", count, release.ManifestName)
			return err
		},
	}
}
