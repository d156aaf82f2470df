package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/distro"
	"plasmacloud.io/plasmacloud/internal/distro/cache"
)

func newBuild(o *options) *cobra.Command {
	var only, rebuild []string
	build := &cobra.Command{
		Use:   "build",
		Short: "Bring the release directory up to date",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := o.config(cmd)
			if err != nil {
				return err
			}
			config.Only, config.Rebuild = only, rebuild
			return distro.Build(cmd.Context(), config)
		},
	}
	build.Flags().StringSliceVar(&only, "only", nil, "steps to build, with what they need (see `distro steps`)")
	build.Flags().StringSliceVar(&rebuild, "rebuild", nil, "steps to build although they are cached")
	return build
}

func newSteps(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "steps",
		Short: "List the steps of a build, in order",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := o.config(cmd)
			if err != nil {
				return err
			}
			names, err := distro.Steps(cmd.Context(), config)
			if err != nil {
				return err
			}
			for _, name := range names {
				if _, err := fmt.Fprintln(cmd.OutOrStdout(), name); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func (o *options) config(cmd *cobra.Command) (distro.Config, error) {
	root, err := cache.DefaultRoot()
	if err != nil {
		return distro.Config{}, err
	}
	return distro.Config{DistroDir: o.distroDir(), Output: o.releaseDir(), CacheRoot: root, Cloud: o.cloud, Progress: cmd.ErrOrStderr()}, nil
}
