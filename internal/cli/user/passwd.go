package user

import (
	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
	"plasmacloud.io/plasmacloud/internal/iam/wire"
)

func passwd(s *session.Session, kind *resource.Kind[*v1alpha1.User]) *cobra.Command {
	var stdin bool
	cmd := &cobra.Command{
		Use: "passwd [USER]", Short: "Set a password",
		Long: "passwd sets your own password, for which it asks for the current one, or as an administrator another user's. All\n" +
			"sessions and tokens of the user end. With --password-stdin it reads the new password from standard input; for your\n" +
			"own, the current one comes first, on a line of its own.",
		Args:              command.AtMostOne("USER"),
		ValidArgsFunction: kind.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ctx := cmd.Context()
			request := wire.PasswordRequest{}
			if len(args) == 1 {
				request.User = args[0]
			} else if request.Current, err = current(cmd, s, stdin); err != nil {
				return err
			}
			if request.New, err = newPassword(ctx, s, stdin); err != nil {
				return err
			}
			if err := setPassword(ctx, s, request); err != nil {
				return err
			}
			if request.User == "" {
				s.Note("the password is set; log in again with `cloud login`")
			} else {
				s.Note("the password of %s is set", request.User)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&stdin, "password-stdin", false, "read the password from standard input")
	return cmd
}

// current asks for the password that is good now.
func current(cmd *cobra.Command, s *session.Session, stdin bool) (string, error) {
	if stdin {
		return s.ReadSecret(cmd.Context())
	}
	if !s.Terminal.In {
		return "", exit.Usagef("there is no terminal to ask for passwords on; give them with --password-stdin")
	}
	return s.AskPassword("Current password")
}
