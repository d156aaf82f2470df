package project

import (
	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/org"
	"plasmacloud.io/plasmacloud/internal/cli/quota"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

func create(s *session.Session, kind *resource.Kind[*v1alpha1.Project]) *cobra.Command {
	var creation resource.Creation
	var organization, title, limits string
	var choose bool
	cmd := &cobra.Command{
		Use: "create [NAME]", Short: "Create a project",
		Long: "create makes a project in an organization: your own, unless --org names another. With --wait it returns when the\n" +
			"project can be used; with --use it becomes the one that commands work in.",
		Example: "  cloud project create web --quota clusters=3,nodes=20 --wait --use",
		Args:    command.AtMostOne("NAME"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			ctx := cmd.Context()
			if err := creation.Waiting.Check(cmd); err != nil {
				return err
			}
			object, err := resource.Load(cmd, s, kind, &creation, args)
			if err != nil {
				return err
			}
			object.Spec.DisplayName = title
			if object.Spec.Quota, err = quota.Parse(limits); err != nil {
				return err
			}
			if object.Spec.Organization, err = org.OrMine(ctx, s, organization); err != nil {
				return err
			}
			if err := kind.Create(ctx, s, object, &creation); err != nil || !choose || creation.Export || creation.DryRun.On() {
				return err
			}
			return remember(ctx, s, object.Name)
		},
	}
	creation.AddTo(cmd, "project")
	creation.Waiting.AddTo(cmd, "the project can be used")
	cmd.Flags().StringVar(&organization, "org", "", "`organization` that owns it; yours where it is not given")
	cmd.Flags().StringVar(&title, "display-name", "", "`title` for people to read")
	cmd.Flags().StringVar(&limits, "quota", "", quota.Usage)
	cmd.Flags().BoolVar(&choose, "use", false, "make it the project that commands work in")
	org.Kind().CompleteFlag(s, cmd, "org")
	return cmd
}
