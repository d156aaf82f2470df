package controller_test

import (
	"testing"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

func TestAccountTellsWhetherItCanBeUsed(t *testing.T) {
	t.Parallel()
	namespace := api.Namespace(t)
	local := create(t, &v1alpha1.Account{ObjectMeta: named(namespace, "local")})
	eventually(t, local, "Running", func() bool {
		return local.Status.Phase == v1alpha1.PhaseRunning && says(local.Status.Conditions, v1alpha1.ReasonReady)
	})
	lab := create(t, &v1alpha1.Account{ObjectMeta: named(namespace, "lab"), Spec: v1alpha1.AccountSpec{
		Provider: v1alpha1.ProviderSSH, SSH: &v1alpha1.SSHInventory{TrustOnFirstUse: true, Hosts: []v1alpha1.SSHHost{{Address: "10.0.0.5"}}},
	}})
	eventually(t, lab, "not supported", func() bool {
		return lab.Status.Phase == v1alpha1.PhasePending && says(lab.Status.Conditions, v1alpha1.ReasonUnsupported, "SSH")
	})
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
		Provider: v1alpha1.ProviderSSH, SSH: &v1alpha1.SSHInventory{TrustOnFirstUse: true, Hosts: []v1alpha1.SSHHost{{Address: "10.0.0.5"}}},
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
