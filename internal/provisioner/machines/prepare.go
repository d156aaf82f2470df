package machines

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/balancer"
	"plasmacloud.io/plasmacloud/internal/machine/sshkey"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
)

// Ports of machines that the platform itself reaches.
const (
	portSSH     = 22
	portAPI     = 6443
	portKubelet = 10250
)

// prepare makes the cluster's namespace, the daemon's permissions in it, the walls around it, and the key that lets the
// platform into its machines.
func (b *build) prepare(ctx context.Context) error {
	if _, err := b.distribution(); err != nil {
		return err
	}
	hosts, err := b.inventory(ctx)
	if err != nil {
		return err
	}
	if err := b.Prepare(ctx, func(site base.Site) []runtime.Object { return b.policies(site, hosts) }); err != nil {
		return err
	}
	b.SetInventory(b.Inventory())
	_, err = b.Keep(ctx, sshkey.SecretName, func(data map[string][]byte) error {
		return sshkey.Ensure(data, "plasmacloud "+b.Project()+"/"+b.Cluster.Name)
	})
	return err
}

// policies are the walls that do not depend on the cluster's ports. The balancer may go everywhere: its servers may be
// hosts anywhere, and it hears of them from the management cluster's API. Hosts that become the cluster's nodes reach it,
// whoever else may.
func (b *build) policies(site base.Site, hosts []networkingv1.NetworkPolicyPeer) []runtime.Object {
	return []runtime.Object{b.Policy(balancer.Name, networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{
			From: slices.Concat([]networkingv1.NetworkPolicyPeer{base.OwnPods(), base.NamespacePods(b.Platform)}, hosts, b.Clients(site)),
		}},
	})}
}

// inventory is the hosts that the cluster's machines may be leased from. One that is known by its name alone is let in
// where everybody is.
func (b *build) inventory(ctx context.Context) ([]networkingv1.NetworkPolicyPeer, error) {
	name, err := b.account(ctx)
	if err != nil {
		return nil, err
	}
	account := &v1alpha1.Account{}
	content, err := b.OfCluster("accounts").Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, account)
	}
	if err != nil {
		return nil, fmt.Errorf("read account %s: %w", name, err)
	}
	if account.Spec.SSH == nil {
		return nil, nil
	}
	var hosts []networkingv1.NetworkPolicyPeer
	for _, host := range account.Spec.SSH.Hosts {
		if address, err := netip.ParseAddr(host.Address); err == nil {
			hosts = append(hosts, base.Host(address))
		}
	}
	return hosts, nil
}

// fromPlatform lets the platform work on machines, and ask API servers and kubelets how they are.
func (b *build) fromPlatform() networkingv1.NetworkPolicyIngressRule {
	rule := networkingv1.NetworkPolicyIngressRule{From: []networkingv1.NetworkPolicyPeer{base.NamespacePods(b.Platform)}}
	for _, number := range []int{portSSH, portAPI, portKubelet} {
		rule.Ports = append(rule.Ports, base.Port(corev1.ProtocolTCP, number))
	}
	return rule
}
