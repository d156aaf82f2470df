package hosted

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// labelNamespaceName is on every namespace, with its name.
const labelNamespaceName = corev1.LabelMetadataName

// policies are the walls around a cluster's pods that do not depend on its ports.
func (b *build) policies(site Site) []runtime.Object {
	clients := blocks(b.cluster.Spec.Access.CIDRs)
	if !b.limited() {
		// Everybody but other pods of the management cluster, which are other clusters' machines.
		clients = []networkingv1.NetworkPolicyPeer{everywhereBut(site.PodCIDRs)}
	}
	controlPlane := networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: append([]networkingv1.NetworkPolicyPeer{ownPods(), namespacePods(b.Namespace)}, clients...)}},
		// The datastore and the identity service; nodes, pods and webhooks are reached through the tunnel.
		Egress: []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{ownPods(), namespacePods(b.Namespace)}}, toDNS()},
	}
	datastore := networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
			componentPods(v1alpha1.ComponentControlPlane), componentPods(v1alpha1.ComponentDatastore), namespacePods(b.Namespace),
		}}},
	}
	return []runtime.Object{
		b.policy(v1alpha1.ComponentControlPlane, controlPlane),
		b.policy(v1alpha1.ComponentDatastore, datastore),
	}
}

// machinePolicy lets a cluster's machines reach one another, their own control plane and the world, but nothing else
// of the management cluster.
func (b *build) machinePolicy(site Site, e endpoint) runtime.Object {
	hidden := append(append([]netip.Prefix(nil), site.PodCIDRs...), site.ServiceCIDRs...)
	for _, address := range site.NodeAddresses {
		hidden = append(hidden, netip.PrefixFrom(address, address.BitLen()))
	}
	if e.address.IsValid() {
		hidden = append(hidden, netip.PrefixFrom(e.address, e.address.BitLen()))
	}
	own := networkingv1.NetworkPolicyEgressRule{
		To:    []networkingv1.NetworkPolicyPeer{block(netip.PrefixFrom(e.address, e.address.BitLen()))},
		Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolTCP, e.port), port(corev1.ProtocolTCP, e.konnectivity)},
	}
	return b.policy(v1alpha1.ComponentMachine, networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{ownPods()}}},
		Egress: []networkingv1.NetworkPolicyEgressRule{
			{To: []networkingv1.NetworkPolicyPeer{ownPods()}}, toDNS(), own,
			{To: []networkingv1.NetworkPolicyPeer{everywhereBut(hidden)}},
		},
	})
}

func (b *build) policy(component string, spec networkingv1.NetworkPolicySpec) *networkingv1.NetworkPolicy {
	spec.PodSelector = metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelComponent: component}}
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: b.meta(component), Spec: spec,
	}
}

func ownPods() networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{}}
}

func componentPods(component string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelComponent: component}}}
}

func namespacePods(name string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{labelNamespaceName: name}}}
}

func toDNS() networkingv1.NetworkPolicyEgressRule {
	peer := namespacePods(metav1.NamespaceSystem)
	peer.PodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": "kube-dns"}}
	return networkingv1.NetworkPolicyEgressRule{
		To:    []networkingv1.NetworkPolicyPeer{peer},
		Ports: []networkingv1.NetworkPolicyPort{port(corev1.ProtocolUDP, 53), port(corev1.ProtocolTCP, 53)},
	}
}

func port(protocol corev1.Protocol, number int) networkingv1.NetworkPolicyPort {
	value := intstr.FromInt32(int32(number))
	return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: &value}
}

func block(prefix netip.Prefix) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: prefix.String()}}
}

func blocks(cidrs []string) []networkingv1.NetworkPolicyPeer {
	var peers []networkingv1.NetworkPolicyPeer
	for _, cidr := range cidrs {
		peers = append(peers, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr}})
	}
	return peers
}

// everywhereBut is all IPv4 addresses except for some.
func everywhereBut(hidden []netip.Prefix) networkingv1.NetworkPolicyPeer {
	all := &networkingv1.IPBlock{CIDR: "0.0.0.0/0"}
	seen := map[string]bool{}
	for _, prefix := range hidden {
		if text := prefix.Masked().String(); prefix.Addr().Is4() && !seen[text] {
			seen[text] = true
			all.Except = append(all.Except, text)
		}
	}
	return networkingv1.NetworkPolicyPeer{IPBlock: all}
}
