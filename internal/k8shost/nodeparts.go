package k8shost

import (
	"k8s.io/client-go/kubernetes"

	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/config"
	"plasmacloud.io/plasmacloud/internal/k8shost/node"
)

// nodeParts are the programs that make a host with a container runtime a node.
func nodeParts(n *node.Node, credentials node.Credentials, disabled func(name string) bool) (component.Stage, error) {
	kubelet, err := n.Kubelet(credentials)
	if err != nil {
		return nil, err
	}
	parts := component.Stage{kubelet}
	if !disabled("kube-proxy") {
		proxy, err := n.KubeProxy(credentials)
		if err != nil {
			return nil, err
		}
		parts = append(parts, proxy)
	}
	client := func() (kubernetes.Interface, error) { return clientOf(credentials.Proxy) }
	return append(parts, n.Network(client, !disabled(config.NetworkPolicy))), nil
}
