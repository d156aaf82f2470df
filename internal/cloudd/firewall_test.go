package cloudd

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/hostsetup"
)

func TestMachinesLetInWhatTheirClusterNeeds(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	inProject := metav1.ObjectMeta{Namespace: "project-web", Name: "dev", Labels: map[string]string{v1alpha1.LabelCluster: "dev"}}
	named := func(name string) metav1.ObjectMeta {
		meta := *inProject.DeepCopy()
		meta.Name = name
		return meta
	}
	network := &v1alpha1.Network{ObjectMeta: named("default"), Spec: v1alpha1.NetworkSpec{
		ClusterRules: []v1alpha1.SecurityRule{{Protocol: v1alpha1.ProtocolTCP, Ports: "6443"}},
	}}
	machine := func(name string, role v1alpha1.MachineRole, address string) *v1alpha1.Machine {
		return &v1alpha1.Machine{ObjectMeta: named(name), Spec: v1alpha1.MachineSpec{Role: role}, Status: v1alpha1.MachineStatus{Address: address}}
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(network, machine("a", v1alpha1.MachineControlPlane, "10.0.0.4"),
		machine("b", v1alpha1.MachineControlPlane, "10.0.0.5"), machine("c", v1alpha1.MachineControlPlane, ""), machine("d", v1alpha1.MachineWorker, "10.0.0.6")).Build()
	c := &v1alpha1.Cluster{ObjectMeta: inProject, Spec: v1alpha1.ClusterSpec{Network: "default"}}
	c.Spec.ClusterNetwork.PodCIDR = "192.168.0.0/16"
	for _, test := range []struct {
		role    hostsetup.Role
		network string
		want    []string
	}{
		{hostsetup.Worker, hostsetup.CNIPrismNET, []string{"UDP 8472 "}},
		{hostsetup.Worker, hostsetup.CNINone, nil},
		{hostsetup.ControlPlane, hostsetup.CNINone, []string{"TCP 2379-2380 10.0.0.4/32", "TCP 2379-2380 10.0.0.5/32"}},
		{hostsetup.ControlPlane, hostsetup.CNIPrismNET, []string{"UDP 8472 ", "TCP 2379-2380 10.0.0.4/32", "TCP 2379-2380 10.0.0.5/32"}},
	} {
		c.Spec.ClusterNetwork.CNI = test.network
		policy, err := securityPolicy(t.Context(), api, c, test.role)
		if err != nil {
			t.Fatal(err)
		}
		if policy.Group.Name != "sg-dev" || len(policy.Group.Rules) != 1 || policy.PodCIDR != "192.168.0.0/16" {
			t.Errorf("%+v", policy)
		}
		var got []string
		for _, rule := range policy.Internal {
			got = append(got, string(rule.Protocol)+" "+rule.Ports+" "+rule.Source)
		}
		if len(got) != len(test.want) {
			t.Fatalf("%s, %s: %v, want %v", test.role, test.network, got, test.want)
		}
		for i, want := range test.want {
			if got[i] != want {
				t.Errorf("%s, %s: %v, want %v", test.role, test.network, got, test.want)
			}
		}
	}
	c.Spec.Network = "gone"
	if _, err := securityPolicy(t.Context(), api, c, hostsetup.Worker); err == nil {
		t.Error("a network that is not there has rules")
	}
}
