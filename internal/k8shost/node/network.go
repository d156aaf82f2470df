package node

import (
	"context"

	"k8s.io/client-go/kubernetes"

	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	network "plasmacloud.io/plasmacloud/internal/network/node"
)

func (n *Node) networkConfig() network.Config {
	return network.Config{
		NodeName:    n.Config.NodeName,
		ClusterCIDR: n.ClusterCIDR,
		StateDir:    n.Dir.Network(),
		CNIConfDir:  n.Dir.CNIConf(),
	}
}

// Network returns the pod network's daemon, which runs inside the launcher. Its client may read nodes.
func (n *Node) Network(client func() (kubernetes.Interface, error)) component.Component {
	return component.NewRoutine("prismnet", n.Log, nil, func(ctx context.Context) error {
		api, err := client()
		if err != nil {
			return err
		}
		daemon, err := network.New(n.networkConfig(), api.CoreV1().Nodes(), n.Log.With("component", "prismnet"))
		if err != nil {
			return err
		}
		return daemon.Run(ctx)
	})
}
