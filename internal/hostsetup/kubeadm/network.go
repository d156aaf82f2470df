package kubeadm

import (
	"bytes"
	_ "embed"
	"fmt"
	"text/template"

	"plasmacloud.io/plasmacloud/internal/hostsetup"
)

//go:embed prismnet.service
var networkUnit string

const networkService = "prismnet.service"

// renderNetwork is the unit of the pod network's daemon, which is started when the host is a node.
func renderNetwork(host hostsetup.Host, cluster hostsetup.Cluster) ([]byte, error) {
	parsed, err := template.New(networkService).Parse(networkUnit)
	if err != nil {
		return nil, fmt.Errorf("read unit of the pod network: %w", err)
	}
	var out bytes.Buffer
	err = parsed.Execute(&out, map[string]string{
		"Program": hostsetup.ReleaseDir + "/bin/prismnet", "Kubeconfig": kubernetesDir + "/kubelet.conf", "Node": host.Name,
		"PodCIDR": cluster.Network.PodCIDR, "State": networkDir, "Conf": hostsetup.CNIConfDir, "Bin": hostsetup.CNIBinDir,
	})
	if err != nil {
		return nil, fmt.Errorf("write unit of the pod network: %w", err)
	}
	return out.Bytes(), nil
}
