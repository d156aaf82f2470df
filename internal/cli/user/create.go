package user

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/org"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
	"plasmacloud.io/plasmacloud/internal/iam/wire"
)

type creation struct {
	resource.Creation
	email, organization             string
	serviceAccount                  bool
	organizationAdmin, platformRoot bool
	memberships                     []string
	passwordStdin, noPassword       bool
}

func create(s *session.Session, kind *resource.Kind[*v1alpha1.User]) *cobra.Command {
	var c creation
	cmd := &cobra.Command{
		Use: "create [NAME]", Short: "Create a user",
		Long: "create makes a person, who logs in with an e-mail address and a password, or with --service-account a program, which\n" +
			"uses access tokens (`cloud token create --user`). The password is asked for, or read with --password-stdin.",
		Example: "  cloud user create ada --email ada@example.com --org acme --member web=admin\n" +
			"  cloud user create ci --service-account --org acme --member web",
		Args: command.AtMostOne("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			object, err := resource.Load(cmd, s, kind, &c.Creation, args)
			if err != nil {
				return err
			}
			if err := c.describe(ctx, s, &object.Spec); err != nil {
				return err
			}
			password := ""
			if !c.serviceAccount && !c.noPassword && !c.Export && !c.DryRun.On() {
				if password, err = newPassword(ctx, s, c.passwordStdin); err != nil {
					return err
				}
			}
			if err := kind.Create(ctx, s, object, &c.Creation); err != nil || password == "" {
				return err
			}
			if err := firstPassword(ctx, s, object.Name, password); err != nil {
				return exit.With(exit.Of(err), fmt.Sprintf("the user is there; try again with `cloud user passwd %s`", object.Name), err)
			}
			return nil
		},
	}
	c.AddTo(cmd, "user")
	set := cmd.Flags()
	set.StringVar(&c.email, "email", "", "`address` that a person logs in with")
	set.StringVar(&c.organization, "org", "", "`organization` that the user belongs to; yours where it is not given")
	set.BoolVar(&c.serviceAccount, "service-account", false, "make a program, not a person")
	set.StringArrayVar(&c.memberships, "member", nil, "`project[=role]` that the user works in, with role admin, member or viewer; repeatable")
	set.BoolVar(&c.organizationAdmin, "org-admin", false, "may do everything in the organization")
	set.BoolVar(&c.platformRoot, "platform-admin", false, "may do everything")
	set.BoolVar(&c.passwordStdin, "password-stdin", false, "read the password from standard input")
	set.BoolVar(&c.noPassword, "no-password", false, "set no password yet")
	org.Kind().CompleteFlag(s, cmd, "org")
	return cmd
}

// firstPassword sets the password of a user whom the identity service may hear of a moment later only. Until then it
// refuses, in the way it refuses what is somebody else's.
func firstPassword(ctx context.Context, s *session.Session, name, password string) error {
	var err error
	_ = wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 5*time.Second, true, func(ctx context.Context) (bool, error) {
		err = setPassword(ctx, s, wire.PasswordRequest{User: name, New: password})
		return !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err), nil
	}) // the last attempt's error says more than that the time is up
	return err
}

// describe puts what was given into the spec.
func (c *creation) describe(ctx context.Context, s *session.Session, spec *v1alpha1.UserSpec) (err error) {
	spec.Kind, spec.Email = v1alpha1.UserPerson, c.email
	switch {
	case c.passwordStdin && c.noPassword:
		return exit.Usagef("--password-stdin and --no-password contradict each other")
	case c.serviceAccount && c.passwordStdin:
		return exit.Usagef("--password-stdin: a service account has no password, but access tokens")
	case c.serviceAccount && c.email != "":
		return exit.Usagef("--email: a service account has no e-mail address")
	case c.serviceAccount && len(c.memberships) != 1:
		return exit.Usagef("--member: a service account belongs to exactly one project")
	case c.serviceAccount:
		spec.Kind = v1alpha1.UserServiceAccount
	case c.email == "":
		return exit.Usagef("--email is missing; a person logs in with it")
	}
	spec.OrganizationAdmin, spec.PlatformAdmin = c.organizationAdmin, c.platformRoot
	for _, text := range c.memberships {
		membership, err := parse(text)
		if err != nil {
			return err
		}
		spec.Projects = append(spec.Projects, membership)
	}
	spec.Organization, err = org.OrMine(ctx, s, c.organization)
	return err
}

// parse reads project[=role].
func parse(text string) (v1alpha1.Membership, error) {
	project, role, found := strings.Cut(text, "=")
	if project == "" {
		return v1alpha1.Membership{}, exit.Usagef("--member: %q names no project; it looks like web=admin", text)
	}
	membership := v1alpha1.Membership{Project: project}
	if found {
		word, err := command.OneOf("member", role, string(v1alpha1.RoleAdmin), string(v1alpha1.RoleMember), string(v1alpha1.RoleViewer))
		if err != nil {
			return membership, err
		}
		membership.Role = v1alpha1.Role(word)
	}
	return membership, nil
}
