package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AccessTokenSpec is what a token is good for. The token itself is shown once, when it is made; only its hash is kept.
// +kubebuilder:validation:XValidation:rule="self.user == oldSelf.user && self.sha256 == oldSelf.sha256",message="spec.user, spec.sha256: a token cannot change hands; make a new one"
type AccessTokenSpec struct {
	// User that the token speaks for.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	User string `json:"user"`
	// SHA256 of the token, in hexadecimal.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{64}$`
	SHA256 string `json:"sha256"`
	// Description says what it is for.
	// +optional
	// +kubebuilder:validation:MaxLength=200
	Description string `json:"description,omitempty"`
	// Project that the token is confined to; all of the user's where it is empty.
	// +optional
	// +kubebuilder:validation:MaxLength=40
	Project string `json:"project,omitempty"`
	// ExpiresAt is when it ends.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`
	// Revoked tokens are refused at once.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self || !oldSelf",message="spec.revoked: a revoked token stays revoked; make a new one"
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
// +kubebuilder:resource:scope=Cluster,categories=plasmacloud
// +kubebuilder:printcolumn:name="User",type=string,JSONPath=`.spec.user`
// +kubebuilder:printcolumn:name="Description",type=string,JSONPath=`.spec.description`
// +kubebuilder:printcolumn:name="Expires",type=date,JSONPath=`.spec.expiresAt`
// +kubebuilder:printcolumn:name="Revoked",type=boolean,JSONPath=`.spec.revoked`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type AccessToken struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AccessTokenSpec   `json:"spec"`
	Status AccessTokenStatus `json:"status,omitempty"`
}

// AccessTokenList is a list of access tokens.
// +kubebuilder:object:root=true
type AccessTokenList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AccessToken `json:"items"`
}
