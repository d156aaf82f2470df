package admission

import (
	"net/netip"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

func TestKindsLiveInProjects(t *testing.T) {
	objects := append(world(), gone(proj("closing", "acme", nil)), k8s("dev", workers(1)))
	for _, object := range []client.Object{
		acct("x", v1alpha1.ProviderLocal), vpc("x", "local", "10.9.0.0/16"), k8s("x"),
		named(&v1alpha1.NodeGroup{Spec: v1alpha1.NodeGroupSpec{Cluster: "dev", Group: "workers", Template: k8s("", workers(1)).Spec.NodeGroups["workers"]}}, home, "x"),
		named(&v1alpha1.Machine{Spec: v1alpha1.MachineSpec{Cluster: "dev", Account: "local"}}, home, "x"),
		named(&v1alpha1.Task{}, home, "x"),
	} {
		check(t, validator(t, objects...).Handle(t.Context(), creating(t, object)))
		for namespace, want := range map[string]string{
			"default":         `metadata.namespace: Invalid value: "default": this is no project's namespace; use that of a project, project-<project>`,
			"project-nowhere": "there is no project nowhere; create it with `cloud project create nowhere`",
			"project-closing": "project closing is being deleted; use another one",
		} {
			object.SetNamespace(namespace)
			check(t, validator(t, objects...).Handle(t.Context(), creating(t, object)), want)
		}
	}
}

func TestNetworks(t *testing.T) {
	for name, test := range map[string]struct {
		object *v1alpha1.Network
		want   []string
	}{
		"apart from others":         {object: vpc("more", "local", "10.1.0.0/16")},
		"same range, other account": {object: vpc("more", "azure", "10.0.0.0/16")},
		"of no account":             {object: vpc("more", "nothing", "10.1.0.0/16"), want: []string{`spec.account: Invalid value: "nothing": there is none of this name in project shop`, "cloud account create nothing"}},
		"the same range":            {object: vpc("more", "local", "10.0.0.0/16"), want: []string{`spec.cidr: Invalid value: "10.0.0.0/16": it overlaps with 10.0.0.0/16 of network default of the same account; use another range, such as 10.1.0.0/16`}},
		"a part of another":         {object: vpc("more", "local", "10.0.4.0/24"), want: []string{"spec.cidr", "such as 10.1.0.0/24"}},
		"all of IPv4's private":     {object: vpc("more", "local", "10.0.0.0/8"), want: []string{"spec.cidr", "choose a range apart from it"}},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, validator(t, append(world(), acct("azure", v1alpha1.ProviderAzure))...).Handle(t.Context(), creating(t, test.object)), test.want...)
		})
	}
	other := vpc("more", "aws", "10.1.0.0/16")
	other.Spec.GCP = &v1alpha1.GCPNetwork{}
	check(t, validator(t, world()...).Handle(t.Context(), creating(t, other)), "spec.gcp: Forbidden: account aws is of provider AWS; remove it, or name an account of provider GCP")
	check(t, validator(t, gone(acct("local", v1alpha1.ProviderLocal)), proj("shop", "acme", nil)).Handle(t.Context(), creating(t, vpc("x", "local", "10.1.0.0/16"))),
		"spec.account", "it is being deleted; name another one")
}

// Two networks at once: the second is refused although no reader can see the first.
func TestRangesArePromised(t *testing.T) {
	v := validator(t, world()...)
	check(t, v.Handle(t.Context(), creating(t, vpc("a", "local", "10.1.0.0/16"))))
	check(t, v.Handle(t.Context(), creating(t, vpc("b", "local", "10.1.0.0/16"))), "it overlaps with 10.1.0.0/16 of network a", "such as 10.2.0.0/16")
	check(t, v.Handle(t.Context(), creating(t, vpc("a", "local", "10.1.0.0/16")))) // the same one, tried again
}

func TestADryRunPromisesNothing(t *testing.T) {
	v := validator(t, append(world(), proj("tight", "acme", &v1alpha1.Quota{}))...)
	trial := creating(t, vpc("a", "local", "10.1.0.0/16"))
	yes := true
	trial.DryRun = &yes
	check(t, v.Handle(t.Context(), trial))
	check(t, v.Handle(t.Context(), creating(t, vpc("b", "local", "10.1.0.0/16"))))
}

