package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Provider is where infrastructure comes from.
// +kubebuilder:validation:Enum=Local;SSH;KubeVirt;AWS;GCP;Azure
type Provider string

// The providers.
const (
	ProviderLocal    Provider = "Local"
	ProviderSSH      Provider = "SSH"
	ProviderKubeVirt Provider = "KubeVirt"
	ProviderAWS      Provider = "AWS"
	ProviderGCP      Provider = "GCP"
	ProviderAzure    Provider = "Azure"
)

// SSHHost is a machine of an inventory.
type SSHHost struct {
	// Address of the host, a name or an IP address.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Address string `json:"address"`
	// Port of its SSH server.
	// +kubebuilder:default=22
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// User to log in as.
	// +kubebuilder:default=root
	// +kubebuilder:validation:MaxLength=32
	User string `json:"user,omitempty"`
	// HostKey is the host's public key, as in known_hosts; a host with another key is refused.
	// +optional
	HostKey string `json:"hostKey,omitempty"`
	// Labels that node groups can select hosts by.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}

// SSHInventory is the machines of an account of type SSH.
type SSHInventory struct {
	// Hosts that machines are leased from.
	// +listType=map
	// +listMapKey=address
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1000
	Hosts []SSHHost `json:"hosts"`
	// Bastion to go through, where the hosts cannot be reached directly.
	// +optional
	Bastion *SSHHost `json:"bastion,omitempty"`
	// TrustOnFirstUse accepts the key of a host that has none pinned at the first contact, and pins it.
	// +optional
	TrustOnFirstUse bool `json:"trustOnFirstUse,omitempty"`
}

// AWSAccount is how to act in an AWS account.
type AWSAccount struct {
	// RoleARN of the role to assume.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^arn:aws[a-z-]*:iam::[0-9]{12}:role/.+$')",message="spec.aws.roleARN: this is no ARN of a role; it looks like arn:aws:iam::123456789012:role/name"
	RoleARN string `json:"roleARN,omitempty"`
	// ExternalID that the role asks for.
	// +optional
	// +kubebuilder:validation:MaxLength=1224
	ExternalID string `json:"externalID,omitempty"`
}

// GCPAccount is how to act in a Google Cloud project.
type GCPAccount struct {
	// ProjectID of the Google Cloud project.
	// +kubebuilder:validation:Pattern=`^[a-z][-a-z0-9]{4,28}[a-z0-9]$`
	ProjectID string `json:"projectID"`
	// WorkloadIdentityProvider to federate with, instead of a key.
	// +optional
	WorkloadIdentityProvider string `json:"workloadIdentityProvider,omitempty"`
	// ServiceAccount to act as.
	// +optional
	ServiceAccount string `json:"serviceAccount,omitempty"`
}

// AzureAccount is how to act in an Azure subscription.
type AzureAccount struct {
	// SubscriptionID of the subscription.
	// +kubebuilder:validation:Pattern=`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`
	SubscriptionID string `json:"subscriptionID"`
	// TenantID of the directory.
	// +kubebuilder:validation:Pattern=`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`
	TenantID string `json:"tenantID"`
	// ClientID of the service principal or identity.
	// +optional
	ClientID string `json:"clientID,omitempty"`
}

// AccountSpec is where infrastructure comes from.
// +kubebuilder:validation:XValidation:rule="self.provider != 'SSH' || has(self.ssh)",message="spec.ssh: an account of provider SSH needs an inventory of hosts"
// +kubebuilder:validation:XValidation:rule="self.provider != 'GCP' || has(self.gcp)",message="spec.gcp: an account of provider GCP needs its project"
// +kubebuilder:validation:XValidation:rule="self.provider != 'Azure' || has(self.azure)",message="spec.azure: an account of provider Azure needs its subscription and tenant"
// +kubebuilder:validation:XValidation:rule="!(self.provider in ['AWS', 'GCP', 'Azure']) || self.region != ''",message="spec.region: an account of a cloud needs a region, such as eu-west-1"
// +kubebuilder:validation:XValidation:rule="self.provider != 'AWS' || has(self.credentials) || (has(self.aws) && has(self.aws.roleARN))",message="spec.credentials, spec.aws.roleARN: an account of provider AWS needs a Secret with keys or a role to assume"
// +kubebuilder:validation:XValidation:rule="!has(self.ssh) || self.provider == 'SSH'",message="spec.ssh: only for provider SSH"
// +kubebuilder:validation:XValidation:rule="!has(self.aws) || self.provider == 'AWS'",message="spec.aws: only for provider AWS"
// +kubebuilder:validation:XValidation:rule="!has(self.gcp) || self.provider == 'GCP'",message="spec.gcp: only for provider GCP"
// +kubebuilder:validation:XValidation:rule="!has(self.azure) || self.provider == 'Azure'",message="spec.azure: only for provider Azure"
type AccountSpec struct {
	// Provider of the infrastructure.
	// +kubebuilder:default=Local
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.provider: it cannot change; make a new account"
	Provider Provider `json:"provider,omitempty"`
	// Region of the cloud.
	// +optional
	// +kubebuilder:default=""
	// +kubebuilder:validation:MaxLength=63
	Region string `json:"region"`
	// Credentials by reference to a Secret in the project's namespace.
	// +optional
	Credentials *SecretReference `json:"credentials,omitempty"`
	// +optional
	SSH *SSHInventory `json:"ssh,omitempty"`
	// +optional
	AWS *AWSAccount `json:"aws,omitempty"`
	// +optional
	GCP *GCPAccount `json:"gcp,omitempty"`
	// +optional
	Azure *AzureAccount `json:"azure,omitempty"`
}

// AccountStatus is what became of it.
type AccountStatus struct {
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Networks that take their infrastructure from here.
	Networks int32 `json:"networks"`
	// ObservedGeneration is the generation that the status speaks of.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Account is where infrastructure comes from: this platform's own host, machines over SSH, virtual machines, or a cloud.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=acct,categories=plasmacloud
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.provider`
// +kubebuilder:printcolumn:name="Region",type=string,JSONPath=`.spec.region`
// +kubebuilder:printcolumn:name="Networks",type=integer,JSONPath=`.status.networks`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$')",message="metadata.name: use 1 to 40 lower-case letters, digits and '-', beginning with a letter and not ending with '-'"
type Account struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   AccountSpec   `json:"spec"`
	Status AccountStatus `json:"status,omitempty"`
}

// AccountList is a list of accounts.
// +kubebuilder:object:root=true
type AccountList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Account `json:"items"`
}
