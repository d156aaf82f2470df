package k3s

import (
	"fmt"
	"maps"
	"net"
	"slices"

	"sigs.k8s.io/yaml"

	"plasmacloud.io/plasmacloud/internal/hostsetup"
)

// settings are the flags of k3s, by their names, as far as they are used. k8shost has the same, and those at the end
// besides.
type settings struct {
	DataDir string `json:"data-dir"`

	ClusterInit bool   `json:"cluster-init,omitempty"`
	Server      string `json:"server,omitempty"`
	TokenFile   string `json:"token-file,omitempty"`

	Disable              []string `json:"disable,omitempty"`
	FlannelBackend       string   `json:"flannel-backend,omitempty"`
	DisableNetworkPolicy bool     `json:"disable-network-policy,omitempty"`

	ClusterDomain    string `json:"cluster-domain,omitempty"`
	ClusterCIDR      string `json:"cluster-cidr,omitempty"`
	ServiceCIDR      string `json:"service-cidr,omitempty"`
	BindAddress      string `json:"bind-address,omitempty"`
	AdvertiseAddress string `json:"advertise-address,omitempty"`

	TLSSANs             []string `json:"tls-san,omitempty"`
	WriteKubeconfig     string   `json:"write-kubeconfig,omitempty"`
	WriteKubeconfigMode string   `json:"write-kubeconfig-mode,omitempty"`
	KubeAPIServerArgs   []string `json:"kube-apiserver-arg,omitempty"`

	NodeName    string   `json:"node-name"`
	NodeIP      string   `json:"node-ip"`
	NodeLabels  []string `json:"node-label,omitempty"`
	NodeTaints  []string `json:"node-taint,omitempty"`
	KubeletArgs []string `json:"kubelet-arg,omitempty"`

	// These are k8shost's own.
	KubernetesVersion string `json:"kubernetes-version,omitempty"`
	Datastore         string `json:"datastore,omitempty"`
}

// place is where a server stands in the beginning of its cluster.
type place int

const (
	first   place = iota // it makes the cluster
	further              // it joins one
)

// place is where the server with these settings stands.
func (s *settings) place() place {
	if s.Server != "" {
		return further
	}
	return first
}

// highlyAvailable tells whether the server with these settings keeps its objects in etcd, with others or to have others.
func (s *settings) highlyAvailable() bool { return s.ClusterInit || s.Server != "" }

// disabled is what k3s brings along and the platform has its own of.
var disabled = []string{"servicelb", "traefik", "flannel", "local-storage"}

// serverSettings are those of a server. Without HA it is the only one, and keeps its objects in SQLite.
func (d *Distribution) serverSettings(host hostsetup.Host, cluster hostsetup.Cluster, at place) settings {
	s := d.nodeSettings(host, cluster)
	s.Disable, s.FlannelBackend = disabled, "none"
	s.ClusterDomain, s.ClusterCIDR, s.ServiceCIDR = cluster.Network.Domain, cluster.Network.PodCIDR, cluster.Network.ServiceCIDR
	s.BindAddress, s.AdvertiseAddress = "0.0.0.0", host.Address
	s.TLSSANs = slices.Clone(cluster.SANs)
	if name, _, err := net.SplitHostPort(cluster.Endpoint); err == nil && !slices.Contains(s.TLSSANs, name) {
		s.TLSSANs = append(s.TLSSANs, name)
	}
	s.WriteKubeconfig, s.WriteKubeconfigMode = kubeconfigFile, "0600"
	switch {
	case cluster.HA && at == first:
		s.ClusterInit = true
	case cluster.HA:
		s.Server, s.TokenFile = "https://"+cluster.Endpoint, tokenFile
	case !d.upstream(): // k3s has it without being asked
		s.Datastore = "sqlite"
	}
	if d.upstream() {
		// k8shost's policies are PrismNET's, as its audit log is its own.
		s.DisableNetworkPolicy = true
		s.KubeAPIServerArgs = []string{
			"audit-log-path=" + dataDir + "/server/logs/audit.log", "audit-log-maxage=30", "audit-log-maxbackup=10", "audit-log-maxsize=100",
		}
	}
	return s
}

func (d *Distribution) agentSettings(host hostsetup.Host, cluster hostsetup.Cluster) settings {
	s := d.nodeSettings(host, cluster)
	s.Server, s.TokenFile = "https://"+cluster.Endpoint, tokenFile
	return s
}

// nodeSettings are what servers and agents have in common.
func (d *Distribution) nodeSettings(host hostsetup.Host, cluster hostsetup.Cluster) settings {
	s := settings{DataDir: dataDir, NodeName: host.Name, NodeIP: host.Address, KubeletArgs: host.KubeletArgs}
	if !d.upstream() {
		s.KubernetesVersion = cluster.Version
	}
	for _, key := range slices.Sorted(maps.Keys(host.Labels)) {
		s.NodeLabels = append(s.NodeLabels, key+"="+host.Labels[key])
	}
	for _, taint := range host.Taints {
		s.NodeTaints = append(s.NodeTaints, fmt.Sprintf("%s=%s:%s", taint.Key, taint.Value, taint.Effect))
	}
	return s
}

func (s settings) render() ([]byte, error) {
	content, err := yaml.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("configure node %s: %w", s.NodeName, err)
	}
	return append([]byte("# Written by PlasmaCloud; changes are undone.\n"), content...), nil
}
