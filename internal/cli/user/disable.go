package user

import (
	"fmt"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

func disable(s *session.Session, kind *resource.Kind[*v1alpha1.User]) *cobra.Command {
	var undo bool
	cmd := &cobra.Command{
		Use: "disable USER", Short: "Keep a user out, or with --undo let the user in again",
		Long:              "disable refuses logins of the user, and whatever the user holds, within seconds.",
		Args:              command.Exactly("USER"),
		ValidArgsFunction: kind.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			user, err := kind.Fetch(ctx, s, args[0])
			if err != nil {
				return err
			}
			api, err := s.Client(ctx)
			if err != nil {
				return err
			}
			before := user.DeepCopy()
			user.Spec.Disabled = !undo
			if err := api.Patch(ctx, user, client.MergeFrom(before)); err != nil {
				return fmt.Errorf("disable user %s: %w", user.Name, err)
			}
			if undo {
				s.Note("user %s may log in again", user.Name)
			} else {
				s.Note("user %s is disabled", user.Name)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&undo, "undo", false, "let the user in again")
	return cmd
}
