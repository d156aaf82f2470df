package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Quota bounds what a project may have. What is not named is not bounded.
type Quota struct {
	// Clusters is the number of clusters.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Clusters *int32 `json:"clusters,omitempty"`
	// Nodes is the number of worker nodes of all clusters, counted as the groups' current size.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Nodes *int32 `json:"nodes,omitempty"`
	// VCPU is the sum of the nodes' CPUs.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!quantity(string(self)).isLessThan(quantity('0'))",message="it cannot be less than nothing; remove it to lift the bound"
	VCPU *resource.Quantity `json:"vcpu,omitempty"`
	// Memory is the sum of the nodes' memory.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!quantity(string(self)).isLessThan(quantity('0'))",message="it cannot be less than nothing; remove it to lift the bound"
	Memory *resource.Quantity `json:"memory,omitempty"`
	// Volumes is the number of volumes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Volumes *int32 `json:"volumes,omitempty"`
}

// ProjectSpec is what a project is asked to be.
type ProjectSpec struct {
	// Organization that owns the project.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="a project stays with its organization; make a new project in the other one"
	Organization string `json:"organization"`
	// DisplayName is for people to read.
	// +optional
	// +kubebuilder:validation:MaxLength=120
	DisplayName string `json:"displayName,omitempty"`
	// Quota bounds what the project may have.
	// +optional
	Quota *Quota `json:"quota,omitempty"`
}

// ProjectStatus is what became of it.
type ProjectStatus struct {
	// Namespace is where the project's resources live.
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Used is what the project uses of its quota.
	// +optional
	Used *Quota `json:"used,omitempty"`
	// Phase is where the project is in its life, in one word.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// ObservedGeneration is the generation that the status speaks of.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready: the namespace is there with its permissions; while it is being deleted, False with what is still there.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Project is the home of clusters and networks: a namespace with its permissions and its quota.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=proj,categories=plasmacloud
// +kubebuilder:selectablefield:JSONPath=`.spec.organization`
// +kubebuilder:printcolumn:name="Organization",type=string,JSONPath=`.spec.organization`
// +kubebuilder:printcolumn:name="Namespace",type=string,JSONPath=`.status.namespace`
// +kubebuilder:printcolumn:name="Clusters",type=integer,JSONPath=`.status.used.clusters`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.used.nodes`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$')",message="metadata.name: use 1 to 40 lower-case letters, digits and '-', beginning and ending with a letter or digit"
type Project struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the project is asked to be.
	Spec ProjectSpec `json:"spec"`
	// Status is what became of it.
	Status ProjectStatus `json:"status,omitempty"`
}

// ProjectList is a list of projects.
// +kubebuilder:object:root=true
type ProjectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Project `json:"items"`
}
