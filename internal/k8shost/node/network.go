package node

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	network "plasmacloud.io/plasmacloud/internal/network/node"
	"plasmacloud.io/plasmacloud/internal/network/policy"
)

func (n *Node) networkConfig() network.Config {
	return network.Config{
		NodeName:    n.Config.NodeName,
		ClusterCIDR: n.ClusterCIDR,
		StateDir:    n.Dir.Network(),
		CNIConfDir:  n.Dir.CNIConf(),
	}
}

// Network returns the pod network's daemon, which runs inside the launcher. Its client may read nodes,
// and what network policies are made of.
func (n *Node) Network(client func() (kubernetes.Interface, error), policed bool) component.Component {
	return component.NewRoutine("prismnet", n.Log, nil, func(ctx context.Context) error {
		api, err := client()
		if err != nil {
			return err
		}
		var policies *policy.Sources
		if policed {
			policies = policySources(api)
		}
		daemon, err := network.New(n.networkConfig(), api.CoreV1().Nodes(), policies, n.Log.With("component", "prismnet"))
		if err != nil {
			return err
		}
		return daemon.Run(ctx)
	})
}

func policySources(api kubernetes.Interface) *policy.Sources {
	return &policy.Sources{
		Pods:       api.CoreV1().Pods(metav1.NamespaceAll),
		Namespaces: api.CoreV1().Namespaces(),
		Policies:   api.NetworkingV1().NetworkPolicies(metav1.NamespaceAll),
	}
}
