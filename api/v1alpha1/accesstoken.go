package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AccessTokenSpec is what a token is good for. The token itself is shown once, when it is made; only its hash is kept.
// +kubebuilder:validation:XValidation:rule="(has(self.project) && size(self.project) > 0) == (has(oldSelf.project) && size(oldSelf.project) > 0) && (!has(self.project) || !has(oldSelf.project) || self.project == oldSelf.project)",reason=FieldValueForbidden,fieldPath=".project",message="what a token is good for cannot change; make a new token"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.revoked) || !oldSelf.revoked || (has(self.revoked) && self.revoked)",reason=FieldValueForbidden,fieldPath=".revoked",message="a revoked token stays revoked; make a new token"
type AccessTokenSpec struct {
	// User that the token speaks for.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="a token cannot change hands; make a new token"
	User string `json:"user"`
	// SHA256 of the token, in hexadecimal. `cloud token create` makes a token and this.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{64}$')",message="this is no SHA-256 sum of a token; it has 64 hexadecimal digits in lower case"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="it cannot change; make a new token"
	SHA256 string `json:"sha256"`
	// Description says what it is for.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	Description string `json:"description,omitempty"`
	// Project that the token is confined to; all of the user's where it is empty.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	Project string `json:"project,omitempty"`
	// ExpiresAt is when it ends; never where it is empty.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`
	// Revoked tokens are refused at once, and for good.
	// +optional
	Revoked bool `json:"revoked,omitempty"`
}

// AccessTokenStatus is what became of it.
type AccessTokenStatus struct {
	// LastUsed is when it was used last, to the hour.
	// +optional
	LastUsed *metav1.Time `json:"lastUsed,omitempty"`
}

// AccessToken lets a program, or a person, in without a password.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=token,categories=plasmacloud
// +kubebuilder:selectablefield:JSONPath=`.spec.user`
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.spec.user`
// +kubebuilder:printcolumn:name="Description",type=string,JSONPath=`.spec.description`
// +kubebuilder:printcolumn:name="Expires",type=date,JSONPath=`.spec.expiresAt`
// +kubebuilder:printcolumn:name="Revoked",type=boolean,JSONPath=`.spec.revoked`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AccessToken struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the token is good for.
	Spec AccessTokenSpec `json:"spec"`
	// Status is what became of it.
	Status AccessTokenStatus `json:"status,omitempty"`
}

// AccessTokenList is a list of access tokens.
// +kubebuilder:object:root=true
type AccessTokenList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AccessToken `json:"items"`
}
