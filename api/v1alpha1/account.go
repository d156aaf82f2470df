package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

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
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="isIP(self) || self.matches('^[A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?([.][A-Za-z0-9]([-A-Za-z0-9]*[A-Za-z0-9])?)*$')",message="this is neither a host name nor an IP address; the port goes into port"
	Address string `json:"address"`
	// Port of its SSH server.
	// +kubebuilder:default=22
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// User to log in as.
	// +kubebuilder:default=root
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	User string `json:"user,omitempty"`
	// HostKey is the host's public key, as in known_hosts without the host: ssh-ed25519 AAAA…. A host with another key is
	// refused.
	// +optional
	// +kubebuilder:validation:MaxLength=2000
	HostKey string `json:"hostKey,omitempty"`
	// Labels that node groups can select hosts by.
	// +optional
	Labels map[string]string `json:"labels,omitempty"`
}

// SSHInventory is the machines of an account of type SSH.
// +kubebuilder:validation:XValidation:rule="(has(self.trustOnFirstUse) && self.trustOnFirstUse) || self.hosts.all(h, has(h.hostKey) && size(h.hostKey) > 0)",reason=FieldValueRequired,fieldPath=".hosts",message="a host without hostKey cannot be told from an impostor; give each its hostKey (ssh-keyscan prints it) or set trustOnFirstUse"
// +kubebuilder:validation:XValidation:rule="(has(self.trustOnFirstUse) && self.trustOnFirstUse) || !has(self.bastion) || (has(self.bastion.hostKey) && size(self.bastion.hostKey) > 0)",reason=FieldValueRequired,fieldPath=".bastion",message="a bastion without hostKey cannot be told from an impostor; give its hostKey (ssh-keyscan prints it) or set trustOnFirstUse"
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
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^arn:aws[a-z-]*:iam::[0-9]{12}:role/.+$')",message="this is no ARN of a role; it looks like arn:aws:iam::123456789012:role/name"
	RoleARN string `json:"roleARN,omitempty"`
	// ExternalID that the role asks for.
	// +optional
	// +kubebuilder:validation:MaxLength=1224
	ExternalID string `json:"externalID,omitempty"`
}

// GCPAccount is how to act in a Google Cloud project.
type GCPAccount struct {
	// ProjectID of the Google Cloud project.
	// +kubebuilder:validation:MaxLength=30
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z][-a-z0-9]{4,28}[a-z0-9]$')",message="this is no project ID; it has 6 to 30 lower-case letters, digits and '-', such as my-project-123456"
	ProjectID string `json:"projectID"`
	// ProjectNumber of it, which buckets need that a cluster's service accounts use.
	// +optional
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[0-9]+$')",message="this is no number of a project; it looks like 123456789012"
	ProjectNumber string `json:"projectNumber,omitempty"`
	// WorkloadIdentityProvider to federate with, instead of a key.
	// +optional
	// +kubebuilder:validation:MaxLength=500
	WorkloadIdentityProvider string `json:"workloadIdentityProvider,omitempty"`
	// ServiceAccount to act as.
	// +optional
	ServiceAccount string `json:"serviceAccount,omitempty"`
}

// AzureAccount is how to act in an Azure subscription.
type AzureAccount struct {
	// SubscriptionID of the subscription.
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$')",message="this is no UUID; it looks like 00000000-0000-0000-0000-000000000000"
	SubscriptionID string `json:"subscriptionID"`
	// TenantID of the directory.
	// +kubebuilder:validation:MaxLength=36
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$')",message="this is no UUID; it looks like 00000000-0000-0000-0000-000000000000"
	TenantID string `json:"tenantID"`
	// ClientID of the service principal or identity.
	// +optional
	ClientID string `json:"clientID,omitempty"`
}

// DeployerToken is a secret that remote deployers prove themselves with. Only its hash is kept.
type DeployerToken struct {
	// SHA256 of the token, in hexadecimal digits.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{64}$')",message="this is no SHA-256; `cloud account deployer-token` makes a token and keeps its hash"
	SHA256 string `json:"sha256"`
}

// AccountDeployer is who does the work in an account of a cloud.
// +kubebuilder:validation:XValidation:rule="!has(self.tokens) || size(self.tokens) == 0 || (has(self.remote) && self.remote)",reason=FieldValueForbidden,fieldPath=".tokens",message="they are for remote deployers; set spec.deployer.remote, or remove them"
type AccountDeployer struct {
	// Remote leaves the work to deployers that run elsewhere, such as in the network of the account's owner: they come for
	// it with a token.
	// +optional
	Remote bool `json:"remote,omitempty"`
	// Tokens that remote deployers may come with; `cloud account deployer-token` makes them.
	// +optional
	// +listType=map
	// +listMapKey=sha256
	// +kubebuilder:validation:MaxItems=10
	Tokens []DeployerToken `json:"tokens,omitempty"`
}

