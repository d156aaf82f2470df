package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ClusterType is how a cluster's control plane runs.
// +kubebuilder:validation:Enum=Hosted;Kubeadm;K3s;EKS;GKE;AKS;Fake
type ClusterType string

// The types of clusters. Fake goes through the motions and makes nothing: it is for tests and load tests of the platform.
const (
	ClusterHosted  ClusterType = "Hosted"
	ClusterKubeadm ClusterType = "Kubeadm"
	ClusterK3s     ClusterType = "K3s"
	ClusterEKS     ClusterType = "EKS"
	ClusterGKE     ClusterType = "GKE"
	ClusterAKS     ClusterType = "AKS"
	ClusterFake    ClusterType = "Fake"
)

// Preset is a named size of a component.
// +kubebuilder:validation:Enum=nano;micro;small;medium;large;xlarge;"2xlarge"
type Preset string

// APIServer is the API server's size.
type APIServer struct {
	// Resources of each replica.
	// +optional
	Resources Resources `json:"resources,omitempty"`
	// ResourcesPreset counts where resources are not given.
	// +kubebuilder:default=medium
	ResourcesPreset Preset `json:"resourcesPreset,omitempty"`
}

// Component is a smaller component's size.
type Component struct {
	// Resources of each replica.
	// +optional
	Resources Resources `json:"resources,omitempty"`
	// ResourcesPreset counts where resources are not given.
	// +kubebuilder:default=micro
	ResourcesPreset Preset `json:"resourcesPreset,omitempty"`
}

// Konnectivity is the tunnel from the control plane to the nodes.
type Konnectivity struct {
	// +kubebuilder:default={}
	Server Component `json:"server,omitempty"`
}

// DatastoreMode tells a datastore of one's own from one that many clusters share.
// +kubebuilder:validation:Enum=Shared;Dedicated
type DatastoreMode string

// The modes of datastores.
const (
	DatastoreShared    DatastoreMode = "Shared"
	DatastoreDedicated DatastoreMode = "Dedicated"
)

// Datastore is where a hosted control plane keeps its objects.
type Datastore struct {
	// Mode is Shared, one etcd for many clusters, or Dedicated, an etcd of the cluster's own.
	// +kubebuilder:default=Shared
	Mode DatastoreMode `json:"mode,omitempty"`
	// Replicas of a dedicated etcd.
	// +kubebuilder:default=1
	// +kubebuilder:validation:XValidation:rule="self in [1, 3, 5]",message="spec.controlPlane.datastore.replicas: etcd needs an odd number to agree; use 1, 3 or 5"
	Replicas int32 `json:"replicas,omitempty"`
}

// ControlPlane is the size of a cluster's control plane.
type ControlPlane struct {
	// Replicas of the control plane: its pods where it is hosted, otherwise its machines.
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	Replicas int32 `json:"replicas,omitempty"`
	// +kubebuilder:default={}
	APIServer APIServer `json:"apiServer,omitempty"`
	// +kubebuilder:default={}
	ControllerManager Component `json:"controllerManager,omitempty"`
	// +kubebuilder:default={}
	Scheduler Component `json:"scheduler,omitempty"`
	// +kubebuilder:default={}
	Konnectivity Konnectivity `json:"konnectivity,omitempty"`
	// +kubebuilder:default={}
	Datastore Datastore `json:"datastore,omitempty"`
	// InstanceType of the machines of a control plane that is not hosted.
	// +kubebuilder:default="u1.large"
	// +kubebuilder:validation:MaxLength=40
	InstanceType string `json:"instanceType,omitempty"`
}

// Access is who reaches the cluster's API.
type Access struct {
	// Public makes the API reachable from outside the network.
	// +kubebuilder:default=true
	Public *bool `json:"public,omitempty"`
	// CIDRs that may reach it; all where none are given.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self.all(c, isCIDR(c))",message="spec.access.cidrs: one of these is no CIDR; they look like 203.0.113.0/24"
	CIDRs []string `json:"cidrs,omitempty"`
}

