package token

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/session"
	"plasmacloud.io/plasmacloud/internal/cli/user"
	"plasmacloud.io/plasmacloud/internal/iam/wire"
)

func create(s *session.Session) *cobra.Command {
	var request wire.TokenRequest
	var ttl time.Duration
	var confine string
	cmd := &cobra.Command{
		Use: "create", Short: "Make an access token, and print it",
		Long: "create makes an access token for yourself, or as an administrator for another user. The token is printed on standard\n" +
			"output, this once; PLASMACLOUD_TOKEN takes it.",
		Example: "  cloud token create --description 'nightly builds' --ttl 720h\n" +
			"  cloud token create --user ci > token",
		Args: command.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if ttl < 0 {
				return exit.Usagef("--ttl: give a time, such as 720h, or 0 for a token that does not expire")
			}
			if ttl > 0 {
				end := s.Now().Add(ttl).UTC()
				request.ExpiresAt = &end
			}
			request.Project = confine
			ctx := cmd.Context()
			client, token, err := service(ctx, s)
			if err != nil {
				return err
			}
			made, err := client.CreateToken(ctx, token, request)
			if err != nil {
				return fmt.Errorf("make an access token: %w", err)
			}
			s.Note("access token %s; it is shown this once", made.Name)
			if s.Flags.Output == output.FormatTable {
				_, err := fmt.Fprintln(s.Out, made.Token)
				return err
			}
			return s.Printer().Print(output.View{Value: made, Names: []string{made.Name}})
		},
	}
	set := cmd.Flags()
	set.StringVar(&request.User, "user", "", "`user` that it shall speak for; yourself where it is not given")
	set.StringVar(&request.Description, "description", "", "what it is for")
	set.StringVar(&confine, "confine-to", "", "only `project` that it is good for; all of the user's where it is not given")
	set.DurationVar(&ttl, "ttl", 0, "`time` after which it ends, such as 720h; never where it is not given")
	user.Kind().CompleteFlag(s, cmd, "user")
	return cmd
}
