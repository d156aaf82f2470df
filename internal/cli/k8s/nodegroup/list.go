package nodegroup

import (
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

func list(s *session.Session, clusters *resource.Kind[*v1alpha1.Cluster]) *cobra.Command {
	return &cobra.Command{
		Use: "list [CLUSTER]", Aliases: []string{"ls"}, Short: "List node groups, of one cluster or of all in the project",
		Args:              command.AtMostOne("CLUSTER"),
		ValidArgsFunction: clusters.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			namespace, err := s.Namespace()
			if err != nil {
				return err
			}
			opts := []client.ListOption{client.InNamespace(namespace)}
			if len(args) == 1 {
				if _, err := clusters.Fetch(ctx, s, args[0]); err != nil {
					return err
				}
				opts = append(opts, client.MatchingFields{"spec.cluster": args[0]})
			}
			kind := Kind()
			items, err := kind.Items(ctx, s, opts...)
			if err != nil {
				return err
			}
			return kind.Print(s, items, false)
		},
	}
}
