package project

import (
	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

func list(s *session.Session, kind *resource.Kind[*v1alpha1.Project]) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the projects that you may see",
		Args: command.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			projects, err := visible(cmd.Context(), s, kind)
			if err != nil {
				return err
			}
			return kind.Print(s, projects, false)
		},
	}
}
