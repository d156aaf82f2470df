package contexts

import (
	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/config"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

func use(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "use CONTEXT", Short: "Choose the context that commands work with",
		Args:              command.Exactly("CONTEXT"),
		ValidArgsFunction: Complete(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			store, err := s.Store()
			if err != nil {
				return err
			}
			err = store.Update(cmd.Context(), func(file *config.File) error {
				if file.Find(args[0]) == nil {
					return missing(file, args[0])
				}
				file.CurrentContext = args[0]
				return nil
			})
			if err == nil {
				s.Note("commands work with context %s now", args[0])
			}
			return err
		},
	}
}
