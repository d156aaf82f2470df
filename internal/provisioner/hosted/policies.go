package hosted

import (
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/provisioner/base"
)

// policies are the walls around a cluster's pods that do not depend on its ports.
func (b *build) policies(site base.Site) []runtime.Object {
	controlPlane := networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		Ingress:     []networkingv1.NetworkPolicyIngressRule{{From: append([]networkingv1.NetworkPolicyPeer{base.OwnPods(), base.NamespacePods(b.Platform)}, b.Clients(site)...)}},
		// The datastore and the identity service; nodes, pods and webhooks are reached through the tunnel.
		Egress: []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{base.OwnPods(), base.NamespacePods(b.Platform)}}, base.ToDNS()},
	}
	datastore := networkingv1.NetworkPolicySpec{
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{
			base.ComponentPods(v1alpha1.ComponentControlPlane), base.ComponentPods(v1alpha1.ComponentDatastore), base.NamespacePods(b.Platform),
		}}},
	}
	return []runtime.Object{
		b.Policy(v1alpha1.ComponentControlPlane, controlPlane),
		b.Policy(v1alpha1.ComponentDatastore, datastore),
	}
}
