package account

import (
	"crypto/rand"
	"fmt"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/atomicfile"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// deployerTokenPrefix tells what a token is for, to people and to programs that look for secrets in the wrong places.
const deployerTokenPrefix = "pcd_"

func deployerToken(s *session.Session, kind *resource.Kind[*v1alpha1.Account]) *cobra.Command {
	var replace bool
	var caFile string
	cmd := &cobra.Command{
		Use: "deployer-token ACCOUNT", Short: "Make a token for deployers that run elsewhere",
		Long: "deployer-token makes a token that deployers in a network of yours come to the platform with, for the tasks of this account,\n" +
			"and prints it. It is shown this once: the account keeps its hash. The account has to leave its work to such deployers:\n" +
			"`cloud account create --remote-deployer`.",
		Example: "  cloud account deployer-token prod --ca-file ca.crt > token\n" +
			"  cloudd deployer --server https://platform.example.com:31445 --account shop/prod --token-file token --ca-file ca.crt --work-dir /var/lib/deployer",
		Args:              command.Exactly("ACCOUNT"),
		ValidArgsFunction: kind.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			account, err := kind.Fetch(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			if !account.Spec.Remote() {
				return exit.Refusedf("set its spec.deployer.remote", "account %s leaves its work to the platform's own deployers", account.Name)
			}
			if caFile != "" {
				chosen, err := s.Context()
				if err != nil {
					return err
				}
				if err := atomicfile.Write(caFile, []byte(chosen.CA), 0o644); err != nil {
					return exit.Usagef("--ca-file: %w", err)
				}
			}
			token := deployerTokenPrefix + rand.Text() + rand.Text()
			if replace {
				account.Spec.Deployer.Tokens = nil
			}
			account.Spec.Deployer.Tokens = append(account.Spec.Deployer.Tokens, v1alpha1.HashDeployerToken(token))
			api, err := s.Client(cmd.Context())
			if err != nil {
				return err
			}
			if err := api.Update(cmd.Context(), account); err != nil {
				return err
			}
			if _, err := fmt.Fprintln(s.Out, token); err != nil {
				return err
			}
			s.Note("account %s admits it, and %d in all", account.Name, len(account.Spec.Deployer.Tokens))
			return nil
		},
	}
	cmd.Flags().BoolVar(&replace, "replace", false, "let no other token be good for the account any more")
	cmd.Flags().StringVar(&caFile, "ca-file", "", "`file` to write the certificate authorities to that the platform is known by")
	_ = cmd.MarkFlagFilename("ca-file")
	return cmd
}
