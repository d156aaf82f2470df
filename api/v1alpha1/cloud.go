package v1alpha1

// ConditionAddons of a cluster in a cloud is True when its add-ons are there, as far as the cloud does not bring them
// along; otherwise it says which ones are not, and why.
const (
	ConditionAddons  = "AddonsInstalled"
	ReasonIncomplete = "Incomplete"
)

// EKS is what clusters of type EKS have of their own.
type EKS struct {
	// Compute is who makes the nodes: Auto, AWS as pods need them; NodeGroups; or Karpenter, which itself runs on node
	// groups. By whether there are node groups, where it is not given.
	// +optional
	// +kubebuilder:validation:Enum=Auto;NodeGroups;Karpenter
	Compute string `json:"compute,omitempty"`
	// AMI is the system of nodes in node groups; Bottlerocket where it is not given.
	// +optional
	// +kubebuilder:validation:Enum=Bottlerocket;AL2023
	AMI string `json:"ami,omitempty"`
	// Spot are the node groups that run on spare capacity.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=30
	Spot []string `json:"spot,omitempty"`
	// ExtendedSupport keeps a version for longer than AWS does without being paid for it.
	// +optional
	ExtendedSupport bool `json:"extendedSupport,omitempty"`
	// LogRetentionDays is for how long logs of the control plane are kept; 90 where it is not given.
	// +optional
	// +kubebuilder:validation:Enum=1;3;5;7;14;30;60;90;120;150;180;365;400;545;731
	LogRetentionDays int32 `json:"logRetentionDays,omitempty"`
	// Admins are principals, by ARN, that administer the cluster.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	Admins []string `json:"admins,omitempty"`
}

// GKE is what clusters of type GKE have of their own.
type GKE struct {
	// Autopilot has Google make the nodes; by whether there are node groups, where it is not given.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="it cannot change; make a new cluster"
	Autopilot *bool `json:"autopilot,omitempty"`
	// ReleaseChannel that Google takes patch versions from; REGULAR where it is not given.
	// +optional
	// +kubebuilder:validation:Enum=RAPID;REGULAR;STABLE;EXTENDED
	ReleaseChannel string `json:"releaseChannel,omitempty"`
	// Spot are the node groups that run on spare capacity.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=30
	Spot []string `json:"spot,omitempty"`
	// Autoscale lets Google choose the number of nodes between each group's bounds.
	// +optional
	Autoscale bool `json:"autoscale,omitempty"`
	// EncryptionKey of Cloud KMS that secrets are encrypted with.
	// +optional
	// +kubebuilder:validation:MaxLength=500
	EncryptionKey string `json:"encryptionKey,omitempty"`
}

// AKS is what clusters of type AKS have of their own.
type AKS struct {
	// AutoProvisioning has Azure make nodes as pods need them, besides the system pool.
	// +optional
	AutoProvisioning bool `json:"autoProvisioning,omitempty"`
	// FreeTier is without a promise of availability.
	// +optional
	FreeTier bool `json:"freeTier,omitempty"`
	// SystemPool is the node group that runs the cluster's own pods; the first by name where it is not given.
	// +optional
	// +kubebuilder:validation:MaxLength=20
	SystemPool string `json:"systemPool,omitempty"`
	// Spot are the node groups that run on spare capacity.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=30
	Spot []string `json:"spot,omitempty"`
	// Zones that nodes are in; 1, 2 and 3 where none are given.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=3
	Zones []string `json:"zones,omitempty"`
	// Autoscale lets Azure choose the number of nodes between each group's bounds.
	// +optional
	Autoscale bool `json:"autoscale,omitempty"`
	// AdminGroups are groups of the directory, by object ID, that administer the cluster.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=20
	AdminGroups []string `json:"adminGroups,omitempty"`
}