// AccountSpec is where infrastructure comes from.
// +kubebuilder:validation:XValidation:rule="self.provider != 'SSH' || has(self.ssh)",reason=FieldValueRequired,fieldPath=".ssh",message="an account of provider SSH needs an inventory of hosts"
// +kubebuilder:validation:XValidation:rule="self.provider != 'GCP' || has(self.gcp)",reason=FieldValueRequired,fieldPath=".gcp",message="an account of provider GCP needs its projectID"
// +kubebuilder:validation:XValidation:rule="self.provider != 'Azure' || has(self.azure)",reason=FieldValueRequired,fieldPath=".azure",message="an account of provider Azure needs its subscriptionID and tenantID"
// +kubebuilder:validation:XValidation:rule="!(self.provider in ['AWS', 'GCP', 'Azure']) || size(self.region) > 0",reason=FieldValueRequired,fieldPath=".region",message="an account of a cloud needs a region, such as eu-west-1"
// +kubebuilder:validation:XValidation:rule="self.provider != 'AWS' || has(self.credentials) || (has(self.aws) && has(self.aws.roleARN) && size(self.aws.roleARN) > 0)",reason=FieldValueRequired,fieldPath=".credentials",message="an account of provider AWS needs a Secret with keys, or a role to assume in spec.aws.roleARN"
// +kubebuilder:validation:XValidation:rule="self.provider != 'GCP' || has(self.credentials) || (has(self.gcp) && has(self.gcp.workloadIdentityProvider) && size(self.gcp.workloadIdentityProvider) > 0)",reason=FieldValueRequired,fieldPath=".credentials",message="an account of provider GCP needs a Secret with a key, or a provider to federate with in spec.gcp.workloadIdentityProvider"
// +kubebuilder:validation:XValidation:rule="self.provider != 'Azure' || has(self.credentials)",reason=FieldValueRequired,fieldPath=".credentials",message="an account of provider Azure needs a Secret with the client's secret or certificate"
// +kubebuilder:validation:XValidation:rule="!has(self.deployer) || self.provider in ['AWS', 'GCP', 'Azure']",reason=FieldValueForbidden,fieldPath=".deployer",message="it is only for accounts of clouds; remove it, or set spec.provider"
// +kubebuilder:validation:XValidation:rule="!has(self.state) || self.provider in ['AWS', 'GCP', 'Azure']",reason=FieldValueForbidden,fieldPath=".state",message="it is only for accounts of clouds; remove it, or set spec.provider"
// +kubebuilder:validation:XValidation:rule="!has(self.state) || self.state.type in ['Platform', 'Postgres'] || (self.state.type == 'S3' && self.provider == 'AWS') || (self.state.type == 'GCS' && self.provider == 'GCP') || (self.state.type == 'AzureRM' && self.provider == 'Azure')",reason=FieldValueInvalid,fieldPath=".state.type",message="the account's credentials do not open it: S3 is for provider AWS, GCS for GCP, AzureRM for Azure, Platform and Postgres for all of them"
// +kubebuilder:validation:XValidation:rule="!has(self.state) || self.state.type != 'Postgres' || has(self.credentials)",reason=FieldValueRequired,fieldPath=".credentials",message="states in PostgreSQL need a Secret with the connection string under the key PG_CONN_STR"
// +kubebuilder:validation:XValidation:rule="has(self.state) == has(oldSelf.state) && (!has(self.state) || self.state == oldSelf.state)",reason=FieldValueForbidden,fieldPath=".state",message="it cannot change: states are not moved, and without them nobody would know what there is; make a new account"
// +kubebuilder:validation:XValidation:rule="!has(self.ssh) || self.provider == 'SSH'",reason=FieldValueForbidden,fieldPath=".ssh",message="it is only for provider SSH; remove it, or set spec.provider"
// +kubebuilder:validation:XValidation:rule="!has(self.aws) || self.provider == 'AWS'",reason=FieldValueForbidden,fieldPath=".aws",message="it is only for provider AWS; remove it, or set spec.provider"
// +kubebuilder:validation:XValidation:rule="!has(self.gcp) || self.provider == 'GCP'",reason=FieldValueForbidden,fieldPath=".gcp",message="it is only for provider GCP; remove it, or set spec.provider"
// +kubebuilder:validation:XValidation:rule="!has(self.azure) || self.provider == 'Azure'",reason=FieldValueForbidden,fieldPath=".azure",message="it is only for provider Azure; remove it, or set spec.provider"
type AccountSpec struct {
	// Provider of the infrastructure.
	// +kubebuilder:default=Local
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="it cannot change; make a new account"
	Provider Provider `json:"provider,omitempty"`
	// Region of the cloud.
	// +optional
	// +kubebuilder:default=""
	// +kubebuilder:validation:MaxLength=63
	Region string `json:"region"`
	// Credentials by reference to a Secret in the project's namespace.
	// +optional
	Credentials *SecretReference `json:"credentials,omitempty"`
	// SSH is the inventory of hosts, for provider SSH.
	// +optional
	SSH *SSHInventory `json:"ssh,omitempty"`
	// AWS is how to act there, for provider AWS.
	// +optional
	AWS *AWSAccount `json:"aws,omitempty"`
	// GCP is how to act there, for provider GCP.
	// +optional
	GCP *GCPAccount `json:"gcp,omitempty"`
	// Azure is how to act there, for provider Azure.
	// +optional
	Azure *AzureAccount `json:"azure,omitempty"`
	// Deployer is who does the work, for providers that are clouds; the platform itself where it is not given.
	// +optional
	Deployer *AccountDeployer `json:"deployer,omitempty"`
	// State is where the states of what is made are, for providers that are clouds; with the platform where it is not given.
	// +optional
	State *AccountState `json:"state,omitempty"`
}

