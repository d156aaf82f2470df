package admission

import (
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/admission/ledger"
)

func quota(clusters, nodes int32, vcpu, memory string) *v1alpha1.Quota {
	cpu, ram := resource.MustParse(vcpu), resource.MustParse(memory)
	return &v1alpha1.Quota{Clusters: &clusters, Nodes: &nodes, VCPU: &cpu, Memory: &ram}
}

// bounded is a project with a quota, in an organization with one.
func bounded(project, organization *v1alpha1.Quota, more ...client.Object) []client.Object {
	return append([]client.Object{
		org("acme", organization), proj("shop", "acme", project), proj("blog", "acme", nil), proj("lab", "globex", nil),
		acct("local", v1alpha1.ProviderLocal), vpc("default", "local", "10.0.0.0/16"),
	}, more...)
}

func elsewhere(c *v1alpha1.Cluster, project string) *v1alpha1.Cluster {
	c.Namespace = v1alpha1.NamespacePrefix + project
	return c
}

func group(cluster string, replicas int32) *v1alpha1.NodeGroup {
	return named(&v1alpha1.NodeGroup{Spec: v1alpha1.NodeGroupSpec{Cluster: cluster, Group: "workers", Replicas: replicas, Template: k8s("", workers(0)).Spec.NodeGroups["workers"]}}, home, cluster+"-workers")
}

// scaling is a request as `kubectl scale` makes it.
func scaling(t *testing.T, g *v1alpha1.NodeGroup, replicas int32) admission.Request {
	t.Helper()
	request := ask(t, admissionv1.Update, g, g)
	request.SubResource = "scale"
	scale := autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	var err error
	if request.Object.Raw, err = json.Marshal(scale); err != nil {
		t.Fatal(err)
	}
	return request
}

func TestQuotas(t *testing.T) {
	plenty := quota(100, 1000, "1000", "1Ti")
	used := []client.Object{k8s("dev", workers(4)), k8s("prod", workers(4))} // 8 nodes of 1 CPU and 4Gi
	for name, test := range map[string]struct {
		project, organization *v1alpha1.Quota
		more                  []client.Object
		object, old           client.Object
		want                  []string
	}{
		"no quota":       {object: k8s("new", workers(100))},
		"room":           {project: plenty, organization: plenty, object: k8s("new", workers(100))},
		"the last of it": {project: quota(3, 10, "10", "40Gi"), object: k8s("new", workers(2))},
		"clusters":       {project: quota(2, 100, "100", "1Ti"), object: k8s("new"), want: []string{"it exceeds the quota of project shop: clusters: 2 used, 1 asked, 2 allowed; delete or shrink what is not needed, or ask an administrator for more"}},
		"nodes":          {project: quota(9, 10, "100", "1Ti"), object: k8s("new", workers(3)), want: []string{"nodes: 8 used, 3 asked, 10 allowed"}},
		"CPU":            {project: quota(9, 100, "10", "1Ti"), object: k8s("new", workers(3)), want: []string{"vcpu: 8 used, 3 asked, 10 allowed"}},
		"memory":         {project: quota(9, 100, "100", "40Gi"), object: k8s("new", workers(3)), want: []string{"memory: 32Gi used, 12Gi asked, 40Gi allowed"}},
		"all at once":    {project: quota(2, 9, "9", "36Gi"), object: k8s("new", workers(3)), want: []string{"clusters: 2", "nodes: 8", "vcpu: 8", "memory: 32Gi"}},
		"volumes": {project: &v1alpha1.Quota{Volumes: new(int32)}, object: k8s("new", func(s *v1alpha1.ClusterSpec) {
			s.ControlPlane.Datastore = v1alpha1.Datastore{Mode: v1alpha1.DatastoreDedicated, Replicas: 3}
		}), want: []string{"volumes: 0 used, 3 asked, 0 allowed"}},
		"organization's":  {project: plenty, organization: quota(100, 10, "100", "1Ti"), object: k8s("new", workers(3)), want: []string{"quota of organization acme", "nodes: 8 used, 3 asked, 10 allowed"}},
		"other projects'": {organization: quota(100, 14, "100", "1Ti"), more: []client.Object{elsewhere(k8s("web", workers(5)), "blog")}, object: k8s("new", workers(2)), want: []string{"organization acme", "nodes: 13 used, 2 asked, 14 allowed"}},
		"others'":         {organization: quota(100, 10, "100", "1Ti"), more: []client.Object{elsewhere(k8s("web", workers(50)), "lab")}, object: k8s("new", workers(2))},
		"scaled up":       {project: quota(2, 10, "100", "1Ti"), object: k8s("dev", workers(7)), old: k8s("dev", workers(4)), want: []string{`clusters.plasmacloud.io "dev" is forbidden`, "nodes: 8 used, 3 asked, 10 allowed"}},
		"scaled to fit":   {project: quota(2, 10, "100", "1Ti"), object: k8s("dev", workers(6)), old: k8s("dev", workers(4))},
		"larger nodes": {project: quota(2, 10, "10", "1Ti"), object: k8s("dev", workers(4, func(g *v1alpha1.NodeGroupTemplate) { g.InstanceType = "u1.large" })), old: k8s("dev", workers(4)),
			want: []string{"vcpu: 8 used, 4 asked, 10 allowed"}},
		"scaled down, far beyond":    {project: quota(1, 1, "1", "1Gi"), object: k8s("dev", workers(3)), old: k8s("dev", workers(4))},
		"otherwise, far beyond":      {project: quota(1, 1, "1", "1Gi"), object: k8s("dev", workers(4), func(s *v1alpha1.ClusterSpec) { s.Host = "x" }), old: k8s("dev", workers(4))},
		"a group that is scaled up":  {project: quota(2, 10, "100", "1Ti"), more: []client.Object{group("dev", 6)}, object: k8s("new2"), want: []string{"clusters: 2 used"}},
		"beside a scaled group":      {project: quota(9, 10, "100", "1Ti"), more: []client.Object{group("dev", 6)}, object: k8s("new", workers(1)), want: []string{"nodes: 10 used, 1 asked, 10 allowed"}},
		"a group, changed by itself": {project: quota(9, 10, "100", "1Ti"), more: []client.Object{group("dev", 4)}, object: group("dev", 7), old: group("dev", 4), want: []string{`nodegroups.plasmacloud.io "dev-workers" is forbidden`, "nodes: 8 used, 3 asked, 10 allowed"}},
	} {
		t.Run(name, func(t *testing.T) {
			v := validator(t, bounded(test.project, test.organization, append(used, test.more...)...)...)
			request := creating(t, test.object)
			if test.old != nil {
				request = ask(t, admissionv1.Update, test.object, test.old)
			}
			check(t, v.Handle(t.Context(), request), test.want...)
		})
	}
}

