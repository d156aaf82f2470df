package controller_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/machine"
	machinessh "plasmacloud.io/plasmacloud/internal/machine/ssh"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

func TestAccountTellsWhetherItCanBeUsed(t *testing.T) {
	t.Parallel()
	namespace := api.Namespace(t)
	local := create(t, &v1alpha1.Account{ObjectMeta: named(namespace, "local")})
	eventually(t, local, "Running", func() bool {
		return local.Status.Phase == v1alpha1.PhaseRunning && says(local.Status.Conditions, v1alpha1.ReasonReady)
	})
	lab := create(t, &v1alpha1.Account{ObjectMeta: named(namespace, "lab"), Spec: v1alpha1.AccountSpec{Provider: v1alpha1.ProviderKubeVirt}})
	eventually(t, lab, "not supported", func() bool {
		return lab.Status.Phase == v1alpha1.PhasePending && says(lab.Status.Conditions, v1alpha1.ReasonUnsupported, "KubeVirt")
	})
}

// yard knows hosts by what the API has: the first machine of an account has its first host.
type yard struct{}

func (yard) Occupancy(ctx context.Context, name types.NamespacedName) ([]machinessh.Occupancy, error) {
	account, secret, machines := &v1alpha1.Account{}, &corev1.Secret{}, &v1alpha1.MachineList{}
	if err := kube.Get(ctx, name, account); err != nil {
		return nil, err
	}
	if err := kube.Get(ctx, types.NamespacedName{Namespace: name.Namespace, Name: account.Spec.Credentials.Name}, secret); err != nil {
		return nil, err
	}
	if err := kube.List(ctx, machines, client.InNamespace(name.Namespace)); err != nil {
		return nil, err
	}
	hosts, err := machinessh.HostsOf(account, secret)
	var occupied []machinessh.Occupancy
	for i, host := range hosts {
		o := machinessh.Occupancy{Host: host, HostKey: host.Access.HostKey}
		if i < len(machines.Items) {
			o.Holder = machine.Key{Cluster: machines.Items[i].Spec.Cluster, Name: machines.Items[i].Name}
		}
		occupied = append(occupied, o)
	}
	return occupied, err
}

func TestAnAccountOfHostsTellsWhoHasThem(t *testing.T) {
	t.Parallel()
	namespace := api.Namespace(t)
	account := create(t, &v1alpha1.Account{ObjectMeta: named(namespace, "yard"), Spec: v1alpha1.AccountSpec{
		Provider: v1alpha1.ProviderSSH, Credentials: &v1alpha1.SecretReference{Name: "key"},
		SSH: &v1alpha1.SSHInventory{TrustOnFirstUse: true, Hosts: []v1alpha1.SSHHost{{Address: "10.0.0.5"}, {Address: "10.0.0.6"}}},
	}})
	eventually(t, account, "the key is missing", func() bool {
		return account.Status.Phase == v1alpha1.PhasePending && says(account.Status.Conditions, v1alpha1.ReasonWaiting, "its credentials cannot be read", `"key" not found`)
	})
	key, err := remote.GenerateKey("")
	if err != nil {
		t.Fatal(err)
	}
	create(t, &corev1.Secret{ObjectMeta: named(namespace, "key"), Data: map[string][]byte{corev1.SSHAuthPrivateKey: key}})
	eventually(t, account, "Running", func() bool {
		return account.Status.Phase == v1alpha1.PhaseRunning && len(account.Status.Hosts) == 2 && account.Status.Hosts[0].Machine == ""
	})
	create(t, &v1alpha1.Machine{ObjectMeta: named(namespace, "dev-a"), Spec: v1alpha1.MachineSpec{Cluster: "dev", Account: "yard"}})
	eventually(t, account, "a host is leased", func() bool {
		return account.Status.Hosts[0] == v1alpha1.SSHHostStatus{Address: "10.0.0.5", Port: 22, Cluster: "dev", Machine: "dev-a"} && account.Status.Hosts[1].Machine == ""
	})
	// The daemon may read that Secret, and nothing else.
	role, binding := &rbacv1.Role{}, &rbacv1.RoleBinding{}
	name := types.NamespacedName{Namespace: namespace, Name: "plasmacloud-account-yard"}
	if err := errors.Join(kube.Get(t.Context(), name, role), kube.Get(t.Context(), name, binding)); err != nil {
		t.Fatal(err)
	}
	rule := role.Rules[0]
	if len(role.Rules) != 1 || !slices.Equal(rule.Verbs, []string{"get"}) || !slices.Equal(rule.ResourceNames, []string{"key"}) || binding.Subjects[0].Name != "daemon" {
		t.Errorf("%+v, %+v", role.Rules, binding.Subjects)
	}
}

