package token

import (
	"fmt"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/session"
	"plasmacloud.io/plasmacloud/internal/cli/user"
	"plasmacloud.io/plasmacloud/internal/iam/wire"
)

func list(s *session.Session) *cobra.Command {
	var owner string
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List access tokens",
		Args: command.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			client, token, err := service(ctx, s)
			if err != nil {
				return err
			}
			tokens, err := client.ListTokens(ctx, token, owner)
			if err != nil {
				return fmt.Errorf("list access tokens: %w", err)
			}
			if len(tokens) == 0 && s.Flags.Output == output.FormatTable {
				s.Note("there are no access tokens")
				return nil
			}
			view := output.View{Value: wire.TokenList{Items: tokens}, Table: []output.Section{{Table: output.Table{Header: header()}}}}
			for _, t := range tokens {
				view.Names = append(view.Names, t.Name)
				view.Table[0].Table.Rows = append(view.Table[0].Table.Rows, row(t, s.Now()))
			}
			return s.Printer().Print(view)
		},
	}
	cmd.Flags().StringVar(&owner, "user", "", "`user` whose tokens to list; your own where it is not given")
	user.Kind().CompleteFlag(s, cmd, "user")
	return cmd
}
