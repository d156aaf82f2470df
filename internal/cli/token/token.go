// Package token is the commands about access tokens, which let programs in without a password. The identity service
// makes and keeps them; a token itself is shown once.
package token

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/iam"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/session"
	"plasmacloud.io/plasmacloud/internal/iam/wire"
)

// Command is the group.
func Command(s *session.Session) *cobra.Command {
	return command.Alias(command.Group("token", "Access tokens, which let programs in without a password",
		create(s), list(s), revoke(s)), "tokens")
}

// service is the identity service, and the token that the user shows it.
func service(ctx context.Context, s *session.Session) (*iam.Client, string, error) {
	client, err := s.IAM()
	if err != nil {
		return nil, "", err
	}
	token, err := s.Token(ctx)
	return client, token.AccessToken, err
}

// Columns of the table: those of kubectl, and the project.
func header() []string {
	return []string{"NAME", "USER", "DESCRIPTION", "PROJECT", "EXPIRES", "REVOKED", "LAST USED", "AGE"}
}

func row(t wire.Token, now time.Time) []string {
	used := "never"
	if t.LastUsed != nil {
		used = output.Age(now, metav1.NewTime(*t.LastUsed)) + " ago"
	}
	var expires *metav1.Time
	if t.ExpiresAt != nil {
		expires = &metav1.Time{Time: *t.ExpiresAt}
	}
	return []string{
		t.Name, t.User, output.Or(t.Description), output.Or(t.Project), output.Until(now, expires),
		strconv.FormatBool(t.Revoked), used, output.Age(now, metav1.NewTime(t.CreatedAt)),
	}
}
