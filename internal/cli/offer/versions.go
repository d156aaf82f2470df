package offer

import (
	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// VersionsCommand is `cloud versions`.
func VersionsCommand(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "versions", Short: "List the versions of Kubernetes that clusters can have",
		Args: command.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			offered, err := s.Catalogue(cmd.Context())
			if err != nil {
				return err
			}
			table := output.Table{Header: []string{"VERSION", "DEFAULT"}}
			for i, version := range offered.KubernetesVersions {
				mark := ""
				if i == 0 {
					mark = "*"
				}
				table.Rows = append(table.Rows, []string{version, mark})
			}
			return s.Printer().Print(output.View{Value: offered.KubernetesVersions, Names: offered.KubernetesVersions, Table: []output.Section{{Table: table}}})
		},
	}
}
