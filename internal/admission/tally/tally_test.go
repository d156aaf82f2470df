package tally_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/admission/tally"
	"plasmacloud.io/plasmacloud/internal/usage"
)

// nodes are all of one size.
type nodes struct{ cpu, memory string }

func (n *nodes) NodeSize(v1alpha1.NodeGroupTemplate) (v1alpha1.Resources, error) {
	cpu, memory := resource.MustParse(n.cpu), resource.MustParse(n.memory)
	return v1alpha1.Resources{CPU: &cpu, Memory: &memory}, nil
}

func cluster(name string, generation int64, replicas int32) *v1alpha1.Cluster {
	return &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "project-shop", Name: name, Generation: generation},
		Spec:       v1alpha1.ClusterSpec{NodeGroups: map[string]v1alpha1.NodeGroupTemplate{"workers": {MinReplicas: replicas}}},
	}
}

func group(cluster string, generation int64, replicas int32) *v1alpha1.NodeGroup {
	return &v1alpha1.NodeGroup{
		ObjectMeta: metav1.ObjectMeta{Namespace: "project-shop", Name: cluster + "-workers", Generation: generation},
		Spec:       v1alpha1.NodeGroupSpec{Cluster: cluster, Group: "workers", Replicas: replicas},
	}
}

func summary(u usage.Usage) string {
	return fmt.Sprintf("%d clusters, %d nodes, %s, %s", u.Clusters, u.Nodes, u.VCPU.String(), u.Memory.String())
}

func expect(t *testing.T, counted *tally.Tally, sizes usage.Sizer, want string) {
	t.Helper()
	counted.Read(sizes, func(counts tally.Counts) {
		if got := summary(counts.Total("shop")); got != want {
			t.Errorf("used: %s, want %s", got, want)
		}
	})
}

func TestClustersAreCountedAsTheyComeChangeAndGo(t *testing.T) {
	small, counted := &nodes{"1", "4Gi"}, tally.New()
	expect(t, counted, small, "0 clusters, 0 nodes, 0, 0")
	counted.OnAdd(group("a", 1, 5), true) // in any order
	expect(t, counted, small, "0 clusters, 0 nodes, 0, 0")
	counted.OnAdd(cluster("a", 1, 2), true)
	expect(t, counted, small, "1 clusters, 5 nodes, 5, 20Gi")
	counted.OnAdd(cluster("b", 1, 2), false)
	expect(t, counted, small, "2 clusters, 7 nodes, 7, 28Gi")
	counted.OnUpdate(cluster("b", 1, 2), cluster("b", 2, 3))
	expect(t, counted, small, "2 clusters, 8 nodes, 8, 32Gi")
	counted.OnUpdate(group("a", 1, 5), group("a", 2, 1))
	expect(t, counted, small, "2 clusters, 5 nodes, 5, 20Gi")
	expect(t, counted, &nodes{"2", "1Gi"}, "2 clusters, 5 nodes, 10, 5Gi") // the catalogue has changed
	counted.OnDelete(cluster("b", 2, 3))
	counted.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: cluster("a", 1, 2)})
	counted.OnDelete(group("a", 2, 1))
	expect(t, counted, small, "0 clusters, 0 nodes, 0, 0")
}

func TestAStatusIsNotCounted(t *testing.T) {
	small, counted := &nodes{"1", "4Gi"}, tally.New()
	counted.OnAdd(cluster("a", 1, 2), true)
	changed := cluster("a", 1, 2)
	changed.Spec.NodeGroups = nil // which cannot be without another generation
	counted.OnUpdate(cluster("a", 1, 2), changed)
	expect(t, counted, small, "1 clusters, 2 nodes, 2, 8Gi")
}

func TestOneClusterIsToldFromAll(t *testing.T) {
	small, counted := &nodes{"1", "4Gi"}, tally.New()
	counted.Put(cluster("a", 1, 2))
	counted.Put(cluster("b", 1, 3))
	counted.Put(group("b", 1, 4))
	counted.Read(small, func(counts tally.Counts) {
		if got := summary(counts.Of("shop", "b")); got != "1 clusters, 4 nodes, 4, 16Gi" {
			t.Error(got)
		}
		if groups := counts.Groups("shop", "b"); len(groups) != 1 || groups[0].Name != "b-workers" {
			t.Error(groups)
		}
		if counts.Groups("shop", "c") != nil || counts.Of("lab", "a").Clusters != 0 || counts.Total("lab").Clusters != 0 {
			t.Error("there is nothing of that name")
		}
	})
}

// Whatever happens in which order, the sum is that of what is there.
func TestTheSumIsThatOfItsParts(t *testing.T) {
	small, counted := &nodes{"500m", "1500Mi"}, tally.New()
	expect(t, counted, small, "0 clusters, 0 nodes, 0, 0")
	random := rand.New(rand.NewPCG(1, 2))
	there := map[string]*v1alpha1.Cluster{}
	for generation := range int64(2000) {
		name := fmt.Sprintf("c%d", random.IntN(20))
		if c := there[name]; c != nil && random.IntN(3) == 0 {
			counted.OnDelete(c)
			delete(there, name)
			continue
		}
		next := cluster(name, generation+1, random.Int32N(10))
		if before := there[name]; before != nil {
			counted.OnUpdate(before, next)
		} else {
			counted.OnAdd(next, false)
		}
		there[name] = next
	}
	var all []v1alpha1.Cluster
	for _, c := range there {
		all = append(all, *c)
	}
	expect(t, counted, small, summary(usage.Sum(all, nil, small)))
}
