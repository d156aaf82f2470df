// Package usage counts what clusters take of a quota: how many there are, their worker nodes, the nodes' CPU and memory,
// and volumes. It is arithmetic only; who reads the clusters, and what follows, is the caller's.
package usage

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// Sizer tells the CPU and memory of each node of a group; the catalogue does.
type Sizer interface {
	NodeSize(group v1alpha1.NodeGroupTemplate) (v1alpha1.Resources, error)
}

// Usage is an amount of everything that a quota bounds.
type Usage struct {
	Clusters int64
	Nodes    int64
	VCPU     resource.Quantity
	Memory   resource.Quantity
	Volumes  int64
}

// Of is what a cluster uses: as much as it was asked to be, whether it is there yet or not. A group counts with the
// number of nodes that the cluster's spec names, or, where that is more, with what its NodeGroup was scaled to.
func Of(cluster *v1alpha1.Cluster, groups []v1alpha1.NodeGroup, sizes Sizer) Usage {
	used := Usage{Clusters: 1}
	scaled := map[string]int32{}
	for i := range groups {
		if groups[i].Spec.Cluster == cluster.Name {
			scaled[groups[i].Spec.Group] = groups[i].Spec.Replicas
		}
	}
	for name, template := range cluster.Spec.NodeGroups {
		used = used.Plus(OfGroup(template, max(declared(template), scaled[name]), sizes))
	}
	if cluster.Spec.Type == v1alpha1.ClusterHosted && cluster.Spec.ControlPlane.Datastore.Mode == v1alpha1.DatastoreDedicated {
		used.Volumes = int64(cluster.Spec.ControlPlane.Datastore.Replicas) // each member of the etcd keeps its data on one
	}
	return used
}

// OfGroup is what a number of nodes of a group use. Nodes of a size that the catalogue does not know, such as a cloud's,
// count as nodes only: their CPU and memory are bounded where they are bought.
func OfGroup(template v1alpha1.NodeGroupTemplate, replicas int32, sizes Sizer) Usage {
	used := Usage{Nodes: int64(replicas)}
	size, err := sizes.NodeSize(template)
	if err != nil {
		size = template.Resources
	}
	if size.CPU != nil {
		used.VCPU = times(*size.CPU, replicas)
	}
	if size.Memory != nil {
		used.Memory = times(*size.Memory, replicas)
	}
	return used
}

// declared is the number of nodes that a group's description asks for.
func declared(template v1alpha1.NodeGroupTemplate) int32 {
	if template.Replicas != nil {
		return *template.Replicas
	}
	return template.MinReplicas
}

func times(quantity resource.Quantity, n int32) resource.Quantity {
	product := quantity.DeepCopy()
	product.Mul(int64(n)) // beyond an int64 it goes on with arbitrary precision
	return product
}

// Plus is the sum.
func (u Usage) Plus(other Usage) Usage {
	u.Clusters += other.Clusters
	u.Nodes += other.Nodes
	u.Volumes += other.Volumes
	u.VCPU = u.VCPU.DeepCopy()
	u.VCPU.Add(other.VCPU)
	u.Memory = u.Memory.DeepCopy()
	u.Memory.Add(other.Memory)
	return u
}

// Minus is the difference.
func (u Usage) Minus(other Usage) Usage {
	u.Clusters -= other.Clusters
	u.Nodes -= other.Nodes
	u.Volumes -= other.Volumes
	u.VCPU = u.VCPU.DeepCopy()
	u.VCPU.Sub(other.VCPU)
	u.Memory = u.Memory.DeepCopy()
	u.Memory.Sub(other.Memory)
	return u
}

// Most takes the greater amount of each.
func Most(a, b Usage) Usage {
	if b.VCPU.Cmp(a.VCPU) > 0 {
		a.VCPU = b.VCPU
	}
	if b.Memory.Cmp(a.Memory) > 0 {
		a.Memory = b.Memory
	}
	a.Clusters, a.Nodes, a.Volumes = max(a.Clusters, b.Clusters), max(a.Nodes, b.Nodes), max(a.Volumes, b.Volumes)
	return a
}

// Quota is the usage as the API writes it.
func (u Usage) Quota() *v1alpha1.Quota {
	clusters, nodes, volumes := int32(u.Clusters), int32(u.Nodes), int32(u.Volumes)
	vcpu, memory := u.VCPU.DeepCopy(), u.Memory.DeepCopy()
	return &v1alpha1.Quota{Clusters: &clusters, Nodes: &nodes, VCPU: &vcpu, Memory: &memory, Volumes: &volumes}
}

// FromQuota reads what Quota wrote.
func FromQuota(q *v1alpha1.Quota) Usage {
	var u Usage
	if q == nil {
		return u
	}
	for amount, written := range map[*int64]*int32{&u.Clusters: q.Clusters, &u.Nodes: q.Nodes, &u.Volumes: q.Volumes} {
		if written != nil {
			*amount = int64(*written)
		}
	}
	for amount, written := range map[*resource.Quantity]*resource.Quantity{&u.VCPU: q.VCPU, &u.Memory: q.Memory} {
		if written != nil {
			*amount = written.DeepCopy()
		}
	}
	return u
}

// Sum is what the clusters of a project use together. Groups are those of all of them.
func Sum(clusters []v1alpha1.Cluster, groups []v1alpha1.NodeGroup, sizes Sizer) Usage {
	byCluster := map[string][]v1alpha1.NodeGroup{}
	for i := range groups {
		byCluster[groups[i].Spec.Cluster] = append(byCluster[groups[i].Spec.Cluster], groups[i])
	}
	var sum Usage
	for i := range clusters {
		sum = sum.Plus(Of(&clusters[i], byCluster[clusters[i].Name], sizes))
	}
	return sum
}
