package k8s

import (
	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

func repair(s *session.Session, kind *resource.Kind[*v1alpha1.Cluster]) *cobra.Command {
	var waiting resource.Waiting
	var agreement resource.Agreement
	var force bool
	cmd := &cobra.Command{
		Use: "repair CLUSTER", Short: "Bring a cluster back to what it should be",
		Long: "repair has everything that makes up a cluster looked at and mended. What failed before is tried anew. A repair that could\n" +
			"lose data, or the quorum of an etcd, is refused and says why; --force does it all the same. In a cloud, what may be lost\n" +
			"is agreed to by name, with --agree-to.",
		Args:              command.Exactly("CLUSTER"),
		ValidArgsFunction: kind.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if err := waiting.Check(cmd); err != nil {
				return err
			}
			cluster, err := kind.Fetch(ctx, s, args[0])
			if err != nil {
				return err
			}
			if err := Require(ctx, s, cluster.Spec.Type, catalogue.CanRepair, "repair clusters"); err != nil {
				return err
			}
			for _, risk := range risks(cluster) {
				if force {
					s.Note("it may be lost: %s", risk)
				}
			}
			return kind.AskRepair(ctx, s, cluster, v1alpha1.RepairRequest{At: s.Now(), Force: force}, &agreement, &waiting)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "repair though data or quorum may be lost")
	agreement.AddTo(cmd)
	waiting.AddTo(cmd, "it is repaired")
	return cmd
}
