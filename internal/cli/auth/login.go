package auth

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/config"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/iam"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// Login is the command.
func Login(s *session.Session) *cobra.Command {
	var email string
	var stdin bool
	cmd := &cobra.Command{
		Use: "login", Short: "Log in to the current context",
		Long: "login begins a session with an e-mail address and a password, which are asked for where they are not given. The session\n" +
			"is kept in a file of yours and refreshed as it is used, until `cloud logout`. Programs use access tokens instead:\n" +
			"see `cloud token create` and PLASMACLOUD_TOKEN.",
		Example: "  cloud login --email ada@example.com\n  cloud login --email ada@example.com --password-stdin < password",
		Args:    command.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			chosen, err := s.Context()
			if err != nil {
				return err
			}
			service, err := s.IAM()
			if err != nil {
				return err
			}
			if email == "" {
				email = chosen.User
			}
			email, password, err := credentials(ctx, s, email, stdin)
			if err != nil {
				return err
			}
			begun, err := service.Login(ctx, email, password)
			if apierrors.IsUnauthorized(err) {
				return exit.With(exit.LoggedOut, "mind the spelling; an administrator can set another password with `cloud user passwd`", err)
			}
			if err != nil {
				return fmt.Errorf("log in: %w", err)
			}
			token := config.Token{AccessToken: begun.AccessToken, ExpiresAt: begun.ExpiresAt, RefreshToken: begun.RefreshToken}
			if err := keep(ctx, s, chosen.Name, token); err != nil {
				return fmt.Errorf("keep the session: %w", err)
			}
			return settle(ctx, s, service, chosen.Name, email, token)
		},
	}
	cmd.Flags().StringVarP(&email, "email", "u", "", "`address` to log in with; the last one where it is not given")
	cmd.Flags().BoolVar(&stdin, "password-stdin", false, "read the password from standard input")
	return cmd
}

// credentials asks for what is missing.
func credentials(ctx context.Context, s *session.Session, email string, stdin bool) (string, string, error) {
	person := s.Terminal.In && !stdin
	if !person && !stdin {
		return "", "", exit.With(exit.Usage, "give the password with --password-stdin, or use an access token", errors.New("there is no terminal to ask for a password on"))
	}
	if !person && email == "" {
		return "", "", exit.Usagef("--email is missing")
	}
	var err error
	if email == "" {
		if email, err = s.Ask(ctx, "E-mail"); err != nil {
			return "", "", err
		}
	}
	if stdin {
		password, err := s.ReadSecret(ctx)
		return email, password, err
	}
	password, err := s.AskPassword("Password of " + email)
	return email, password, err
}

// settle remembers who logged in, and chooses the project where there is one only.
func settle(ctx context.Context, s *session.Session, service *iam.Client, name, email string, token config.Token) error {
	me, err := service.Whoami(ctx, token.AccessToken)
	if err != nil {
		return fmt.Errorf("ask who you are: %w", err)
	}
	store, err := s.Store()
	if err != nil {
		return err
	}
	project := ""
	err = store.Update(ctx, func(file *config.File) error {
		chosen := file.Find(name)
		if chosen == nil {
			return nil // somebody removed it meanwhile
		}
		chosen.User = email
		if chosen.Project == "" && len(me.Projects) == 1 {
			chosen.Project = me.Projects[0].Project
		}
		project = chosen.Project
		return nil
	})
	if err != nil {
		return err
	}
	s.Note("logged in to %s as %s", name, email)
	if project == "" {
		s.Note("choose a project with `cloud project use`")
	}
	return nil
}
