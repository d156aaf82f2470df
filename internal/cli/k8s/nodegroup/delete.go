package nodegroup

import (
	"fmt"

	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/k8s"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

func remove(s *session.Session, clusters *resource.Kind[*v1alpha1.Cluster]) *cobra.Command {
	var yes bool
	var dryRun resource.DryRun
	var waiting resource.Waiting
	cmd := &cobra.Command{
		Use: "delete CLUSTER GROUP", Aliases: []string{"rm"}, Short: "Delete a node group and its nodes",
		Args:              command.Exactly("CLUSTER", "GROUP"),
		ValidArgsFunction: complete(s, clusters),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if err := waiting.Check(cmd); err != nil {
				return err
			}
			cluster, err := clusters.Fetch(ctx, s, args[0])
			if err != nil {
				return err
			}
			name, err := k8s.Group(cluster, args[1])
			if err != nil {
				return err
			}
			if err := k8s.Require(ctx, s, cluster.Spec.Type, catalogue.CanScale, "change node groups of clusters"); err != nil {
				return err
			}
			if !yes && !dryRun.On() {
				sure, err := s.Confirm(ctx, fmt.Sprintf("Delete node group %s of cluster %s with its nodes?", name, cluster.Name))
				if err != nil {
					return err
				}
				if !sure {
					return exit.Refusedf("", "nothing was deleted")
				}
			}
			return k8s.Change(ctx, s, clusters, cluster, k8s.ChangeOptions{
				Group: name, Operation: v1alpha1.OperationUpdate, DryRun: &dryRun, Waiting: &waiting,
				Done: fmt.Sprintf("node group %s of cluster %s deleted", name, cluster.Name),
			})
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	dryRun.AddTo(cmd)
	waiting.AddTo(cmd, "the nodes are gone")
	return cmd
}