func TestFreeRange(t *testing.T) {
	taken := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/9"), netip.MustParsePrefix("10.128.0.0/24"), netip.MustParsePrefix("fd00::/48")}
	for bits, want := range map[int]string{24: "10.128.1.0/24", 16: "10.129.0.0/16", 9: "", 8: "", 4: "", 32: "10.128.1.0/32"} {
		got, ok := freeRange(bits, taken)
		if ok != (want != "") || ok && got.String() != want {
			t.Errorf("/%d: got %v, want %q", bits, got, want)
		}
	}
}

func TestNewClusters(t *testing.T) {
	small := func(memory string) func(*v1alpha1.NodeGroupTemplate) {
		return func(group *v1alpha1.NodeGroupTemplate) {
			quantity := resource.MustParse(memory)
			group.GPUs = []v1alpha1.GPU{{Name: "nvidia.com/L40S"}}
			group.Resources.Memory = &quantity
		}
	}
	type change = func(*v1alpha1.ClusterSpec)
	for name, test := range map[string]struct {
		change change
		want   []string
	}{
		"as it comes":          {change: func(*v1alpha1.ClusterSpec) {}},
		"newest patch":         {change: func(s *v1alpha1.ClusterSpec) { s.Version = "v1.35" }},
		"version in full":      {change: func(s *v1alpha1.ClusterSpec) { s.Version = "v1.36.3" }},
		"unknown version":      {change: func(s *v1alpha1.ClusterSpec) { s.Version = "v1.36.99" }, want: []string{`spec.version: Invalid value: "v1.36.99"`, "it has v1.36.3, v1.35.4"}},
		"no engine":            {change: func(s *v1alpha1.ClusterSpec) { s.Type = v1alpha1.ClusterK3s }, want: []string{`spec.type: Unsupported value: "K3s": supported values: "Hosted", "Kubeadm", "EKS", "Fake"`}},
		"no network":           {change: func(s *v1alpha1.ClusterSpec) { s.Network = "moon" }, want: []string{`spec.network: Invalid value: "moon": there is none of this name in project shop`, "cloud vpc create moon"}},
		"unlike its account":   {change: func(s *v1alpha1.ClusterSpec) { s.Network = "cloud" }, want: []string{`spec.type`, "not made from an account of provider AWS", "use a network of an account of provider Local or KubeVirt"}},
		"a cloud's, elsewhere": {change: func(s *v1alpha1.ClusterSpec) { s.Type = v1alpha1.ClusterEKS }, want: []string{`spec.type`, "use a network of an account of provider AWS"}},
		"a cloud's": {change: func(s *v1alpha1.ClusterSpec) {
			workers(1)(s)
			s.Type, s.Network, s.Version = v1alpha1.ClusterEKS, "cloud", "v1.33"
			group := s.NodeGroups["workers"]
			group.InstanceType = "m5.large"
			s.NodeGroups["workers"] = group
		}},
		"pods in the network's range":     {change: func(s *v1alpha1.ClusterSpec) { s.ClusterNetwork.PodCIDR = "10.0.0.0/14" }, want: []string{"spec.clusterNetwork.podCIDR", "it overlaps with 10.0.0.0/16 of network default; choose a range apart from it"}},
		"services in the network's range": {change: func(s *v1alpha1.ClusterSpec) { s.ClusterNetwork.ServiceCIDR = "10.0.8.0/24" }, want: []string{"spec.clusterNetwork.serviceCIDR", "it overlaps with 10.0.0.0/16 of network default"}},
		"unknown size of control plane":   {change: func(s *v1alpha1.ClusterSpec) { s.ControlPlane.InstanceType = "huge" }, want: []string{`spec.controlPlane.instanceType: Invalid value: "huge"`}},
		"unknown size of nodes":           {change: workers(1, func(g *v1alpha1.NodeGroupTemplate) { g.InstanceType = "u1.medum" }), want: []string{`spec.nodeGroups[workers].instanceType: Invalid value: "u1.medum"`, "did you mean u1.medium?"}},
		"GPUs":                            {change: workers(1, small("4Gi"))},
		"GPUs without memory":             {change: workers(1, small("2Gi")), want: []string{"spec.nodeGroups[workers].gpus", "need at least 4Gi of memory, and these have 2Gi"}},
		"nothing":                         {change: workers(1, func(g *v1alpha1.NodeGroupTemplate) { g.Resources.CPU = &resource.Quantity{} }), want: []string{"spec.nodeGroups[workers].resources.cpu", "more than nothing"}},
		"a label that is none":            {change: workers(1, func(g *v1alpha1.NodeGroupTemplate) { g.Labels = map[string]string{"tier": "front row"} }), want: []string{"spec.nodeGroups[workers].labels"}},
		"a taint that is none": {change: workers(1, func(g *v1alpha1.NodeGroupTemplate) {
			g.Taints = []corev1.Taint{{Key: "a b", Value: "c d", Effect: "Never"}}
		}), want: []string{"taints[0].key", "taints[0].value", `taints[0].effect: Unsupported value: "Never"`}},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, validator(t, world()...).Handle(t.Context(), creating(t, k8s("dev", test.change))), test.want...)
		})
	}
}

