package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// GPU is a kind of device that each node of a group has.
type GPU struct {
	// Name of the device, such as nvidia.com/AD102GL_L40S.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// RollingUpdate is how the nodes of a group are replaced.
// +kubebuilder:validation:XValidation:rule="!has(self.maxSurge) || !has(self.maxUnavailable) || !(string(self.maxSurge) in ['0', '0%']) || !(string(self.maxUnavailable) in ['0', '0%'])",fieldPath=".maxUnavailable",message="with maxSurge and maxUnavailable both 0 no node could ever be replaced; raise one of them"
type RollingUpdate struct {
	// MaxSurge is how many more nodes there may be than asked for, a number or a percentage.
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000 : self.matches('^(100|[0-9]{1,2})%$')",message="give a number from 0 to 1000, or a percentage such as 25%"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
	// MaxUnavailable is how many fewer there may be, a number or a percentage.
	// +kubebuilder:default=0
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 1000 : self.matches('^(100|[0-9]{1,2})%$')",message="give a number from 0 to 1000, or a percentage such as 25%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// NodeGroupTemplate is a group of worker nodes that are alike.
// +kubebuilder:validation:XValidation:rule="self.minReplicas <= self.maxReplicas",fieldPath=".minReplicas",message="minReplicas is greater than maxReplicas; lower it, or raise maxReplicas"
// +kubebuilder:validation:XValidation:rule="!has(self.replicas) || (self.replicas >= self.minReplicas && self.replicas <= self.maxReplicas)",fieldPath=".replicas",message="replicas lies outside minReplicas and maxReplicas; change the bounds too"
type NodeGroupTemplate struct {
	// MinReplicas is the least number of nodes.
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MinReplicas int32 `json:"minReplicas"`
	// MaxReplicas is the greatest number of nodes.
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	MaxReplicas int32 `json:"maxReplicas"`
	// Replicas is the number of nodes now; minReplicas where it is not given.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`
	// InstanceType is the size of the nodes, from the catalogue.
	// +kubebuilder:default="u1.medium"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	InstanceType string `json:"instanceType,omitempty"`
	// EphemeralStorage of each node.
	// +kubebuilder:default="20Gi"
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self > 0 : !self.startsWith('-') && (!self.startsWith('0') || self.startsWith('0.'))",message="it has to be more than nothing, such as 20Gi"
	EphemeralStorage *resource.Quantity `json:"ephemeralStorage,omitempty"`
	// Roles of the nodes, such as ingress-nginx; each becomes a label node-role.kubernetes.io/<role>.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=40
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Roles []string `json:"roles,omitempty"`
	// Resources of each node, instead of the instance type's.
	// +optional
	Resources Resources `json:"resources,omitempty"`
	// GPUs of each node. NVIDIA's driver needs nodes with at least 4Gi of memory.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	GPUs []GPU `json:"gpus,omitempty"`
	// Labels of the nodes.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	Labels map[string]string `json:"labels,omitempty"`
	// Taints of the nodes.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	Taints []corev1.Taint `json:"taints,omitempty"`
	// RollingUpdate is how nodes are replaced when the group's description changes.
	// +kubebuilder:default={}
	RollingUpdate RollingUpdate `json:"rollingUpdate,omitempty"`
}

// NodeGroupSpec is a group of a cluster's nodes. It is made from the cluster's spec.nodeGroups.
type NodeGroupSpec struct {
	// Cluster that the group belongs to.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="a group stays with its cluster; change spec.nodeGroups of the other cluster"
	Cluster string `json:"cluster"`
	// Group is its name in the cluster's spec.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="a group keeps its name; change spec.nodeGroups of the cluster"
	Group string `json:"group"`
	// Replicas is the number of nodes; kubectl scale and an autoscaler set it.
	// +kubebuilder:default=0
	// +kubebuilder:validation:Minimum=0
	Replicas int32 `json:"replicas"`
	// Version of Kubernetes on the nodes.
	// +optional
	Version string `json:"version,omitempty"`
	// Template is the group as the cluster describes it.
	Template NodeGroupTemplate `json:"template"`
}

// NodeGroupStatus is what became of it.
type NodeGroupStatus struct {
	// Phase is where the group is in its life, in one word.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Replicas that exist.
	// +optional
	Replicas int32 `json:"replicas"`
	// ReadyReplicas that are Ready nodes.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// UpdatedReplicas that fit the template.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// Selector of the group's machines, for autoscalers.
	// +optional
	Selector string `json:"selector,omitempty"`
	// ObservedGeneration is the generation that the status speaks of.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready: all nodes of the group do their job; Stalled: a person has to act, and the message says how.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NodeGroup is a group of a cluster's worker nodes.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=ng,categories=plasmacloud
// +kubebuilder:selectablefield:JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.template.instanceType`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.spec.version`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.spec.replicas >= self.spec.template.minReplicas && self.spec.replicas <= self.spec.template.maxReplicas",fieldPath=".spec.replicas",message="replicas lies outside the group's minReplicas and maxReplicas; change the bounds in the cluster's spec.nodeGroups"
type NodeGroup struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the group as it should be.
	Spec NodeGroupSpec `json:"spec"`
	// Status is what became of it.
	Status NodeGroupStatus `json:"status,omitempty"`
}

// NodeGroupList is a list of node groups.
// +kubebuilder:object:root=true
type NodeGroupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []NodeGroup `json:"items"`
}
