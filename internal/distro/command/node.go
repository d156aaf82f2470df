package command

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/distro"
)

// newNode packs the node image. Our own programs are in it, and those change with every build, so they are no part of
// the release's content cache.
func newNode(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "node",
		Short: "Write the node image of every Kubernetes version: what the release has for it, and our own programs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			began := time.Now()
			changed, err := distro.PackNode(cmd.Context(), o.releaseDir())
			if err != nil || !changed {
				return err
			}
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "distro: node images packed (%.1f s)\n", time.Since(began).Seconds())
			return err
		},
	}
}