// ClusterNetwork is the cluster's own addresses.
// +kubebuilder:validation:XValidation:rule="!has(self.podCIDR) || !has(self.serviceCIDR) || !isCIDR(self.podCIDR) || !isCIDR(self.serviceCIDR) || !(cidr(self.podCIDR).containsCIDR(self.serviceCIDR) || cidr(self.serviceCIDR).containsCIDR(self.podCIDR))",message="spec.clusterNetwork: podCIDR and serviceCIDR overlap; choose two ranges apart"
type ClusterNetwork struct {
	// PodCIDR is the range of pods' addresses.
	// +kubebuilder:default="192.168.0.0/16"
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="spec.clusterNetwork.podCIDR: this is no CIDR, or has host bits set; it looks like 192.168.0.0/16"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.clusterNetwork.podCIDR: it cannot change; make a new cluster"
	PodCIDR string `json:"podCIDR,omitempty"`
	// ServiceCIDR is the range of services' addresses.
	// +kubebuilder:default="10.96.0.0/12"
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="spec.clusterNetwork.serviceCIDR: this is no CIDR, or has host bits set; it looks like 10.96.0.0/12"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.clusterNetwork.serviceCIDR: it cannot change; make a new cluster"
	ServiceCIDR string `json:"serviceCIDR,omitempty"`
	// Domain of the cluster's names.
	// +kubebuilder:default="cluster.local"
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.clusterNetwork.domain: it cannot change; make a new cluster"
	Domain string `json:"domain,omitempty"`
	// CNI is the pod network: prismnet, or none for those who bring their own.
	// +kubebuilder:default=prismnet
	// +kubebuilder:validation:Enum=prismnet;none
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.clusterNetwork.cni: it cannot change; make a new cluster"
	CNI string `json:"cni,omitempty"`
}

// Tenancy is whose workloads share a cluster.
// +kubebuilder:validation:Enum=Dedicated;Shared
type Tenancy string

// The tenancies.
const (
	TenancyDedicated Tenancy = "Dedicated"
	TenancyShared    Tenancy = "Shared"
)

// ClusterSpec is what a cluster is asked to be.
// +kubebuilder:validation:XValidation:rule="!(self.type in ['Kubeadm', 'K3s']) || !has(self.controlPlane) || self.controlPlane.replicas in [1, 3, 5]",message="spec.controlPlane.replicas: a control plane on machines runs etcd, which needs an odd number to agree; use 1, 3 or 5"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.version) || oldSelf.version == '' || (has(self.version) && self.version != '')",message="spec.version: it cannot be taken away once it is set"
// +kubebuilder:validation:XValidation:rule="!has(self.version) || !has(oldSelf.version) || self.version == '' || oldSelf.version == '' || int(self.version.split('.')[1]) >= int(oldSelf.version.split('.')[1])",message="spec.version: Kubernetes cannot go back to an older minor version; restore a backup into a new cluster"
// +kubebuilder:validation:XValidation:rule="!has(self.version) || !has(oldSelf.version) || self.version == '' || oldSelf.version == '' || int(self.version.split('.')[1]) - int(oldSelf.version.split('.')[1]) <= 1",message="spec.version: upgrade one minor version at a time"
type ClusterSpec struct {
	// Type is how the control plane runs.
	// +kubebuilder:default=Hosted
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.type: it cannot change; make a new cluster"
	Type ClusterType `json:"type,omitempty"`
	// Version of Kubernetes, such as v1.36 or v1.36.3; the newest where it is empty.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^v1\\\\.[0-9]{1,3}(\\\\.[0-9]{1,3})?$')",message="spec.version: this is no version; it looks like v1.36 or v1.36.3"
	// +kubebuilder:validation:MaxLength=12
	Version string `json:"version,omitempty"`
	// Network that the cluster is in.
	// +kubebuilder:default=default
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec.network: it cannot change; make a new cluster"
	Network string `json:"network,omitempty"`
	// Host is the DNS name of the cluster's API; <cluster>.<platform's domain> where it is empty.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="spec.host: this is no host name; it looks like dev.example.com"
	Host string `json:"host,omitempty"`
	// StorageClass that stores the cluster's data.
	// +kubebuilder:default=replicated
	// +kubebuilder:validation:MaxLength=253
	StorageClass string `json:"storageClass,omitempty"`
	// +kubebuilder:default={}
	ControlPlane ControlPlane `json:"controlPlane,omitempty"`
	// NodeGroups by name: the worker nodes.
	// +optional
	// +kubebuilder:validation:MaxProperties=30
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.matches('^[a-z]([-a-z0-9]{0,18}[a-z0-9])?$'))",message="spec.nodeGroups: a group's name has 1 to 20 lower-case letters, digits and '-', beginning with a letter"
	NodeGroups map[string]NodeGroupTemplate `json:"nodeGroups,omitempty"`
	// +kubebuilder:default={}
	ClusterNetwork ClusterNetwork `json:"clusterNetwork,omitempty"`
	// +kubebuilder:default={}
	Access Access `json:"access,omitempty"`
	// Tenancy is Dedicated, or Shared for a cluster with one namespace for each project.
	// +kubebuilder:default=Dedicated
	Tenancy Tenancy `json:"tenancy,omitempty"`
	// +optional
	Addons Addons `json:"addons,omitempty"`
	// InfraVersion is the version of the infrastructure's configuration, for clusters in a cloud.
	// +optional
	// +kubebuilder:validation:MaxLength=20
	InfraVersion string `json:"infraVersion,omitempty"`
	// DeletionProtection refuses to delete the cluster.
	// +optional
	DeletionProtection bool `json:"deletionProtection,omitempty"`
}

