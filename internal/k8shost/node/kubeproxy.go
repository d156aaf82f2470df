package node

import (
	"strconv"

	"plasmacloud.io/plasmacloud/internal/k8shost/component"
)

// proxyHealthPort is asked from outside too: by load balancers in front of services with local endpoints only.
const proxyHealthPort = "10256"

// KubeProxy returns kube-proxy in nftables mode. It is told everything by flags: next to a configuration file it would
// ignore those that the user adds.
func (n *Node) KubeProxy(credentials Credentials) (*component.Process, error) {
	binary, err := n.Release.Kube(n.Version)
	if err != nil {
		return nil, err
	}
	args := []string{
		"kubeconfig=" + credentials.Proxy,
		"proxy-mode=nftables",
		"cluster-cidr=" + n.ClusterCIDR.String(),
		"hostname-override=" + n.Config.NodeName,
		"bind-address=" + n.Config.NodeIP.String(),
		"healthz-bind-address=0.0.0.0:" + proxyHealthPort,
		"metrics-bind-address=127.0.0.1:10249",
		"oom-score-adj=" + strconv.Itoa(oomScoreAdj(n.Settings)),
	}
	if n.Settings.KubeProxyConntrackUntouched {
		// Zero means leave alone. In a network namespace of its own a node may not change the host's limits.
		args = append(args, "conntrack-max-per-core=0", "conntrack-min=0",
			"conntrack-tcp-timeout-established=0s", "conntrack-tcp-timeout-close-wait=0s")
	}
	return n.process(component.Spec{
		Name: "kube-proxy", Path: binary, Args: n.Config.KubeProxyArgs.Flags(args...),
		Probe: answering("http://127.0.0.1:" + proxyHealthPort + "/livez"),
	}), nil
}
