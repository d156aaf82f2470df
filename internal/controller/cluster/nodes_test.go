package cluster_test

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

func TestNodesOfMachinesAreCountedByTheirGroups(t *testing.T) {
	_, namespace := start(t)
	c := newCluster(namespace, "counted")
	c.Spec.Type = v1alpha1.ClusterHosted
	create(t, c)
	group := &v1alpha1.NodeGroup{ObjectMeta: named(namespace, "counted-workers")}
	eventually(t, group, "its node group", func() bool { return true })
	before := group.DeepCopy()
	group.Status.Replicas, group.Status.ReadyReplicas = 3, 1
	if err := kube.Status().Patch(t.Context(), group, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	eventually(t, c, "the group's numbers", func() bool {
		return c.Status.Nodes == v1alpha1.NodeCounts{Desired: 2, Ready: 1, Total: 3} && c.Status.NodesSummary == "1/2"
	})
}
