package k8s

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

type scaling struct {
	resource.Waiting
	dryRun                           resource.DryRun
	group                            string
	replicas, workers, least, mostly int32
}

func scale(s *session.Session, kind *resource.Kind[*v1alpha1.Cluster]) *cobra.Command {
	var sc scaling
	cmd := &cobra.Command{
		Use: "scale CLUSTER", Short: "Change the number of nodes of a cluster",
		Long: "scale changes the number of nodes of a node group: of the one that --group names, or of the only one. --min and --max\n" +
			"change the bounds that the number has to stay within.",
		Example:           "  cloud k8s scale dev-cluster --replicas 5\n  cloud k8s scale big --group web --replicas 12 --max 20 --wait",
		Args:              command.Exactly("CLUSTER"),
		ValidArgsFunction: kind.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			if err := sc.check(cmd); err != nil {
				return err
			}
			cluster, err := kind.Fetch(ctx, s, args[0])
			if err != nil {
				return err
			}
			if err := Require(ctx, s, cluster.Spec.Type, catalogue.CanScale, "scale clusters"); err != nil {
				return err
			}
			name, err := Group(cluster, sc.group)
			if err != nil {
				return err
			}
			template := cluster.Spec.NodeGroups[name]
			if err := sc.apply(cmd, &template); err != nil {
				return err
			}
			change := map[string]any{"replicas": template.Replicas, "minReplicas": template.MinReplicas, "maxReplicas": template.MaxReplicas}
			return Change(ctx, s, kind, cluster, ChangeOptions{
				Group: name, Value: change, Operation: v1alpha1.OperationScale, DryRun: &sc.dryRun, Waiting: &sc.Waiting,
				Done: fmt.Sprintf("node group %s of cluster %s shall have %d nodes", name, cluster.Name, replicasOf(template)),
			})
		},
	}
	set := cmd.Flags()
	set.StringVar(&sc.group, "group", "", "node `group`; the only one where it is not given")
	set.Int32Var(&sc.replicas, "replicas", 0, "`number` of nodes")
	set.Int32Var(&sc.workers, "workers", 0, "`number` of nodes of the group workers: the same as --group workers --replicas")
	set.Int32Var(&sc.least, "min", 0, "least `number` of nodes")
	set.Int32Var(&sc.mostly, "max", 0, "greatest `number` of nodes")
	sc.dryRun.AddTo(cmd)
	sc.AddTo(cmd, "the nodes are there, or gone")
	return cmd
}

// check looks at the flags by themselves.
func (sc *scaling) check(cmd *cobra.Command) error {
	if err := sc.Waiting.Check(cmd); err != nil {
		return err
	}
	changed := cmd.Flags().Changed
	if changed("workers") {
		if changed("replicas") || changed("group") {
			return exit.Usagef("--workers is the same as --group workers --replicas; give one or the other")
		}
		sc.group, sc.replicas = "workers", sc.workers
	}
	if !changed("replicas") && !changed("workers") && !changed("min") && !changed("max") {
		return exit.Usagef("--replicas is missing")
	}
	for flag, value := range map[string]int32{"replicas": sc.replicas, "min": sc.least, "max": sc.mostly} {
		if value < 0 || value > 1000 {
			return exit.Usagef("--%s: %d is not between 0 and 1000", flag, value)
		}
	}
	return nil
}

// apply puts the numbers into the group. Where only bounds are given, the number of nodes is kept within them.
func (sc *scaling) apply(cmd *cobra.Command, group *v1alpha1.NodeGroupTemplate) error {
	changed := cmd.Flags().Changed
	if changed("min") {
		group.MinReplicas = sc.least
	}
	if changed("max") {
		group.MaxReplicas = sc.mostly
	}
	replicas := replicasOf(*group)
	if changed("replicas") || changed("workers") {
		replicas = sc.replicas
	} else {
		replicas = min(max(replicas, group.MinReplicas), group.MaxReplicas)
	}
	group.Replicas = &replicas
	if err := Bound(group); err != nil {
		return exit.With(exit.Refused, "change the bounds too, with --min and --max", err)
	}
	return nil
}

func replicasOf(group v1alpha1.NodeGroupTemplate) int32 {
	if group.Replicas != nil {
		return *group.Replicas
	}
	return group.MinReplicas
}

// ChangeOptions are a change to one node group of a cluster.
type ChangeOptions struct {
	Group     string
	Value     any // the group's new fields; nil takes the group away
	Operation v1alpha1.Operation
	DryRun    *resource.DryRun
	Waiting   *resource.Waiting
	Done      string // what to say then
}

// Change changes a node group in a cluster's spec, unless somebody else has changed that since it was read. That its status
// was written meanwhile, which happens all the time while something is being made, does not matter.
func Change(ctx context.Context, s *session.Session, kind *resource.Kind[*v1alpha1.Cluster], cluster *v1alpha1.Cluster, o ChangeOptions) error {
	api, err := s.Client(ctx)
	if err != nil {
		return err
	}
	var opts []client.PatchOption
	if o.DryRun.On() {
		opts = append(opts, client.DryRunAll)
	}
	statusOnly := false
	err = retry.OnError(retry.DefaultBackoff, func(error) bool { return statusOnly }, func() error {
		statusOnly = false
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"resourceVersion": cluster.ResourceVersion},
			"spec":     map[string]any{"nodeGroups": map[string]any{o.Group: o.Value}},
		})
		if err != nil {
			return err
		}
		conflict := api.Patch(ctx, cluster, client.RawPatch(types.MergePatchType, patch), opts...)
		if !apierrors.IsConflict(conflict) {
			return conflict
		}
		latest := &v1alpha1.Cluster{}
		if err := api.Get(ctx, client.ObjectKeyFromObject(cluster), latest); err != nil {
			return err
		}
		statusOnly = latest.Generation == cluster.Generation && latest.UID == cluster.UID
		cluster = latest
		return conflict
	})
	if err != nil {
		return fmt.Errorf("change node group %s of cluster %s: %w", o.Group, cluster.Name, err)
	}
	s.Note("%s%s", o.Done, o.DryRun.Note())
	if !o.Waiting.Wait || o.DryRun.On() {
		return nil
	}
	return kind.Await(ctx, s, cluster, o.Operation, o.Waiting.Timeout)
}
