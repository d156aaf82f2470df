package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UserKind tells people and programs apart.
// +kubebuilder:validation:Enum=Person;ServiceAccount
type UserKind string

// The kinds of users.
const (
	UserPerson         UserKind = "Person"
	UserServiceAccount UserKind = "ServiceAccount"
)

// Role is what a user may do in a project or an organization.
// +kubebuilder:validation:Enum=admin;member;viewer
type Role string

// The roles.
const (
	RoleAdmin  Role = "admin"
	RoleMember Role = "member"
	RoleViewer Role = "viewer"
)

// Membership is a user's role in a project.
type Membership struct {
	// Project by name.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	Project string `json:"project"`
	// Role in it: admin and member change things, viewer reads them.
	// +kubebuilder:default=member
	Role Role `json:"role,omitempty"`
}

// UserSpec is who a user is and what the user may do.
// +kubebuilder:validation:XValidation:rule="self.kind != 'Person' || size(self.email) > 0",reason=FieldValueRequired,fieldPath=".email",message="a person needs an e-mail address; it is the name to log in with"
// +kubebuilder:validation:XValidation:rule="self.kind != 'ServiceAccount' || size(self.projects) == 1",fieldPath=".projects",message="a service account belongs to exactly one project; name that one"
type UserSpec struct {
	// Kind is Person or ServiceAccount.
	// +kubebuilder:default=Person
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="it cannot change; make a new user"
	Kind UserKind `json:"kind,omitempty"`
	// Organization that the user belongs to.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="it cannot change; make a new user"
	Organization string `json:"organization"`
	// Email is the name a person logs in with.
	// +optional
	// +kubebuilder:default=""
	// +kubebuilder:validation:MaxLength=254
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[^@ ]+@[^@ ]+$')",message="this is no e-mail address; it looks like name@example.com"
	Email string `json:"email"`
	// OrganizationAdmin may do everything in all projects of the organization.
	// +optional
	OrganizationAdmin bool `json:"organizationAdmin,omitempty"`
	// PlatformAdmin may do everything.
	// +optional
	PlatformAdmin bool `json:"platformAdmin,omitempty"`
	// Projects that the user works in.
	// +optional
	// +listType=map
	// +listMapKey=project
	// +kubebuilder:default={}
	// +kubebuilder:validation:MaxItems=200
	Projects []Membership `json:"projects"`
	// PasswordSecret names the Secret, in the platform's own namespace, that holds the password's argon2id hash. The
	// platform makes it; nobody needs to set it.
	// +optional
	PasswordSecret *SecretReference `json:"passwordSecret,omitempty"`
	// Disabled users cannot log in, and what they hold is refused.
	// +optional
	Disabled bool `json:"disabled,omitempty"`
}

// RevokedSession is a login that was ended before its time.
type RevokedSession struct {
	// ID of the session.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	ID string `json:"id"`
	// Until is when the session would have ended by itself; then the entry goes.
	Until metav1.Time `json:"until"`
}

// UserStatus is what became of it.
type UserStatus struct {
	// LastLogin is when the user logged in last.
	// +optional
	LastLogin *metav1.Time `json:"lastLogin,omitempty"`
	// TokensValidAfter refuses every token that was issued before.
	// +optional
	TokensValidAfter *metav1.Time `json:"tokensValidAfter,omitempty"`
	// RevokedSessions are the sessions that were logged out of: their tokens are refused.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=100
	RevokedSessions []RevokedSession `json:"revokedSessions,omitempty"`
	// ObservedGeneration is the generation that the status speaks of.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready: the user can log in.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// User is a person or a program that uses the platform.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=usr,categories=plasmacloud
// +kubebuilder:selectablefield:JSONPath=`.spec.organization`
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.kind`
// +kubebuilder:printcolumn:name="Email",type=string,JSONPath=`.spec.email`
// +kubebuilder:printcolumn:name="Organization",type=string,JSONPath=`.spec.organization`
// +kubebuilder:printcolumn:name="Disabled",type=boolean,JSONPath=`.spec.disabled`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type User struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is who the user is and what the user may do.
	Spec UserSpec `json:"spec"`
	// Status is what became of it.
	Status UserStatus `json:"status,omitempty"`
}

// UserList is a list of users.
// +kubebuilder:object:root=true
type UserList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []User `json:"items"`
}
