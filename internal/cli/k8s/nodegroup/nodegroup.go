// Package nodegroup is the commands about the groups of a cluster's worker nodes: `cloud k8s nodegroup`. The groups are
// part of the cluster's spec, which is what these commands change; what became of them is in NodeGroup objects.
package nodegroup

import (
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/k8s"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// Kind is node groups.
func Kind() *resource.Kind[*v1alpha1.NodeGroup] {
	return &resource.Kind[*v1alpha1.NodeGroup]{
		Name: "NodeGroup", Noun: "node group", Plural: "node groups",
		New:     func() *v1alpha1.NodeGroup { return &v1alpha1.NodeGroup{} },
		NewList: func() client.ObjectList { return &v1alpha1.NodeGroupList{} },
		Columns: []resource.Column[*v1alpha1.NodeGroup]{
			resource.Text("CLUSTER", func(g *v1alpha1.NodeGroup) string { return g.Spec.Cluster }),
			resource.Text("DESIRED", func(g *v1alpha1.NodeGroup) string { return strconv.Itoa(int(g.Spec.Replicas)) }),
			resource.Text("READY", func(g *v1alpha1.NodeGroup) string { return strconv.Itoa(int(g.Status.ReadyReplicas)) }),
			resource.Text("TYPE", func(g *v1alpha1.NodeGroup) string { return g.Spec.Template.InstanceType }),
			resource.Text("VERSION", func(g *v1alpha1.NodeGroup) string { return g.Spec.Version }),
			resource.Text("STATUS", func(g *v1alpha1.NodeGroup) string { return string(g.Status.Phase) }),
			resource.Age[*v1alpha1.NodeGroup](),
		},
		Conditions: func(g *v1alpha1.NodeGroup) []metav1.Condition { return g.Status.Conditions },
	}
}

// Command is the group.
func Command(s *session.Session) *cobra.Command {
	clusters := k8s.Kind()
	return command.Alias(command.Group("nodegroup", "Groups of a cluster's worker nodes",
		add(s, clusters), list(s, clusters), remove(s, clusters)), "nodegroups", "ng")
}

// complete completes the name of a cluster, and then the names of its groups.
func complete(s *session.Session, clusters *resource.Kind[*v1alpha1.Cluster]) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
		switch len(args) {
		case 0:
			return clusters.Complete(s, 1)(cmd, args, word)
		case 1:
			cluster, err := clusters.Fetch(cmd.Context(), s, args[0])
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			return slices.Sorted(maps.Keys(cluster.Spec.NodeGroups)), cobra.ShellCompDirectiveNoFileComp
		default:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
	}
}
