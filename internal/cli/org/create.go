package org

import (
	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/quota"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

func create(s *session.Session, kind *resource.Kind[*v1alpha1.Organization]) *cobra.Command {
	var creation resource.Creation
	var title, limits string
	cmd := &cobra.Command{
		Use: "create [NAME]", Short: "Create an organization",
		Example: "  cloud org create acme --display-name 'Acme Inc.' --quota clusters=20,nodes=100",
		Args:    command.AtMostOne("NAME"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			object, err := resource.Load(cmd, s, kind, &creation, args)
			if err != nil {
				return err
			}
			object.Spec.DisplayName = title
			if object.Spec.Quota, err = quota.Parse(limits); err != nil {
				return err
			}
			return kind.Create(cmd.Context(), s, object, &creation)
		},
	}
	creation.AddTo(cmd, "organization")
	cmd.Flags().StringVar(&title, "display-name", "", "`title` for people to read")
	cmd.Flags().StringVar(&limits, "quota", "", quota.Usage)
	return cmd
}
