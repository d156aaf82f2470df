// Package k8s is the commands about clusters. The node groups of a cluster have a package of their own below this one.
package k8s

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/cli/command"
	"plasmacloud.io/plasmacloud/internal/cli/exit"
	"plasmacloud.io/plasmacloud/internal/cli/output"
	"plasmacloud.io/plasmacloud/internal/cli/resource"
	"plasmacloud.io/plasmacloud/internal/cli/session"
)

// Kind is clusters.
func Kind() *resource.Kind[*v1alpha1.Cluster] {
	return &resource.Kind[*v1alpha1.Cluster]{
		Name: "Cluster", Noun: "cluster", Plural: "clusters", Tasks: true,
		New:     func() *v1alpha1.Cluster { return &v1alpha1.Cluster{} },
		NewList: func() client.ObjectList { return &v1alpha1.ClusterList{} },
		Columns: []resource.Column[*v1alpha1.Cluster]{
			resource.Text("STATUS", func(c *v1alpha1.Cluster) string { return string(c.Status.Phase) }),
			resource.Text("TYPE", func(c *v1alpha1.Cluster) string { return string(c.Spec.Type) }),
			resource.Text("VERSION", func(c *v1alpha1.Cluster) string { return c.Status.Version }),
			resource.Text("NODES", func(c *v1alpha1.Cluster) string { return c.Status.NodesSummary }),
			resource.Text("NETWORK", func(c *v1alpha1.Cluster) string { return c.Spec.Network }),
			resource.Text("ENDPOINT", func(c *v1alpha1.Cluster) string { return c.Status.Endpoint }),
			resource.Text("PROGRESS", func(c *v1alpha1.Cluster) string { return c.Status.Progress }),
			resource.Age[*v1alpha1.Cluster](),
		},
		Conditions: func(c *v1alpha1.Cluster) []metav1.Condition { return c.Status.Conditions },
		Details:    details,
	}
}

// Command is the group. Members are further groups below it.
func Command(s *session.Session, members ...*cobra.Command) *cobra.Command {
	kind := Kind()
	byNetwork := &resource.Filter{Flag: "vpc", Usage: "only those in this `network`", Field: "spec.network"}
	group := command.Alias(command.Group("k8s", "Kubernetes clusters",
		create(s, kind), kind.List(s, byNetwork), kind.Get(s), remove(s, kind), kubeconfig(s, kind), scale(s, kind), upgrade(s, kind), repair(s, kind), plan(s, kind), events(s, kind),
		ssh(s, kind), rotateSSHKey(s, kind)),
		"kubernetes", "cluster", "clusters")
	group.AddCommand(members...)
	return group
}

// groups are the cluster's node groups as it asks for them.
func groups(c *v1alpha1.Cluster, _ time.Time) []output.Section {
	if len(c.Spec.NodeGroups) == 0 {
		return nil
	}
	table := output.Table{Indent: "  ", Header: []string{"NAME", "REPLICAS", "MIN", "MAX", "TYPE"}}
	for _, name := range slices.Sorted(maps.Keys(c.Spec.NodeGroups)) {
		group := c.Spec.NodeGroups[name]
		replicas := group.MinReplicas
		if group.Replicas != nil {
			replicas = *group.Replicas
		}
		table.Rows = append(table.Rows, []string{
			name, strconv.Itoa(int(replicas)), strconv.Itoa(int(group.MinReplicas)), strconv.Itoa(int(group.MaxReplicas)), output.Or(group.InstanceType),
		})
	}
	return []output.Section{{Heading: "Node groups:", Table: table}}
}

// Require refuses what the installation has no engine for. One that does not say what it has is asked all the same.
func Require(ctx context.Context, s *session.Session, clusterType v1alpha1.ClusterType, capability catalogue.Capability, what string) error {
	offered, err := s.OptionalCatalogue(ctx)
	if err != nil {
		return err
	}
	return require(offered, clusterType, capability, what)
}

func require(offered *catalogue.Catalogue, clusterType v1alpha1.ClusterType, capability catalogue.Capability, what string) error {
	if offered == nil || len(offered.ClusterTypes) == 0 || offered.Can(clusterType, capability) {
		return nil
	}
	var able []string
	for _, t := range offered.ClusterTypes {
		if offered.Can(t.Name, capability) {
			able = append(able, string(t.Name))
		}
	}
	if len(able) == 0 {
		return exit.Refusedf("a later version of the platform can", "this installation cannot %s", what)
	}
	return exit.Refusedf(fmt.Sprintf("it can with those of type %s", command.Words(able)), "this installation cannot %s of type %s", what, clusterType)
}

// Group finds a node group of a cluster. Where none is named, it is the only one.
func Group(c *v1alpha1.Cluster, name string) (string, error) {
	names := slices.Sorted(maps.Keys(c.Spec.NodeGroups))
	switch {
	case name == "" && len(names) == 1:
		return names[0], nil
	case name == "" && len(names) == 0:
		return "", exit.NotFoundf(fmt.Sprintf("add one with `cloud k8s nodegroup add %s`", c.Name), "cluster %s has no node group", c.Name)
	case name == "":
		return "", exit.Usagef("cluster %s has several node groups; say which with --group: %s", c.Name, command.Words(names))
	case !slices.Contains(names, name):
		return "", exit.NotFoundf("", "cluster %s has no node group %q%s", c.Name, name, command.DidYouMean(name, names, ""))
	}
	return name, nil
}
