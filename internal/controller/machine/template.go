package machine

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// Backs tells whether the nodes of a cluster are machines of ours.
func Backs(clusterType v1alpha1.ClusterType) bool {
	return clusterType == v1alpha1.ClusterHosted || OverSSH(clusterType)
}

// Version of Kubernetes on the machines of a group: the group's own, or else the control plane's.
func Version(cluster *v1alpha1.Cluster, group *v1alpha1.NodeGroup) string {
	if group.Spec.Version != "" {
		return group.Spec.Version
	}
	return cluster.Status.Version
}

// TemplateHash tells machines that were made from the group's description as it is now from older ones. What is not of
// a machine, such as the group's number of them, does not count.
func TemplateHash(template *v1alpha1.NodeGroupTemplate, version string) string {
	content, err := json.Marshal(struct {
		Version          string
		InstanceType     string
		EphemeralStorage *resource.Quantity
		Roles            []string
		Resources        v1alpha1.Resources
		GPUs             []v1alpha1.GPU
		Labels           map[string]string
		Taints           []corev1.Taint
	}{
		version, template.InstanceType, template.EphemeralStorage, template.Roles, template.Resources,
		template.GPUs, template.Labels, template.Taints,
	})
	if err != nil {
		return "" // cannot be: it came as JSON
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:4])
}

// current tells whether the machine fits its group's description as it is now. Without a group it always does.
func (s *scope) current() bool {
	return s.group == nil || s.machine.Spec.TemplateHash == TemplateHash(&s.group.Spec.Template, Version(s.cluster, s.group))
}

// nodeRolePrefix is followed by a role in the labels of nodes.
const nodeRolePrefix = "node-role.kubernetes.io/"

// labels of the machine's node.
func (s *scope) labels() map[string]string {
	if s.group == nil {
		return nil
	}
	labels := maps.Clone(s.group.Spec.Template.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	for _, role := range s.group.Spec.Template.Roles {
		labels[nodeRolePrefix+role] = ""
	}
	labels[v1alpha1.LabelNodeGroup] = s.machine.Spec.NodeGroup
	if s.machine.Spec.InstanceType != "" {
		labels[corev1.LabelInstanceTypeStable] = s.machine.Spec.InstanceType
	}
	return labels
}

// kubeletLabels are those of the labels that a kubelet may set itself, so that they are there from the beginning.
func kubeletLabels(labels map[string]string) map[string]string {
	own := maps.Clone(labels)
	maps.DeleteFunc(own, func(key, _ string) bool {
		domain, _, _ := strings.Cut(key, "/")
		return strings.HasSuffix(domain, "kubernetes.io") || strings.HasSuffix(domain, "k8s.io")
	})
	return own
}