// NodeCounts are the nodes of a cluster.
type NodeCounts struct {
	Desired int32 `json:"desired"`
	Ready   int32 `json:"ready"`
	Total   int32 `json:"total"`
}

// ClusterStatus is what became of it.
type ClusterStatus struct {
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Endpoint of the API, as a URL.
	// +optional
	Endpoint string `json:"endpoint,omitempty"`
	// Version that the control plane runs.
	// +optional
	Version string `json:"version,omitempty"`
	// +optional
	Nodes NodeCounts `json:"nodes,omitempty"`
	// NodesSummary is ready/desired.
	// +optional
	NodesSummary string `json:"nodesSummary,omitempty"`
	// Progress of the task that runs, such as 3/7 bootstrap.
	// +optional
	Progress string `json:"progress,omitempty"`
	// Task that runs, or ran last.
	// +optional
	Task string `json:"task,omitempty"`
	// KubeconfigSecret holds the administrator's kubeconfigs.
	// +optional
	KubeconfigSecret string `json:"kubeconfigSecret,omitempty"`
	// AppliedTemplate tells a change of the nodes' number or the version from a change of anything else.
	// +optional
	AppliedTemplate string `json:"appliedTemplate,omitempty"`
	// Repaired is the last request for a repair that was met.
	// +optional
	Repaired string `json:"repaired,omitempty"`
	// Inventory is everything the cluster has made outside itself; a deletion ends when it is empty.
	// +optional
	// +listType=atomic
	Inventory []InventoryItem `json:"inventory,omitempty"`
	// ObservedGeneration is the generation that the cluster was brought to.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// InventoryItem is a thing that was made for a cluster.
type InventoryItem struct {
	// Kind of thing, such as Machine or Deployment.
	Kind string `json:"kind"`
	// Name of the thing.
	Name string `json:"name"`
}

// Cluster is a Kubernetes cluster.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=k8s,categories=plasmacloud
// +kubebuilder:selectablefield:JSONPath=`.spec.network`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Nodes",type=string,JSONPath=`.status.nodesSummary`
// +kubebuilder:printcolumn:name="Network",type=string,JSONPath=`.spec.network`
// +kubebuilder:printcolumn:name="Endpoint",type=string,JSONPath=`.status.endpoint`
// +kubebuilder:printcolumn:name="Progress",type=string,JSONPath=`.status.progress`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$')",message="metadata.name: use 1 to 40 lower-case letters, digits and '-', beginning with a letter and not ending with '-'"
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   ClusterSpec   `json:"spec"`
	Status ClusterStatus `json:"status,omitempty"`
}

// ClusterList is a list of clusters.
// +kubebuilder:object:root=true
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cluster `json:"items"`
}
