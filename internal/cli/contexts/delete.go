package contexts

import (
	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/config"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

func remove(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "delete CONTEXT", Aliases: []string{"rm"}, Short: "Forget a context and its session",
		Long:              "delete forgets how to reach an installation. The installation itself stays as it is.",
		Args:              command.Exactly("CONTEXT"),
		ValidArgsFunction: Complete(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			store, err := s.Store()
			if err != nil {
				return err
			}
			err = store.Update(ctx, func(file *config.File) error {
				if !file.Remove(args[0]) {
					return missing(file, args[0])
				}
				return nil
			})
			if err != nil {
				return err
			}
			_, err = store.UpdateToken(ctx, args[0], func(config.Token) (config.Token, error) { return config.Token{}, nil })
			s.Note("context %s is forgotten", args[0])
			return err
		},
	}
}
