package usage_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/usage"
)

func sizes(t *testing.T) *catalogue.Catalogue {
	t.Helper()
	c, err := catalogue.New([]string{"v1.36.3"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func number(n int32) *int32 { return &n }

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

func cluster(groups map[string]v1alpha1.NodeGroupTemplate) *v1alpha1.Cluster {
	return &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "dev"}, Spec: v1alpha1.ClusterSpec{Type: v1alpha1.ClusterHosted, NodeGroups: groups}}
}

func scaled(cluster, group string, replicas int32) v1alpha1.NodeGroup {
	return v1alpha1.NodeGroup{Spec: v1alpha1.NodeGroupSpec{Cluster: cluster, Group: group, Replicas: replicas}}
}

func TestUsageOfClusters(t *testing.T) {
	dedicated := cluster(nil)
	dedicated.Spec.ControlPlane.Datastore = v1alpha1.Datastore{Mode: v1alpha1.DatastoreDedicated, Replicas: 3}
	for name, test := range map[string]struct {
		cluster *v1alpha1.Cluster
		groups  []v1alpha1.NodeGroup
		want    string
	}{
		"without nodes":     {cluster(nil), nil, "1 clusters, 0 nodes, 0 vcpu, 0 memory, 0 volumes"},
		"a dedicated etcd":  {dedicated, nil, "1 clusters, 0 nodes, 0 vcpu, 0 memory, 3 volumes"},
		"by instance type":  {cluster(map[string]v1alpha1.NodeGroupTemplate{"w": {Replicas: number(3), InstanceType: "u1.large"}}), nil, "1 clusters, 3 nodes, 6 vcpu, 24Gi memory, 0 volumes"},
		"by own resources":  {cluster(map[string]v1alpha1.NodeGroupTemplate{"w": {Replicas: number(2), InstanceType: "u1.large", Resources: v1alpha1.Resources{CPU: quantity("500m")}}}), nil, "1 clusters, 2 nodes, 1 vcpu, 16Gi memory, 0 volumes"},
		"the least number":  {cluster(map[string]v1alpha1.NodeGroupTemplate{"w": {MinReplicas: 1, InstanceType: "u1.medium"}}), nil, "1 clusters, 1 nodes, 1 vcpu, 4Gi memory, 0 volumes"},
		"several groups":    {cluster(map[string]v1alpha1.NodeGroupTemplate{"a": {MinReplicas: 1, InstanceType: "u1.medium"}, "b": {MinReplicas: 2, InstanceType: "u1.large"}}), nil, "1 clusters, 3 nodes, 5 vcpu, 20Gi memory, 0 volumes"},
		"scaled up":         {cluster(map[string]v1alpha1.NodeGroupTemplate{"w": {MinReplicas: 1, InstanceType: "u1.medium"}}), []v1alpha1.NodeGroup{scaled("dev", "w", 4), scaled("other", "w", 9)}, "1 clusters, 4 nodes, 4 vcpu, 16Gi memory, 0 volumes"},
		"a cloud's machine": {cluster(map[string]v1alpha1.NodeGroupTemplate{"w": {MinReplicas: 2, InstanceType: "m5.large"}}), nil, "1 clusters, 2 nodes, 0 vcpu, 0 memory, 0 volumes"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := told(usage.Of(test.cluster, test.groups, sizes(t))); got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func told(u usage.Usage) string {
	return resource.NewQuantity(u.Clusters, resource.DecimalSI).String() + " clusters, " + resource.NewQuantity(u.Nodes, resource.DecimalSI).String() + " nodes, " +
		u.VCPU.String() + " vcpu, " + u.Memory.String() + " memory, " + resource.NewQuantity(u.Volumes, resource.DecimalSI).String() + " volumes"
}

func TestQuotaAndBack(t *testing.T) {
	u := usage.Usage{Clusters: 1, Nodes: 2, VCPU: resource.MustParse("1500m"), Memory: resource.MustParse("8Gi"), Volumes: 3}
	if got := told(usage.FromQuota(u.Quota())); got != told(u) {
		t.Errorf("got %s, want %s", got, told(u))
	}
	if got := told(usage.FromQuota(nil)); got != told(usage.Usage{}) {
		t.Errorf("nothing is %s", got)
	}
}

func TestExceeds(t *testing.T) {
	used := usage.Usage{Clusters: 2, Nodes: 8, VCPU: resource.MustParse("8"), Memory: resource.MustParse("32Gi")}
	before := usage.Usage{Clusters: 1, Nodes: 2, VCPU: resource.MustParse("2"), Memory: resource.MustParse("8Gi")}
	more := usage.Usage{Clusters: 1, Nodes: 5, VCPU: resource.MustParse("5"), Memory: resource.MustParse("20Gi")}
	less := usage.Usage{Clusters: 1, Nodes: 1, VCPU: resource.MustParse("1"), Memory: resource.MustParse("4Gi")}
	for name, test := range map[string]struct {
		quota *v1alpha1.Quota
		after usage.Usage
		want  string
	}{
		"no quota":          {nil, more, ""},
		"exactly":           {&v1alpha1.Quota{Nodes: number(11), VCPU: quantity("11")}, more, ""},
		"one too many":      {&v1alpha1.Quota{Nodes: number(10)}, more, "nodes: 8 used, 3 asked, 10 allowed"},
		"of several":        {&v1alpha1.Quota{Nodes: number(10), VCPU: quantity("10500m"), Memory: quantity("1Ti")}, more, "nodes: 8 used, 3 asked, 10 allowed; vcpu: 8 used, 3 asked, 10500m allowed"},
		"memory":            {&v1alpha1.Quota{Memory: quantity("40Gi")}, more, "memory: 32Gi used, 12Gi asked, 40Gi allowed"},
		"less, below use":   {&v1alpha1.Quota{Nodes: number(3)}, less, ""},
		"what stays":        {&v1alpha1.Quota{Clusters: number(1)}, more, ""},
		"a bound of naught": {&v1alpha1.Quota{Volumes: number(0)}, usage.Usage{Volumes: 1}, "volumes: 0 used, 1 asked, 0 allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := usage.Exceeds(test.quota, used, before, test.after).String(); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
			if grows := usage.Grows(test.quota, before, test.after); test.want != "" && !grows {
				t.Error("exceeds without growing")
			}
		})
	}
}
