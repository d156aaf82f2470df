package project

import (
	"context"
	"slices"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/config"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
	"plasmacloud.io/plasmacloud/internal/iam/wire"
)

func use(s *session.Session, kind *resource.Kind[*v1alpha1.Project]) *cobra.Command {
	return &cobra.Command{
		Use: "use PROJECT", Short: "Choose the project that commands work in",
		Args:              command.Exactly("PROJECT"),
		ValidArgsFunction: kind.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if err := exists(ctx, s, kind, args[0]); err != nil {
				return err
			}
			return remember(ctx, s, args[0])
		},
	}
}

// exists checks that there is such a project, as far as the user may know.
func exists(ctx context.Context, s *session.Session, kind *resource.Kind[*v1alpha1.Project], name string) error {
	_, err := kind.Fetch(ctx, s, name)
	if !apierrors.IsForbidden(err) {
		return err
	}
	me, ask := s.Whoami(ctx)
	if ask != nil {
		return err
	}
	if slices.ContainsFunc(me.Projects, func(m wire.Membership) bool { return m.Project == name }) {
		return nil
	}
	var mine []string
	for _, membership := range me.Projects {
		mine = append(mine, membership.Project)
	}
	return exit.Refusedf("`cloud project list` lists yours", "you are no member of a project %q%s", name, command.DidYouMean(name, mine, ""))
}

func remember(ctx context.Context, s *session.Session, project string) error {
	chosen, err := s.Context()
	if err != nil {
		return err
	}
	store, err := s.Store()
	if err != nil {
		return err
	}
	err = store.Update(ctx, func(file *config.File) error {
		if current := file.Find(chosen.Name); current != nil {
			current.Project = project
		}
		return nil
	})
	if err == nil {
		s.Note("commands work in project %s now", project)
	}
	return err
}
