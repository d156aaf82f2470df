package auth

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/session"
	"plasmacloud.io/plasmacloud/internal/iam/wire"
)

// Whoami is the command.
func Whoami(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "whoami", Short: "Tell who you are, and what you may do",
		Args: command.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			me, err := s.Whoami(cmd.Context())
			if err != nil {
				return fmt.Errorf("ask who you are: %w", err)
			}
			chosen, err := s.Context()
			if err != nil {
				return err
			}
			about := [][]string{
				{"Name:", me.Name}, {"Kind:", me.Kind}, {"Email:", output.Or(me.Email)}, {"Organization:", output.Or(me.Organization)},
				{"Roles:", strings.Join(roles(me), ", ")}, {"Username:", me.Username}, {"Groups:", strings.Join(me.Groups, ", ")},
				{"Context:", chosen.Name}, {"Project:", output.Or(chosen.Project)},
			}
			return s.Printer().Print(output.View{Value: me, Names: []string{me.Name}, Table: []output.Section{{Table: output.Table{Rows: about}}}})
		},
	}
}

func roles(me *wire.Identity) []string {
	var roles []string
	if me.PlatformAdmin {
		roles = append(roles, "platform administrator")
	}
	if me.OrganizationAdmin {
		roles = append(roles, "organization administrator")
	}
	for _, membership := range me.Projects {
		roles = append(roles, membership.Role+" of project "+membership.Project)
	}
	if len(roles) == 0 {
		return []string{"none"}
	}
	return roles
}
