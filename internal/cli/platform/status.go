package platform

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// Status is the command.
func Status(s *session.Session, installer Installer) *cobra.Command {
	var options StatusOptions
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Tell how the parts of the platform fare",
		Long:  "status looks at the installation and changes nothing. It ends with exit code 1 where a part is not ready.",
		Args:  command.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := options.check(cmd); err != nil {
				return err
			}
			if installer == nil {
				return errNoInstaller
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			report, err := installer.Status(ctx, options, silent{})
			if err != nil {
				return err
			}
			if err := s.Printer().Print(view(report)); err != nil {
				return err
			}
			if !report.Ready() {
				return exit.With(exit.Failed, "`cloud up` mends it", errors.New("the platform is not ready"))
			}
			return nil
		},
	}
	targetFlags(cmd, &options.Target)
	cmd.Flags().DurationVar(&timeout, "timeout", 30*time.Second, "`time` after which to give up")
	return cmd
}

func view(report *Report) output.View {
	v := output.View{Value: report}
	table := output.Table{Header: []string{"COMPONENT", "READY", "VERSION", "MESSAGE"}}
	for _, c := range report.Components {
		ready := "no"
		if c.Ready {
			ready = "yes"
		}
		table.Rows = append(table.Rows, []string{c.Name, ready, output.Or(c.Version), c.Message})
		v.Names = append(v.Names, c.Name)
	}
	v.Table = []output.Section{{Table: table}}
	return v
}

// silent shows nothing: the report is the answer.
type silent struct{}

// Step implements Progress.
func (silent) Step(string) {}

// Report implements Progress.
func (silent) Report(string) {}
