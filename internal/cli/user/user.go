// Package user is the commands about people and programs that use the platform.
package user

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
	"plasmacloud.io/plasmacloud/internal/iam/wire"
)

// Kind is users.
func Kind() *resource.Kind[*v1alpha1.User] {
	return &resource.Kind[*v1alpha1.User]{
		Name: "User", Noun: "user", Plural: "users", Global: true,
		New:     func() *v1alpha1.User { return &v1alpha1.User{} },
		NewList: func() client.ObjectList { return &v1alpha1.UserList{} },
		Columns: []resource.Column[*v1alpha1.User]{
			resource.Text("KIND", func(u *v1alpha1.User) string { return string(u.Spec.Kind) }),
			resource.Text("EMAIL", func(u *v1alpha1.User) string { return u.Spec.Email }),
			resource.Text("ORGANIZATION", func(u *v1alpha1.User) string { return u.Spec.Organization }),
			resource.Text("DISABLED", func(u *v1alpha1.User) string { return strconv.FormatBool(u.Spec.Disabled) }),
			resource.Age[*v1alpha1.User](),
		},
		Conditions: func(u *v1alpha1.User) []metav1.Condition { return u.Status.Conditions },
		Details:    roles,
	}
}

// Command is the group.
func Command(s *session.Session) *cobra.Command {
	kind := Kind()
	return command.Alias(command.Group("user", "People and programs that use the platform",
		create(s, kind), kind.List(s), kind.Get(s), kind.Delete(s), passwd(s, kind), disable(s, kind)), "users")
}

// roles are what the user may do.
func roles(u *v1alpha1.User, _ time.Time) []output.Section {
	table := output.Table{Indent: "  ", Header: []string{"ROLE", "IN"}}
	if u.Spec.PlatformAdmin {
		table.Rows = append(table.Rows, []string{"platform administrator", "everything"})
	}
	if u.Spec.OrganizationAdmin {
		table.Rows = append(table.Rows, []string{"organization administrator", u.Spec.Organization})
	}
	for _, membership := range u.Spec.Projects {
		table.Rows = append(table.Rows, []string{output.Or(string(membership.Role)), "project " + membership.Project})
	}
	if len(table.Rows) == 0 {
		return nil
	}
	return []output.Section{{Heading: "Roles:", Table: table}}
}

// newPassword asks for a password, from standard input or from a person, who gives it twice.
func newPassword(ctx context.Context, s *session.Session, stdin bool) (string, error) {
	if stdin {
		password, err := s.ReadSecret(ctx)
		if err == nil && password == "" {
			return "", exit.Usagef("--password-stdin: there is no password on standard input")
		}
		return password, err
	}
	if !s.Terminal.In {
		return "", exit.With(exit.Usage, "give it with --password-stdin", errors.New("there is no terminal to ask for a password on"))
	}
	password, err := s.AskPassword("New password")
	if err != nil {
		return "", err
	}
	again, err := s.AskPassword("The same again")
	if err != nil {
		return "", err
	}
	if password != again {
		return "", exit.Usagef("the two passwords differ")
	}
	return password, nil
}

// setPassword hands a password to the identity service.
func setPassword(ctx context.Context, s *session.Session, request wire.PasswordRequest) error {
	service, err := s.IAM()
	if err != nil {
		return err
	}
	token, err := s.Token(ctx)
	if err != nil {
		return err
	}
	if err := service.SetPassword(ctx, token.AccessToken, request); err != nil {
		return fmt.Errorf("set password: %w", err)
	}
	return nil
}
