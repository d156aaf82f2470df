package offer

import (
	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// PresetsCommand is `cloud presets`.
func PresetsCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "presets", Short: "List the sizes of control-plane components",
		Args: command.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			offered, err := s.Catalogue(cmd.Context())
			if err != nil {
				return err
			}
			view := output.View{Value: offered.Presets}
			table := output.Table{Header: []string{"NAME", "CPU", "MEMORY"}}
			for _, preset := range offered.Presets {
				view.Names = append(view.Names, string(preset.Name))
				table.Rows = append(table.Rows, []string{string(preset.Name), preset.CPU.String(), preset.Memory.String()})
			}
			view.Table = []output.Section{{Table: table}}
			return s.Printer().Print(view)
		},
	}
}
