package platform

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// Down is the command.
func Down(s *session.Session, installer Installer) *cobra.Command {
	var options DownOptions
	var yes bool
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop the platform, and with --purge remove all that it knows",
		Long: "down stops the embedded management cluster, and with it everything that runs on it. The data stays, unless --purge is\n" +
			"given: then clusters, projects and users are gone for good. With --kubeconfig it removes the platform from the\n" +
			"cluster it was installed onto, and leaves that cluster alone. It may be repeated, and works after a crash.",
		Args: command.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := options.check(cmd); err != nil {
				return err
			}
			if installer == nil {
				return errNoInstaller
			}
			if options.Purge && !yes {
				sure, err := s.Confirm(cmd.Context(), "Remove the platform with all its clusters, projects and users?")
				if err != nil {
					return err
				}
				if !sure {
					return exit.Refusedf("", "nothing was removed")
				}
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			steps := newSteps(s, "stop PlasmaCloud")
			err := installer.Down(ctx, options, steps)
			steps.finish(err)
			if err != nil {
				return fmt.Errorf("stop the platform: %w", err)
			}
			return nil
		},
	}
	targetFlags(cmd, &options.Target)
	cmd.Flags().BoolVar(&options.Purge, "purge", false, "remove the data too")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().DurationVar(&timeout, "timeout", 5*time.Minute, "`time` after which to give up")
	return cmd
}
