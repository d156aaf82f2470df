package k8s

import (
	"github.com/spf13/cobra"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// planning is the flags of plan.
type planning struct {
	resource.Planning
	version, group string
	workers        int32
}

func plan(s *session.Session, kind *resource.Kind[*v1alpha1.Cluster]) *cobra.Command {
	var p planning
	cmd := &cobra.Command{
		Use: "plan CLUSTER", Short: "Tell what a change of a cluster in a cloud would do",
		Long:              resource.PlanHelp,
		Example:           "  cloud k8s plan shop --version v1.36\n  cloud k8s plan shop --workers 5 -o json",
		Args:              command.Exactly("CLUSTER"),
		ValidArgsFunction: kind.Complete(s, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cluster, err := kind.Fetch(cmd.Context(), s, args[0])
			if err != nil {
				return err
			}
			switch {
			case !cluster.Spec.Type.InCloud():
				return exit.Refusedf("`--dry-run=server` has the API look at a change of any cluster", "only clusters of type EKS, GKE and AKS are planned; %s is of type %s", cluster.Name, cluster.Spec.Type)
			case cluster.Status.ObservedGeneration == 0:
				return exit.Refusedf("wait until it is RUNNING", "cluster %s is not there yet", cluster.Name)
			}
			change, err := p.change(cmd, cluster)
			if err != nil {
				return err
			}
			return kind.Plan(cmd.Context(), s, cluster, change, p.Timeout)
		},
	}
	cmd.Flags().StringVar(&p.version, "version", "", "Kubernetes `version`, such as v1.36")
	cmd.Flags().Int32Var(&p.workers, "workers", 0, "`number` of nodes of a group: of the one that --group names, or of the only one")
	cmd.Flags().StringVar(&p.group, "group", "", "node `group` of --workers")
	p.AddTo(cmd)
	return cmd
}

// change is what the flags say.
func (p *planning) change(cmd *cobra.Command, cluster *v1alpha1.Cluster) (map[string]any, error) {
	change := map[string]any{}
	if p.version != "" {
		change["version"] = p.version
	}
	if p.group != "" && !cmd.Flags().Changed("workers") {
		return nil, exit.Usagef("--group is for --workers; give both, or none")
	}
	if cmd.Flags().Changed("workers") {
		name, err := Group(cluster, p.group)
		if err != nil {
			return nil, err
		}
		change["nodeGroups"] = map[string]any{name: map[string]any{"replicas": p.workers}}
	}
	return p.Patch(change)
}
