package auth

import (
	"encoding/json"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientauthentication "k8s.io/client-go/pkg/apis/clientauthentication/v1"

	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/config"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// Credential is the command.
func Credential(s *session.Session) *cobra.Command {
	var cluster string
	cmd := &cobra.Command{
		Use: "credential", Short: "Print the session for kubectl, which runs this by itself",
		Long: "credential is a credential plugin of client.authentication.k8s.io/v1: it prints the token of the context's session,\n" +
			"refreshed where it has to be, or with --cluster one for a cluster in a cloud. Kubeconfigs that `cloud kubeconfig` and\n" +
			"`cloud k8s kubeconfig` write run it.",
		Args: command.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			token, err := s.Token(cmd.Context())
			if err != nil {
				return err
			}
			if cluster != "" {
				access, err := s.ClusterAccess(cmd.Context(), cluster)
				if err != nil {
					return err
				}
				token = config.Token{AccessToken: access.Token, ExpiresAt: access.ExpiresAt}
			}
			answer := clientauthentication.ExecCredential{
				TypeMeta: metav1.TypeMeta{APIVersion: clientauthentication.SchemeGroupVersion.String(), Kind: "ExecCredential"},
				Status:   &clientauthentication.ExecCredentialStatus{Token: token.AccessToken},
			}
			if !token.ExpiresAt.IsZero() {
				answer.Status.ExpirationTimestamp = &metav1.Time{Time: token.ExpiresAt}
			}
			return json.NewEncoder(s.Out).Encode(answer)
		},
	}
	cmd.Flags().StringVar(&cluster, "cluster", "", "for this `cluster` of the project, which is in a cloud")
	return cmd
}