// What was admitted once is no reason to refuse another change.
func TestChangedClusters(t *testing.T) {
	strange := func(s *v1alpha1.ClusterSpec) {
		s.Version, s.ControlPlane.InstanceType, s.Type, s.Network = "v1.30.1", "old.large", v1alpha1.ClusterK3s, "lost"
		workers(1, func(g *v1alpha1.NodeGroupTemplate) { g.InstanceType = "old.medium" })(s)
	}
	change := func(f func(*v1alpha1.ClusterSpec), want ...string) {
		t.Helper()
		check(t, validator(t, world()...).Handle(t.Context(), ask(t, admissionv1.Update, k8s("dev", strange, f), k8s("dev", strange))), want...)
	}
	change(func(s *v1alpha1.ClusterSpec) { s.Host = "dev.example.com" })
	change(func(s *v1alpha1.ClusterSpec) { s.Version = "v1.31" }, "spec.version")
	change(func(s *v1alpha1.ClusterSpec) { s.ControlPlane.InstanceType = "u1.huge" }, "spec.controlPlane.instanceType")
	change(workers(2, func(g *v1alpha1.NodeGroupTemplate) { g.InstanceType = "old.large" }), "spec.nodeGroups[workers].instanceType")
	change(workers(2))
}

func TestNodeGroupsFollowTheirCluster(t *testing.T) {
	objects := append(world(), k8s("dev", workers(1)))
	template := k8s("", workers(1)).Spec.NodeGroups["workers"]
	group := func(cluster, name string, template v1alpha1.NodeGroupTemplate, replicas int32) *v1alpha1.NodeGroup {
		return named(&v1alpha1.NodeGroup{Spec: v1alpha1.NodeGroupSpec{Cluster: cluster, Group: name, Template: template, Replicas: replicas}}, home, "g")
	}
	larger := template
	larger.MaxReplicas = 1000
	check(t, validator(t, objects...).Handle(t.Context(), creating(t, group("dev", "workers", template, 1))))
	check(t, validator(t, objects...).Handle(t.Context(), creating(t, group("prod", "workers", template, 1))), "spec.cluster", "create the cluster, and its groups come with it")
	check(t, validator(t, objects...).Handle(t.Context(), creating(t, group("dev", "gpu", template, 1))), "spec.group", "cluster dev has no group of this name; add it to the cluster's spec.nodeGroups")
	check(t, validator(t, objects...).Handle(t.Context(), ask(t, admissionv1.Update, group("dev", "workers", template, 2), group("dev", "workers", template, 1))))
	check(t, validator(t, objects...).Handle(t.Context(), ask(t, admissionv1.Update, group("dev", "workers", larger, 200), group("dev", "workers", template, 1))),
		"spec.template", "change spec.nodeGroups of cluster dev")
}

func TestMachinesHaveParents(t *testing.T) {
	machine := named(&v1alpha1.Machine{Spec: v1alpha1.MachineSpec{Cluster: "dev", Account: "moon"}}, home, "m")
	check(t, validator(t, world()...).Handle(t.Context(), creating(t, machine)), "spec.cluster", "spec.account", "cloud account create moon")
}
