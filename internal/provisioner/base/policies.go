package base

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// labelNamespaceName is on every namespace, with its name.
const labelNamespaceName = corev1.LabelMetadataName

// Clients are who may reach the cluster's API from outside.
func (b *Build) Clients(site Site) []networkingv1.NetworkPolicyPeer {
	if b.Limited() {
		return blocks(b.Cluster.Spec.Access.CIDRs)
	}
	// Everybody but other pods of the management cluster, which are other clusters' machines.
	return []networkingv1.NetworkPolicyPeer{EverywhereBut(site.PodCIDRs)}
}

// Limited tells whether not everybody may reach the API.
func (b *Build) Limited() bool {
	access := b.Cluster.Spec.Access
	return len(access.CIDRs) > 0 || access.Public != nil && !*access.Public
}

// MachinePolicy lets a cluster's machines reach one another, their own control plane and the world, but nothing else
// of the management cluster. Others reach them as the rules say.
func (b *Build) MachinePolicy(site Site, e Endpoint, rules ...networkingv1.NetworkPolicyIngressRule) runtime.Object {
	hidden := append(append([]netip.Prefix(nil), site.PodCIDRs...), site.ServiceCIDRs...)
	for _, address := range site.NodeAddresses {
		hidden = append(hidden, netip.PrefixFrom(address, address.BitLen()))
	}
	if e.Address.IsValid() {
		hidden = append(hidden, netip.PrefixFrom(e.Address, e.Address.BitLen()))
	}
	own := networkingv1.NetworkPolicyEgressRule{To: []networkingv1.NetworkPolicyPeer{Host(e.Address)}}
	for _, number := range e.ports {
		own.Ports = append(own.Ports, Port(corev1.ProtocolTCP, number))
	}
	slices.SortFunc(own.Ports, func(x, y networkingv1.NetworkPolicyPort) int { return x.Port.IntValue() - y.Port.IntValue() })
	return b.Policy(v1alpha1.ComponentMachine, networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		Ingress:     append([]networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{OwnPods()}}}, rules...),
		Egress: []networkingv1.NetworkPolicyEgressRule{
			{To: []networkingv1.NetworkPolicyPeer{OwnPods()}}, ToDNS(), own,
			{To: []networkingv1.NetworkPolicyPeer{EverywhereBut(hidden)}},
		},
	})
}

// Policy is one for the pods of a component, and has its name.
func (b *Build) Policy(component string, spec networkingv1.NetworkPolicySpec) *networkingv1.NetworkPolicy {
	spec.PodSelector = metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelComponent: component}}
	return &networkingv1.NetworkPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: networkingv1.SchemeGroupVersion.String(), Kind: "NetworkPolicy"},
		ObjectMeta: b.Meta(component), Spec: spec,
	}
}

// OwnPods are all pods of the cluster.
func OwnPods() networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{}}
}

// ComponentPods are those of one component.
func ComponentPods(component string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{v1alpha1.LabelComponent: component}}}
}

// NamespacePods are all pods of a namespace.
func NamespacePods(name string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{labelNamespaceName: name}}}
}

// ToDNS lets pods ask the management cluster for names.
func ToDNS() networkingv1.NetworkPolicyEgressRule {
	peer := NamespacePods(metav1.NamespaceSystem)
	peer.PodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": "kube-dns"}}
	return networkingv1.NetworkPolicyEgressRule{
		To:    []networkingv1.NetworkPolicyPeer{peer},
		Ports: []networkingv1.NetworkPolicyPort{Port(corev1.ProtocolUDP, 53), Port(corev1.ProtocolTCP, 53)},
	}
}

// Port is one port.
func Port(protocol corev1.Protocol, number int) networkingv1.NetworkPolicyPort {
	value := intstr.FromInt32(int32(number))
	return networkingv1.NetworkPolicyPort{Protocol: &protocol, Port: &value}
}

// Host is one address.
func Host(address netip.Addr) networkingv1.NetworkPolicyPeer {
	return block(netip.PrefixFrom(address, address.BitLen()))
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

// EverywhereBut is all IPv4 addresses except for some.
func EverywhereBut(hidden []netip.Prefix) networkingv1.NetworkPolicyPeer {
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
