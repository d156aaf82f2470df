package bootstrap

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// NodeOptions are what one machine has of its own.
type NodeOptions struct {
	// Name of the node.
	Name string
	// TokenFile is where the machine finds its token.
	TokenFile string
	// Labels and Taints that the node registers with. Labels that only the control plane may set do not belong here.
	Labels map[string]string
	Taints []corev1.Taint
	// KubeletArgs are further flags of the kubelet, as key=value.
	KubeletArgs []string
}

// agentConfig is the part of k8shost's configuration file that a machine needs; the names are those of the flags.
type agentConfig struct {
	Server            string   `json:"server"`
	TokenFile         string   `json:"token-file"`
	NodeName          string   `json:"node-name"`
	KubernetesVersion string   `json:"kubernetes-version"`
	NodeLabels        []string `json:"node-label,omitempty"`
	NodeTaints        []string `json:"node-taint,omitempty"`
	KubeletArgs       []string `json:"kubelet-arg,omitempty"`
}

// AgentConfig is the configuration file of `k8shost agent` on a machine that joins.
func AgentConfig(join Join, node NodeOptions) ([]byte, error) {
	if err := join.Validate(); err != nil {
		return nil, err
	}
	if node.Name == "" || node.TokenFile == "" {
		return nil, fmt.Errorf("configure node %q: its name and the file of its token are needed", node.Name)
	}
	config := agentConfig{
		Server: join.Server, TokenFile: node.TokenFile, NodeName: node.Name,
		KubernetesVersion: join.KubernetesVersion, KubeletArgs: node.KubeletArgs,
	}
	for _, key := range slices.Sorted(maps.Keys(node.Labels)) {
		config.NodeLabels = append(config.NodeLabels, key+"="+node.Labels[key])
	}
	for _, taint := range node.Taints {
		config.NodeTaints = append(config.NodeTaints, taint.Key+"="+taint.Value+":"+string(taint.Effect))
	}
	content, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("configure node %s: %w", node.Name, err)
	}
	return content, nil
}
