package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MachineRole is what a machine does in its cluster.
// +kubebuilder:validation:Enum=ControlPlane;Worker
type MachineRole string

// The roles of machines.
const (
	MachineControlPlane MachineRole = "ControlPlane"
	MachineWorker       MachineRole = "Worker"
)

// Reasons why a machine is not ready that others than its controller look at.
const (
	// ReasonMachineNoCapacity: the provider cannot give one more machine of that size now.
	ReasonMachineNoCapacity = "NoCapacity"
	// ReasonMachineInvalid: the machine cannot be made as it is described, however often it is tried.
	ReasonMachineInvalid = "InvalidMachine"
	// ReasonMachineLost: the machine was there, and is no longer.
	ReasonMachineLost = "MachineLost"
	// ReasonMachineFailed: the provider says that it will not run.
	ReasonMachineFailed = "MachineFailed"
)

// MachineSpec is one instance.
// +kubebuilder:validation:XValidation:rule="self.cluster == oldSelf.cluster && self.account == oldSelf.account && self.role == oldSelf.role",reason=FieldValueForbidden,message="a machine's cluster, account and role cannot change; delete it, and the platform makes another"
type MachineSpec struct {
	// Cluster that the machine belongs to.
	// +kubebuilder:validation:MinLength=1
	Cluster string `json:"cluster"`
	// NodeGroup that it is one of; empty for a control plane's machine.
	// +optional
	NodeGroup string `json:"nodeGroup,omitempty"`
	// Role of the machine.
	// +kubebuilder:default=Worker
	Role MachineRole `json:"role,omitempty"`
	// Account that it comes from.
	// +kubebuilder:validation:MinLength=1
	Account string `json:"account"`
	// InstanceType is its size.
	// +optional
	InstanceType string `json:"instanceType,omitempty"`
	// Resources it was given: CPU and memory.
	// +optional
	Resources Resources `json:"resources,omitempty"`
	// EphemeralStorage it was given.
	// +optional
	EphemeralStorage *resource.Quantity `json:"ephemeralStorage,omitempty"`
	// Version of Kubernetes on it.
	// +optional
	Version string `json:"version,omitempty"`
	// TemplateHash tells machines made from an older description from new ones.
	// +optional
	TemplateHash string `json:"templateHash,omitempty"`
}

// MachineStatus is what became of it.
type MachineStatus struct {
	// Phase is where the machine is in its life, in one word.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// ID that the provider knows it by.
	// +optional
	ID string `json:"id,omitempty"`
	// Address of the machine.
	// +optional
	Address string `json:"address,omitempty"`
	// NodeName is the name of its Node in the cluster.
	// +optional
	NodeName string `json:"nodeName,omitempty"`
	// ObservedGeneration is the generation that the status speaks of.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready: the machine is there and its node does its job; Joined: its node was ready once.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Machine is one instance of a cluster.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=instance,categories=plasmacloud
// +kubebuilder:selectablefield:JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name="Group",type=string,JSONPath=`.spec.nodeGroup`
// +kubebuilder:printcolumn:name="Role",type=string,JSONPath=`.spec.role`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.instanceType`
// +kubebuilder:printcolumn:name="Address",type=string,JSONPath=`.status.address`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Machine struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is the instance that is asked for.
	Spec MachineSpec `json:"spec"`
	// Status is what became of it.
	Status MachineStatus `json:"status,omitempty"`
}

// MachineList is a list of machines.
// +kubebuilder:object:root=true
type MachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Machine `json:"items"`
}
