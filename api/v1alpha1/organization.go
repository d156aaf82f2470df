package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// OrganizationSpec is what an organization is asked to be.
type OrganizationSpec struct {
	// DisplayName is for people to read.
	// +optional
	// +kubebuilder:validation:MaxLength=120
	DisplayName string `json:"displayName,omitempty"`
	// Quota bounds all projects of the organization together. What is not named is not bounded.
	// +optional
	Quota *Quota `json:"quota,omitempty"`
}

// OrganizationStatus is what became of it.
type OrganizationStatus struct {
	// Projects is how many there are.
	// +optional
	Projects int32 `json:"projects"`
	// Used is what its projects use together.
	// +optional
	Used *Quota `json:"used,omitempty"`
	// ObservedGeneration is the generation that the status speaks of.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready; while it is being deleted, False with the projects and users that are still there.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Organization is a customer: it owns projects and users.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=org,categories=plasmacloud
// +kubebuilder:printcolumn:name="Title",type=string,JSONPath=`.spec.displayName`
// +kubebuilder:printcolumn:name="Projects",type=integer,JSONPath=`.status.projects`
// +kubebuilder:printcolumn:name="Clusters",type=integer,JSONPath=`.status.used.clusters`
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.used.nodes`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$')",message="metadata.name: use 1 to 40 lower-case letters, digits and '-', beginning and ending with a letter or digit"
type Organization struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the organization is asked to be.
	// +optional
	Spec OrganizationSpec `json:"spec,omitempty"`
	// Status is what became of it.
	Status OrganizationStatus `json:"status,omitempty"`
}

// OrganizationList is a list of organizations.
// +kubebuilder:object:root=true
type OrganizationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Organization `json:"items"`
}
