package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// BucketAccess is who of a cluster may use a bucket.
type BucketAccess struct {
	// Namespace of the service account.
	// +optional
	// +kubebuilder:default=default
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// ServiceAccount of the pods that read and write it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ServiceAccount string `json:"serviceAccount"`
}

// BucketSpec is what a bucket is asked to be.
type BucketSpec struct {
	// Cluster that the bucket is for. It lies in the account that the cluster is in.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="it cannot change; make a new bucket"
	Cluster string `json:"cluster"`
	// Access is who of the cluster may use it; nobody where it is not given.
	// +optional
	Access *BucketAccess `json:"access,omitempty"`
	// Versioning keeps what was overwritten or deleted.
	// +optional
	// +kubebuilder:default=true
	Versioning *bool `json:"versioning,omitempty"`
	// EncryptionKey of the cloud that objects are encrypted with; the cloud's own where it is not given. Azure has its own
	// only.
	// +optional
	// +kubebuilder:validation:MaxLength=500
	EncryptionKey string `json:"encryptionKey,omitempty"`
	// DeleteObjects lets the bucket be deleted with all that is in it. Otherwise the cloud refuses to delete one that is not
	// empty.
	// +optional
	DeleteObjects bool `json:"deleteObjects,omitempty"`
	// InfraVersion is the version of the infrastructure's configuration; it stays until it is changed here.
	// +optional
	// +kubebuilder:validation:MaxLength=20
	InfraVersion string `json:"infraVersion,omitempty"`
	// RepairDrift has what somebody else changes in the cloud put right by itself, where nothing is lost by that. Otherwise
	// it is only told, by the condition Drifted.
	// +optional
	RepairDrift bool `json:"repairDrift,omitempty"`
}

// BucketStatus is what became of it.
type BucketStatus struct {
	StackStatus `json:",inline"`
	// Phase is where the bucket is in its life, in one word.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// ID that the cloud knows the bucket by.
	// +optional
	ID string `json:"id,omitempty"`
	// Endpoint that it is reached at.
	// +optional
	Endpoint string `json:"endpoint,omitempty"`
	// ObservedGeneration is the generation that the bucket was brought to.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready: objects can be kept in it; Progressing: a task changes it; Stalled: a person has to act; Drifted: somebody else
	// has changed what is in the cloud.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Bucket is storage for objects, in the cloud that a cluster is in.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=bkt,categories=plasmacloud
// +kubebuilder:selectablefield:JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.spec.cluster`
// +kubebuilder:printcolumn:name="ID",type=string,JSONPath=`.status.id`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$')",message="metadata.name: use 1 to 40 lower-case letters, digits and '-', beginning with a letter and not ending with '-'"
type Bucket struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the bucket is asked to be.
	Spec BucketSpec `json:"spec"`
	// Status is what became of it.
	Status BucketStatus `json:"status,omitempty"`
}

// BucketList is a list of buckets.
// +kubebuilder:object:root=true
type BucketList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Bucket `json:"items"`
}
