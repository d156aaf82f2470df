package org

import (
	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// list shows all organizations to those who run the platform, and to others their own.
func list(s *session.Session, kind *resource.Kind[*v1alpha1.Organization]) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the organizations that you may see",
		Args: command.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx := cmd.Context()
			seen, err := kind.Items(ctx, s)
			if apierrors.IsForbidden(err) {
				me, ask := s.Whoami(ctx)
				if ask != nil {
					return err
				}
				own, ask := kind.Fetch(ctx, s, me.Organization)
				if ask != nil {
					return ask
				}
				seen, err = []*v1alpha1.Organization{own}, nil
			}
			if err != nil {
				return err
			}
			return kind.Print(s, seen, false)
		},
	}
}
