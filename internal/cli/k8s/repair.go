package k8s

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

func repair(s *session.Session, kind *resource.Kind[*v1alpha1.Cluster]) *cobra.Command {
	var waiting resource.Waiting
	var force bool
	cmd := &cobra.Command{
		Use: "repair CLUSTER", Short: "Bring a cluster back to what it should be",
		Long: "repair has everything that makes up a cluster looked at and mended. What failed before is tried anew. A repair that could\n" +
			"lose data, or the quorum of an etcd, is refused and says why; --force does it all the same.",
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
			api, err := s.Client(ctx)
			if err != nil {
				return err
			}
			target := kind.Target(cluster, v1alpha1.OperationRepair)
			target.Repair = v1alpha1.RepairRequest{At: s.Now(), Force: force}.String()
			if target.Earlier, err = tasks(ctx, api, cluster); err != nil {
				return err
			}
			if err := annotate(ctx, api, cluster, v1alpha1.AnnotationRepair, target.Repair); err != nil {
				return err
			}
			for _, risk := range risks(cluster) {
				if force {
					s.Note("it may be lost: %s", risk)
				}
			}
			s.Note("repair of cluster %s is asked for", cluster.Name)
			if !waiting.Wait {
				return nil
			}
			return resource.Await(ctx, s, target, waiting.Timeout)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "repair though data or quorum may be lost")
	waiting.AddTo(cmd, "it is repaired")
	return cmd
}

// tasks are those that a cluster has already, which are none of what comes.
func tasks(ctx context.Context, api client.Client, cluster *v1alpha1.Cluster) (map[types.UID]bool, error) {
	var list v1alpha1.TaskList
	if err := api.List(ctx, &list, client.InNamespace(cluster.Namespace), client.MatchingFields{"spec.resource.name": cluster.Name}); err != nil {
		return nil, fmt.Errorf("list tasks: %w", err)
	}
	have := map[types.UID]bool{}
	for _, task := range list.Items {
		have[task.UID] = true
	}
	return have, nil
}
