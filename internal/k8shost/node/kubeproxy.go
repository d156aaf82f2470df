package node

import (
	"context"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	componentbase "k8s.io/component-base/config/v1alpha1"
	proxyconfig "k8s.io/kube-proxy/config/v1alpha1"
	"sigs.k8s.io/yaml"

	"plasmacloud.io/plasmacloud/internal/atomicfile"
	"plasmacloud.io/plasmacloud/internal/k8shost/component"
)

// proxyHealthPort is asked from outside too: by load balancers in front of services with local endpoints only.
const proxyHealthPort = "10256"

// KubeProxy returns kube-proxy in nftables mode.
func (n *Node) KubeProxy(credentials Credentials) (*component.Process, error) {
	binary, err := n.Release.Kube(n.Version)
	if err != nil {
		return nil, err
	}
	configFile := filepath.Join(n.Dir.Agent(), "kube-proxy.yaml")
	args := []string{"--config=" + configFile}
	for _, arg := range n.Config.KubeProxyArgs {
		args = append(args, "--"+strings.TrimLeft(arg, "-"))
	}
	return n.process(component.Spec{
		Name: "kube-proxy", Path: binary, Args: args,
		Prepare: func(context.Context) error {
			content, err := yaml.Marshal(n.proxyConfiguration(credentials))
			if err != nil {
				return err
			}
			_, err = atomicfile.WriteChanged(configFile, content, 0o600)
			return err
		},
		Probe: answering("http://127.0.0.1:" + proxyHealthPort + "/livez"),
	}), nil
}

func (n *Node) proxyConfiguration(credentials Credentials) *proxyconfig.KubeProxyConfiguration {
	settings := &proxyconfig.KubeProxyConfiguration{
		TypeMeta:           metav1.TypeMeta{APIVersion: "kubeproxy.config.k8s.io/v1alpha1", Kind: "KubeProxyConfiguration"},
		ClientConnection:   componentbase.ClientConnectionConfiguration{Kubeconfig: credentials.Proxy},
		Mode:               "nftables",
		ClusterCIDR:        n.ClusterCIDR.String(),
		HostnameOverride:   n.Config.NodeName,
		BindAddress:        n.Config.NodeIP.String(),
		HealthzBindAddress: "0.0.0.0:" + proxyHealthPort,
		MetricsBindAddress: "127.0.0.1:10249",
		OOMScoreAdj:        ptr(int32(oomScoreAdj(n.Settings))),
	}
	if n.Settings.KubeProxyConntrackUntouched {
		// Zero means leave alone. In a network namespace of its own a node may not change the host's limits.
		zero := int32(0)
		settings.Conntrack = proxyconfig.KubeProxyConntrackConfiguration{
			MaxPerCore: &zero, Min: &zero,
			TCPEstablishedTimeout: &metav1.Duration{}, TCPCloseWaitTimeout: &metav1.Duration{},
		}
	}
	return settings
}