// HashDeployerToken is what is kept of a token.
func HashDeployerToken(token string) DeployerToken {
	sum := sha256.Sum256([]byte(token))
	return DeployerToken{SHA256: hex.EncodeToString(sum[:])}
}

// Admits tells whether remote deployers with this token do the work in the account.
func (s *AccountSpec) Admits(token string) bool {
	return s.Remote() && slices.Contains(s.Deployer.Tokens, HashDeployerToken(token))
}

// Remote tells whether the work in an account is left to deployers that run elsewhere.
func (s *AccountSpec) Remote() bool { return s.Deployer != nil && s.Deployer.Remote }

// SSHHostStatus is how a host of an inventory fares.
type SSHHostStatus struct {
	// Address of the host.
	Address string `json:"address"`
	// Port of its SSH server.
	// +optional
	Port int32 `json:"port,omitempty"`
	// Cluster that has leased it; empty where it is free.
	// +optional
	Cluster string `json:"cluster,omitempty"`
	// Machine that it is; empty where it is free.
	// +optional
	Machine string `json:"machine,omitempty"`
	// HostKey is the fingerprint of its public key, once that is known.
	// +optional
	HostKey string `json:"hostKey,omitempty"`
	// Problem is why it could not be used, the last time that this was tried.
	// +optional
	Problem string `json:"problem,omitempty"`
}

// AccountStatus is what became of it.
type AccountStatus struct {
	// Phase is where the account is in its life, in one word.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Networks that take their infrastructure from here.
	// +optional
	Networks int32 `json:"networks"`
	// Hosts of an inventory, and who has them, for provider SSH.
	// +optional
	// +listType=map
	// +listMapKey=address
	Hosts []SSHHostStatus `json:"hosts,omitempty"`
	// Access is what the cloud said of the account's credentials, for accounts in clouds.
	// +optional
	Access *AccountAccess `json:"access,omitempty"`
	// ObservedGeneration is the generation that the status speaks of.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready: infrastructure can come from here. In a cloud also Verified: the cloud accepts the credentials,
	// and they may do all that is needed.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ConditionVerified of an account in a cloud is True when the cloud accepts its credentials, and they may do all that is
// needed.
const ConditionVerified = "Verified"

// Reasons of the condition Verified.
const (
	// ReasonVerified: all is well.
	ReasonVerified = "Verified"
	// ReasonRevoked: the cloud does not accept the credentials, or not any more.
	ReasonRevoked = "Revoked"
	// ReasonPermissionsMissing: it does, but they may not do all that is needed.
	ReasonPermissionsMissing = "PermissionsMissing"
	// ReasonUnknown: the cloud could not be asked, or did not tell.
	ReasonUnknown = "Unknown"
)

// AccountAccess is what a cloud said of credentials.
type AccountAccess struct {
	// Identity that the cloud knows their bearer by.
	// +optional
	Identity string `json:"identity,omitempty"`
	// Missing are the permissions that the platform needs and the account does not have.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	Missing []string `json:"missing,omitempty"`
	// CheckedAt is when the cloud was asked.
	CheckedAt metav1.Time `json:"checkedAt"`
	// Request is the last request for a look that was met.
	// +optional
	Request string `json:"request,omitempty"`
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

	// Spec is where infrastructure comes from.
	Spec AccountSpec `json:"spec"`
	// Status is what became of it.
	Status AccountStatus `json:"status,omitempty"`
}

// AccountList is a list of accounts.
// +kubebuilder:object:root=true
type AccountList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Account `json:"items"`
}
