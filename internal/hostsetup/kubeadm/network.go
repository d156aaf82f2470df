package kubeadm

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"text/template"

	"plasmacloud.io/plasmacloud/internal/hostsetup"
)

//go:embed prismnet.service
var networkUnit string

const networkService = "prismnet.service"

// layNetwork installs the pod network's daemon, unless the cluster's people bring their own network. It is started when
// the host is a node.
func (d *Distribution) layNetwork(ctx context.Context, host hostsetup.Host, cluster hostsetup.Cluster, progress func(string)) error {
	if cluster.Network.CNI != hostsetup.CNIPrismNET {
		return nil
	}
	if _, err := d.installer.LayOwn(ctx, host, "prismnet", progress); err != nil {
		return err
	}
	unit, err := renderNetwork(host, cluster)
	if err != nil {
		return err
	}
	_, err = d.installer.LayFiles(ctx, host.Client, stepNetwork, map[string][]byte{hostsetup.UnitDir + "/" + networkService: unit})
	return err
}

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