func TestQuotasOfScaledGroups(t *testing.T) {
	objects := bounded(quota(9, 10, "100", "1Ti"), nil, k8s("dev", workers(4)), group("dev", 4), k8s("prod", workers(4)))
	check(t, validator(t, objects...).Handle(t.Context(), scaling(t, group("dev", 4), 6)))
	check(t, validator(t, objects...).Handle(t.Context(), scaling(t, group("dev", 4), 7)), `nodegroups.plasmacloud.io "dev-workers" is forbidden`, "nodes: 8 used, 3 asked, 10 allowed")
	check(t, validator(t, objects...).Handle(t.Context(), scaling(t, group("dev", 4), 0)))
	check(t, validator(t, objects...).Handle(t.Context(), scaling(t, group("gone", 4), 7)))
}

// Two servers, each with a cache that shows nothing of what happens during the test.
func TestTwoAtOnceDoNotBothPass(t *testing.T) {
	const servers, requests, room = 2, 12, 5
	shared := fake.NewClientBuilder().WithScheme(scheme()).Build()
	var admitted atomic.Int32
	var wait sync.WaitGroup
	for server := range servers {
		v := validator(t, bounded(quota(room, 100, "100", "1Ti"), nil)...)
		v.config.Ledger = ledger.New(shared, shared, "plasmacloud-system", v.config.Now)
		for i := range requests {
			request := creating(t, k8s(fmt.Sprintf("c%d-%d", server, i), workers(1)))
			wait.Go(func() {
				if v.Handle(t.Context(), request).Allowed {
					admitted.Add(1)
				}
			})
		}
	}
	wait.Wait()
	if admitted.Load() != room {
		t.Errorf("%d clusters were admitted, and there is room for %d", admitted.Load(), room)
	}
}

func TestPromisesOfClusters(t *testing.T) {
	v := validator(t, bounded(quota(2, 10, "100", "1Ti"), nil)...)
	check(t, v.Handle(t.Context(), creating(t, k8s("a", workers(6)))))
	check(t, v.Handle(t.Context(), creating(t, k8s("b", workers(5)))), "nodes: 6 used, 5 asked, 10 allowed")
	check(t, v.Handle(t.Context(), creating(t, k8s("a", workers(6))))) // tried again after a failure: counted once
	check(t, v.Handle(t.Context(), deleting(t, k8s("a", workers(6)))))
	check(t, v.Handle(t.Context(), creating(t, k8s("b", workers(5))))) // the promise went with the cluster
	later := v.config.Now().Add(time.Hour)
	check(t, v.Handle(t.Context(), creating(t, k8s("c", workers(6)))), "nodes: 5 used")
	world := fake.NewClientBuilder().WithScheme(scheme()).Build()
	v.config.Ledger = ledger.New(world, world, "x", func() time.Time { return later })
	check(t, v.Handle(t.Context(), creating(t, k8s("c", workers(6)))))
}

// A cache may be late: before anybody is refused, the API server itself is asked.
func TestNobodyIsRefusedBecauseACacheIsLate(t *testing.T) {
	v := validator(t, bounded(quota(1, 10, "100", "1Ti"), nil)...)
	v.config.Cached = fake.NewClientBuilder().WithScheme(scheme()).Build() // knows nothing yet
	check(t, v.Handle(t.Context(), creating(t, k8s("a"))))
	v = validator(t, bounded(quota(1, 10, "100", "1Ti"), nil)...)
	v.config.Cached = fake.NewClientBuilder().WithScheme(scheme()).WithObjects(bounded(quota(1, 10, "100", "1Ti"), nil, k8s("deleted"))...).Build()
	check(t, v.Handle(t.Context(), creating(t, k8s("a"))))
}
