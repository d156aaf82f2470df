package token

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

func revoke(s *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "revoke TOKEN…", Short: "End access tokens, for good",
		Args:              command.AtLeastOne("TOKEN"),
		ValidArgsFunction: complete(s),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			client, token, err := service(ctx, s)
			if err != nil {
				return err
			}
			var failures []error
			for _, name := range args {
				if err := client.RevokeToken(ctx, token, name); err != nil {
					failures = append(failures, fmt.Errorf("revoke access token %s: %w", name, err))
					continue
				}
				s.Note("access token %s revoked", name)
			}
			return errors.Join(failures...)
		},
	}
}

// complete completes names of the user's own tokens.
func complete(s *session.Session) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), 3*time.Second)
		defer cancel()
		client, token, err := service(ctx, s)
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		tokens, err := client.ListTokens(ctx, token, "")
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var names []string
		for _, t := range tokens {
			if !t.Revoked {
				names = append(names, t.Name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