func TestAccountIsDeletedAfterItsNetworks(t *testing.T) {
	t.Parallel()
	namespace := api.Namespace(t)
	local := create(t, &v1alpha1.Account{ObjectMeta: named(namespace, "local")})
	other := create(t, &v1alpha1.Account{ObjectMeta: named(namespace, "other")})
	front := create(t, &v1alpha1.Network{ObjectMeta: named(namespace, "front")})
	back := create(t, &v1alpha1.Network{ObjectMeta: named(namespace, "back"), Spec: v1alpha1.NetworkSpec{CIDR: "10.1.0.0/16"}})
	eventually(t, local, "two networks", func() bool { return local.Status.Networks == 2 })
	remove(t, local)
	eventually(t, local, "names them", func() bool {
		return local.Status.Phase == v1alpha1.PhaseDeleting && says(local.Status.Conditions, v1alpha1.ReasonHasChildren, "networks: back, front;")
	})
	remove(t, front)
	eventually(t, local, "names the other", func() bool { return says(local.Status.Conditions, v1alpha1.ReasonHasChildren, "networks: back;") })
	remove(t, other)
	vanishes(t, other) // has none
	remove(t, back)
	vanishes(t, local)
}

func TestNetworkWaitsForItsAccount(t *testing.T) {
	t.Parallel()
	namespace := api.Namespace(t)
	vpc := create(t, &v1alpha1.Network{ObjectMeta: named(namespace, "default"), Spec: v1alpha1.NetworkSpec{Account: "late"}})
	eventually(t, vpc, "says so", func() bool {
		return vpc.Status.Phase == v1alpha1.PhasePending && says(vpc.Status.Conditions, v1alpha1.ReasonParentMissing, `"late"`)
	})
	create(t, &v1alpha1.Account{ObjectMeta: named(namespace, "late")})
	eventually(t, vpc, "Running", func() bool {
		return vpc.Status.Phase == v1alpha1.PhaseRunning && vpc.Status.ID != "" && says(vpc.Status.Conditions, v1alpha1.ReasonReady)
	})
}

func TestNetworkOfAnUnsupportedAccountIsNotReady(t *testing.T) {
	t.Parallel()
	namespace := api.Namespace(t)
	create(t, &v1alpha1.Account{ObjectMeta: named(namespace, "lab"), Spec: v1alpha1.AccountSpec{
		Provider: v1alpha1.ProviderKubeVirt,
	}})
	vpc := create(t, &v1alpha1.Network{ObjectMeta: named(namespace, "default"), Spec: v1alpha1.NetworkSpec{Account: "lab"}})
	eventually(t, vpc, "says so", func() bool { return says(vpc.Status.Conditions, v1alpha1.ReasonParentNotReady, "lab") })
}

func TestNetworkIsDeletedAfterItsClusters(t *testing.T) {
	t.Parallel()
	namespace := api.Namespace(t)
	create(t, &v1alpha1.Account{ObjectMeta: named(namespace, "local")})
	vpc := create(t, &v1alpha1.Network{ObjectMeta: named(namespace, "default")})
	dev := someCluster(t, namespace, "dev", 1)
	eventually(t, vpc, "one cluster", func() bool { return vpc.Status.Clusters == 1 })
	remove(t, vpc)
	eventually(t, vpc, "names it", func() bool {
		return vpc.Status.Phase == v1alpha1.PhaseDeleting && says(vpc.Status.Conditions, v1alpha1.ReasonHasChildren, "clusters: dev;")
	})
	remove(t, dev)
	vanishes(t, vpc)
}
