package auth

import (
	"fmt"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/config"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// Logout is the command.
func Logout(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "logout", Short: "End the session in the current context",
		Long: "logout ends the session, here and at the identity service. Where that cannot be reached the session is forgotten here\n" +
			"all the same, and the command fails.",
		Args: command.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			chosen, err := s.Context()
			if err != nil {
				return err
			}
			store, err := s.Store()
			if err != nil {
				return err
			}
			token, err := store.Token(chosen.Name)
			if err != nil {
				return err
			}
			if token == (config.Token{}) {
				s.Note("you are not logged in to %s", chosen.Name)
				return nil
			}
			if err := keep(ctx, s, chosen.Name, config.Token{}); err != nil {
				return fmt.Errorf("forget the session: %w", err)
			}
			if token.RefreshToken != "" && chosen.IAM != "" {
				service, err := s.IAM()
				if err != nil {
					return err
				}
				if err := service.Logout(ctx, token.AccessToken, token.RefreshToken); err != nil && exit.Of(err) != exit.LoggedOut {
					return fmt.Errorf("the session is forgotten here, but may live on: %w", err)
				}
			}
			s.Note("logged out of %s", chosen.Name)
			return nil
		},
	}
}