// AWSNetwork is what networks in AWS have of their own.
type AWSNetwork struct {
	// Zones that subnets are cut for; the region's a, b and c where none are given.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=4
	Zones []string `json:"zones,omitempty"`
	// NAT is how private subnets reach the internet: not at all, by one gateway, or by one in each zone.
	// +optional
	// +kubebuilder:default=Single
	// +kubebuilder:validation:Enum=None;Single;PerZone
	NAT string `json:"nat,omitempty"`
	// FlowLogs writes down who talks to whom.
	// +optional
	// +kubebuilder:default=true
	FlowLogs *bool `json:"flowLogs,omitempty"`
	// LogRetentionDays is for how long that is kept; 30 where it is not given.
	// +optional
	// +kubebuilder:validation:Enum=1;3;5;7;14;30;60;90;120;150;180;365;400;545;731
	LogRetentionDays int32 `json:"logRetentionDays,omitempty"`
	// InterfaceEndpoints are services that are reached inside of the network, such as ecr.api.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=30
	InterfaceEndpoints []string `json:"interfaceEndpoints,omitempty"`
}

// GCPNetwork is what networks in Google Cloud have of their own. Pods and services of clusters have their addresses from
// the network there.
type GCPNetwork struct {
	// PodCIDR is the range of pods' addresses.
	// +optional
	// +kubebuilder:default="172.16.0.0/14"
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="this is no CIDR, or has host bits set; it looks like 172.16.0.0/14"
	PodCIDR string `json:"podCIDR,omitempty"`
	// ServiceCIDR is the range of services' addresses.
	// +optional
	// +kubebuilder:default="172.20.0.0/20"
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="this is no CIDR, or has host bits set; it looks like 172.20.0.0/20"
	ServiceCIDR string `json:"serviceCIDR,omitempty"`
	// NAT lets nodes reach the internet.
	// +optional
	// +kubebuilder:default=true
	NAT *bool `json:"nat,omitempty"`
	// FlowLogs writes down who talks to whom.
	// +optional
	// +kubebuilder:default=true
	FlowLogs *bool `json:"flowLogs,omitempty"`
}

// AzureNetwork is what networks in Azure have of their own.
type AzureNetwork struct {
	// NAT lets nodes reach the internet.
	// +optional
	// +kubebuilder:default=true
	NAT *bool `json:"nat,omitempty"`
	// NATZone that the gateway is in; none in particular where it is not given.
	// +optional
	// +kubebuilder:validation:Enum="1";"2";"3"
	NATZone string `json:"natZone,omitempty"`
}

// StackStatus is how infrastructure in a cloud fares that is made as one.
type StackStatus struct {
	// Task that runs, or ran last.
	// +optional
	Task string `json:"task,omitempty"`
	// Progress of the task that runs, such as 2/2 apply.
	// +optional
	Progress string `json:"progress,omitempty"`
	// InfraVersion is the version of the configuration that it was made with.
	// +optional
	InfraVersion string `json:"infraVersion,omitempty"`
	// Repaired is the last request for a repair that was met.
	// +optional
	Repaired string `json:"repaired,omitempty"`
	// Planned is the time of the last request for a plan that was taken up.
	// +optional
	Planned string `json:"planned,omitempty"`
	// Drift is what was found when it was last compared with what is in the cloud.
	// +optional
	Drift *Drift `json:"drift,omitempty"`
}

// NetworkSubnet is a subnet that exists in a cloud.
type NetworkSubnet struct {
	// Name of the subnet.
	Name string `json:"name"`
	// ID that the cloud knows it by.
	ID string `json:"id"`
	// Role of the subnet.
	// +optional
	Role SubnetRole `json:"role,omitempty"`
	// Zone that it lies in.
	// +optional
	Zone string `json:"zone,omitempty"`
}

// InCloud tells whether clusters of the type are made by a cloud, in somebody's account there.
func (t ClusterType) InCloud() bool { return t == ClusterEKS || t == ClusterGKE || t == ClusterAKS }

// IsCloud tells whether accounts of the provider are in a cloud.
func (p Provider) IsCloud() bool { return p == ProviderAWS || p == ProviderGCP || p == ProviderAzure }
