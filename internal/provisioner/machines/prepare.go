package machines

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"

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
	if err := b.Prepare(ctx, b.policies); err != nil {
		return err
	}
	b.SetInventory(b.Inventory())
	_, err := b.Keep(ctx, sshkey.SecretName, func(data map[string][]byte) error {
		return sshkey.Ensure(data, "plasmacloud "+b.Project()+"/"+b.Cluster.Name)
	})
	return err
}

// policies are the walls that do not depend on the cluster's ports. The balancer may go everywhere: its servers may be
// hosts anywhere, and it hears of them from the management cluster's API.
func (b *build) policies(site base.Site) []runtime.Object {
	return []runtime.Object{b.Policy(balancer.Name, networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{
			From: append([]networkingv1.NetworkPolicyPeer{base.OwnPods(), base.NamespacePods(b.Platform)}, b.Clients(site)...),
		}},
	})}
}

// fromPlatform lets the platform work on machines, and ask API servers and kubelets how they are.
func (b *build) fromPlatform() networkingv1.NetworkPolicyIngressRule {
	rule := networkingv1.NetworkPolicyIngressRule{From: []networkingv1.NetworkPolicyPeer{base.NamespacePods(b.Platform)}}
	for _, number := range []int{portSSH, portAPI, portKubelet} {
		rule.Ports = append(rule.Ports, base.Port(corev1.ProtocolTCP, number))
	}
	return rule
}
