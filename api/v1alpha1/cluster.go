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
	// Server is the control plane's end of the tunnel.
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
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="it cannot change; make a new cluster"
	Mode DatastoreMode `json:"mode,omitempty"`
	// Replicas of a dedicated etcd.
	// +kubebuilder:default=1
	// +kubebuilder:validation:XValidation:rule="self in [1, 3, 5]",message="etcd needs an odd number to agree; use 1, 3 or 5"
	Replicas int32 `json:"replicas,omitempty"`
}

// ControlPlane is the size of a cluster's control plane.
type ControlPlane struct {
	// Replicas of the control plane: its pods where it is hosted, otherwise its machines, which run etcd and have to be
	// 1, 3 or 5.
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5
	Replicas int32 `json:"replicas,omitempty"`
	// APIServer is the size of kube-apiserver.
	// +kubebuilder:default={}
	APIServer APIServer `json:"apiServer,omitempty"`
	// ControllerManager is the size of kube-controller-manager.
	// +kubebuilder:default={}
	ControllerManager Component `json:"controllerManager,omitempty"`
	// Scheduler is the size of kube-scheduler.
	// +kubebuilder:default={}
	Scheduler Component `json:"scheduler,omitempty"`
	// Konnectivity is the tunnel from the control plane to the nodes.
	// +kubebuilder:default={}
	Konnectivity Konnectivity `json:"konnectivity,omitempty"`
	// Datastore is where a hosted control plane keeps its objects.
	// +kubebuilder:default={}
	Datastore Datastore `json:"datastore,omitempty"`
	// InstanceType of the machines of a control plane that is not hosted.
	// +kubebuilder:default="u1.large"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	InstanceType string `json:"instanceType,omitempty"`
}

// Access is who reaches the cluster's API.
// +kubebuilder:validation:XValidation:rule="has(self.port) == has(oldSelf.port) && (!has(self.port) || self.port == oldSelf.port)",reason=FieldValueForbidden,fieldPath=".port",message="it cannot change, as the nodes and the users of the cluster know it; make a new cluster"
type Access struct {
	// Public makes the API reachable from outside the network.
	// +kubebuilder:default=true
	Public *bool `json:"public,omitempty"`
	// CIDRs that may reach it; all where none are given.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self.all(c, isCIDR(c))",message="one of these is no CIDR; they look like 203.0.113.0/24"
	CIDRs []string `json:"cidrs,omitempty"`
	// Port of the API at the platform's address; a free one where it is not given.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 30000 && self <= 32767",message="the platform serves APIs at ports from 30000 to 32767; choose one of these, or leave it away to get a free one"
	Port *int32 `json:"port,omitempty"`
}

// ClusterNetwork is the cluster's own addresses.
// +kubebuilder:validation:XValidation:rule="!has(self.podCIDR) || !has(self.serviceCIDR) || !isCIDR(self.podCIDR) || !isCIDR(self.serviceCIDR) || !(cidr(self.podCIDR).containsCIDR(self.serviceCIDR) || cidr(self.serviceCIDR).containsCIDR(self.podCIDR))",fieldPath=".serviceCIDR",message="it overlaps with podCIDR; choose two ranges apart"
// +kubebuilder:validation:XValidation:rule="!has(self.podCIDR) || !has(self.serviceCIDR) || !isCIDR(self.podCIDR) || !isCIDR(self.serviceCIDR) || cidr(self.podCIDR).ip().family() == cidr(self.serviceCIDR).ip().family()",fieldPath=".serviceCIDR",message="podCIDR and serviceCIDR are of different families; choose both IPv4 or both IPv6"
type ClusterNetwork struct {
	// PodCIDR is the range of pods' addresses.
	// +kubebuilder:default="192.168.0.0/16"
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="this is no CIDR, or has host bits set; it looks like 192.168.0.0/16"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || (cidr(self).ip().family() == 4 ? cidr(self).prefixLength() >= 8 && cidr(self).prefixLength() <= 24 : cidr(self).prefixLength() >= 48 && cidr(self).prefixLength() <= 64)",message="every node takes a /24 (IPv6: /64) of it; use a range from /8 to /24 (IPv6: /48 to /64)"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="it cannot change; make a new cluster"
	PodCIDR string `json:"podCIDR,omitempty"`
	// ServiceCIDR is the range of services' addresses.
	// +kubebuilder:default="10.96.0.0/12"
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="this is no CIDR, or has host bits set; it looks like 10.96.0.0/12"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || (cidr(self).ip().family() == 4 ? cidr(self).prefixLength() >= 12 && cidr(self).prefixLength() <= 28 : cidr(self).prefixLength() >= 108 && cidr(self).prefixLength() <= 124)",message="Kubernetes takes services' ranges from /12 to /28 (IPv6: /108 to /124); choose one of these sizes"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="it cannot change; make a new cluster"
	ServiceCIDR string `json:"serviceCIDR,omitempty"`
	// Domain of the cluster's names.
	// +kubebuilder:default="cluster.local"
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="this is no domain; it looks like cluster.local"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="it cannot change; make a new cluster"
	Domain string `json:"domain,omitempty"`
	// CNI is the pod network: prismnet, or none for those who bring their own.
	// +kubebuilder:default=prismnet
	// +kubebuilder:validation:Enum=prismnet;none
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="it cannot change; make a new cluster"
	CNI string `json:"cni,omitempty"`
}

// The pod networks.
const (
	CNIPrismNET = "prismnet"
	CNINone     = "none"
)

// Tenancy is whose workloads share a cluster.
// +kubebuilder:validation:Enum=Dedicated;Shared
type Tenancy string

// The tenancies.
const (
	TenancyDedicated Tenancy = "Dedicated"
	TenancyShared    Tenancy = "Shared"
)

// K3s is what clusters of type K3s have of their own.
type K3s struct {
	// Program is an upstream k3s to run in place of k8shost.
	// +optional
	Program *K3sProgram `json:"program,omitempty"`
}

// K3sProgram is an upstream k3s.
type K3sProgram struct {
	// Path of the program: on the machines themselves where it is absolute, otherwise in the platform's release directory,
	// from where it is laid onto them.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=255
	// +kubebuilder:validation:XValidation:rule="self.matches('^/?[A-Za-z0-9_+-][A-Za-z0-9._+-]*(/[A-Za-z0-9_+-][A-Za-z0-9._+-]*)*$')",message="this is no plain path; it looks like k3s/k3s-v1.33.1, or /usr/local/bin/k3s"
	Path string `json:"path"`
	// SHA256 that the program has to have.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9a-f]{64}$')",message="this is no SHA-256; it has 64 hexadecimal digits in lower case, as sha256sum prints them"
	SHA256 string `json:"sha256"`
}

// ClusterSpec is what a cluster is asked to be.
// +kubebuilder:validation:XValidation:rule="!(self.type in ['Kubeadm', 'K3s']) || self.controlPlane.replicas in [1, 3, 5]",fieldPath=".controlPlane.replicas",message="a control plane on machines runs etcd, which needs an odd number to agree; use 1, 3 or 5"
// +kubebuilder:validation:XValidation:rule="!has(oldSelf.version) || size(oldSelf.version) == 0 || (has(self.version) && size(self.version) > 0)",reason=FieldValueForbidden,fieldPath=".version",message="it cannot be taken away once it is set; name the version to run"
// +kubebuilder:validation:XValidation:rule="!has(self.version) || !has(oldSelf.version) || size(self.version) == 0 || size(oldSelf.version) == 0 || int(self.version.split('.')[1]) >= int(oldSelf.version.split('.')[1])",reason=FieldValueForbidden,fieldPath=".version",message="Kubernetes cannot go back to an older minor version; restore a backup into a new cluster"
// +kubebuilder:validation:XValidation:rule="!has(self.version) || !has(oldSelf.version) || size(self.version) == 0 || size(oldSelf.version) == 0 || int(self.version.split('.')[1]) - int(oldSelf.version.split('.')[1]) <= 1",reason=FieldValueForbidden,fieldPath=".version",message="Kubernetes goes up one minor version at a time; upgrade to the next one first"
// +kubebuilder:validation:XValidation:rule="!has(self.version) || !has(oldSelf.version) || size(self.version) == 0 || size(oldSelf.version) == 0 || self.version.split('.')[1] != oldSelf.version.split('.')[1] || size(self.version.split('.')) < 3 || size(oldSelf.version.split('.')) < 3 || int(self.version.split('.')[2]) >= int(oldSelf.version.split('.')[2])",reason=FieldValueForbidden,fieldPath=".version",message="Kubernetes does not go back to an older patch version; name this one or a newer one"
// +kubebuilder:validation:XValidation:rule="!has(self.addons) || !has(self.addons.ingressNginx) || !has(self.addons.ingressNginx.enabled) || !self.addons.ingressNginx.enabled || (has(self.nodeGroups) && self.nodeGroups.exists(name, has(self.nodeGroups[name].roles) && 'ingress-nginx' in self.nodeGroups[name].roles))",fieldPath=".addons.ingressNginx",message="it runs on nodes with the role ingress-nginx, and no group has it; add it to the roles of a node group"
// +kubebuilder:validation:XValidation:rule="self.type != 'K3s' || (self.controlPlane.replicas == 1) == (oldSelf.controlPlane.replicas == 1)",reason=FieldValueForbidden,fieldPath=".controlPlane.replicas",message="a single server keeps its objects in SQLite and several keep them in etcd, and one does not become the other; make a new cluster"
// +kubebuilder:validation:XValidation:rule="!has(self.k3s) || self.type == 'K3s'",fieldPath=".k3s",message="only clusters of type K3s have it; remove it, or make a cluster of that type"
// +kubebuilder:validation:XValidation:rule="!has(self.eks) || self.type == 'EKS'",fieldPath=".eks",message="only clusters of type EKS have it; remove it, or make a cluster of that type"
// +kubebuilder:validation:XValidation:rule="!has(self.gke) || self.type == 'GKE'",fieldPath=".gke",message="only clusters of type GKE have it; remove it, or make a cluster of that type"
// +kubebuilder:validation:XValidation:rule="!has(self.aks) || self.type == 'AKS'",fieldPath=".aks",message="only clusters of type AKS have it; remove it, or make a cluster of that type"
// +kubebuilder:validation:XValidation:rule="!(self.type in ['EKS', 'GKE', 'AKS']) || (has(self.version) && self.version.matches('^v1[.][0-9]+$'))",fieldPath=".version",message="a cloud chooses the patch version itself; name the minor version, such as v1.35"
type ClusterSpec struct {
	// Type is how the control plane runs.
	// +kubebuilder:default=Hosted
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="it cannot change; make a new cluster"
	Type ClusterType `json:"type,omitempty"`
	// Version of Kubernetes, such as v1.36 or v1.36.3; the newest where it is empty.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^v1\\\\.[0-9]{1,3}(\\\\.[0-9]{1,3})?$')",message="this is no version; it looks like v1.36 or v1.36.3"
	// +kubebuilder:validation:MaxLength=12
	Version string `json:"version,omitempty"`
	// Network that the cluster is in.
	// +kubebuilder:default=default
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="it cannot change; make a new cluster"
	Network string `json:"network,omitempty"`
	// Host is the DNS name of the cluster's API; <cluster>.<platform's domain> where it is empty.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="this is no host name; it looks like dev.example.com"
	Host string `json:"host,omitempty"`
	// StorageClass that stores the cluster's data.
	// +kubebuilder:default=replicated
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="it cannot change; make a new cluster"
	StorageClass string `json:"storageClass,omitempty"`
	// ControlPlane is the size of the control plane.
	// +kubebuilder:default={}
	ControlPlane ControlPlane `json:"controlPlane,omitempty"`
	// NodeGroups by name: the worker nodes.
	// +optional
	// +kubebuilder:validation:MaxProperties=30
	// +kubebuilder:validation:XValidation:rule="self.all(name, name.matches('^[a-z]([-a-z0-9]{0,18}[a-z0-9])?$'))",message="a group's name has 1 to 20 lower-case letters, digits and '-', beginning with a letter and not ending with '-'"
	NodeGroups map[string]NodeGroupTemplate `json:"nodeGroups,omitempty"`
	// ClusterNetwork is the cluster's own addresses and pod network.
	// +kubebuilder:default={}
	ClusterNetwork ClusterNetwork `json:"clusterNetwork,omitempty"`
	// Access is who reaches the cluster's API.
	// +kubebuilder:default={}
	Access Access `json:"access,omitempty"`
	// Tenancy is Dedicated, or Shared for a cluster with one namespace for each project.
	// +kubebuilder:default=Dedicated
	Tenancy Tenancy `json:"tenancy,omitempty"`
	// Addons are what the cluster brings along besides Kubernetes itself.
	// +optional
	Addons Addons `json:"addons,omitempty"`
	// K3s is what clusters of type K3s have of their own.
	// +optional
	K3s *K3s `json:"k3s,omitempty"`
	// EKS is what clusters of type EKS have of their own.
	// +optional
	EKS *EKS `json:"eks,omitempty"`
	// GKE is what clusters of type GKE have of their own.
	// +optional
	GKE *GKE `json:"gke,omitempty"`
	// AKS is what clusters of type AKS have of their own.
	// +optional
	AKS *AKS `json:"aks,omitempty"`
	// InfraVersion is the version of the infrastructure's configuration, for clusters in a cloud.
	// +optional
	// +kubebuilder:validation:MaxLength=20
	InfraVersion string `json:"infraVersion,omitempty"`
	// RepairDrift has what somebody else changes in the cloud put right by itself, where nothing is lost by that. Otherwise
	// it is only told, by the condition Drifted.
	// +optional
	RepairDrift bool `json:"repairDrift,omitempty"`
	// DeletionProtection refuses to delete the cluster.
	// +optional
	DeletionProtection bool `json:"deletionProtection,omitempty"`
}

// NodeCounts are the nodes of a cluster.
type NodeCounts struct {
	// Desired is how many there should be.
	// +optional
	Desired int32 `json:"desired"`
	// Ready is how many do their job.
	// +optional
	Ready int32 `json:"ready"`
	// Total is how many there are.
	// +optional
	Total int32 `json:"total"`
}

// ClusterStatus is what became of it.
type ClusterStatus struct {
	// Phase is where the cluster is in its life, in one word.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Endpoint of the API, as a URL.
	// +optional
	Endpoint string `json:"endpoint,omitempty"`
	// Version that the control plane runs.
	// +optional
	// +kubebuilder:validation:MaxLength=60
	Version string `json:"version,omitempty"`
	// Nodes are the worker nodes, counted.
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
	// InfraVersion is the version of the infrastructure's configuration that a cluster in a cloud was made with.
	// +optional
	InfraVersion string `json:"infraVersion,omitempty"`
	// AppliedTemplate tells a change of the nodes' number or the version from a change of anything else.
	// +optional
	AppliedTemplate string `json:"appliedTemplate,omitempty"`
	// AppliedReplicas is how many nodes each node group was brought to; it tells when a group was scaled by itself.
	// +optional
	AppliedReplicas map[string]int32 `json:"appliedReplicas,omitempty"`
	// Repaired is the last request for a repair that was met.
	// +optional
	Repaired string `json:"repaired,omitempty"`
	// Planned is the time of the last request for a plan that was taken up, for clusters in a cloud.
	// +optional
	Planned string `json:"planned,omitempty"`
	// Drift is what was found when a cluster in a cloud was last compared with what is there.
	// +optional
	Drift *Drift `json:"drift,omitempty"`
	// Health is what audits found, and what becomes of it; none where nothing was ever wrong.
	// +optional
	Health *Health `json:"health,omitempty"`
	// Inventory is everything the cluster has made outside itself; a deletion ends when it is empty.
	// +optional
	// +listType=atomic
	Inventory []InventoryItem `json:"inventory,omitempty"`
	// ObservedGeneration is the generation that the cluster was brought to.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready: the cluster does its job; Progressing: a task changes it; Stalled: a person has to act;
	// Healthy: audits find nothing wrong. In a cloud also Drifted: somebody else has changed what is there.
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
// +kubebuilder:validation:XValidation:rule="!has(self.spec.version) || size(self.spec.version) == 0 || (has(oldSelf.spec.version) && oldSelf.spec.version == self.spec.version) || !has(self.status) || !has(self.status.version) || !self.status.version.matches('^v1[.][0-9]+([.]|$)') || (int(self.spec.version.split('.')[1]) - int(self.status.version.split('.')[1]) in [0, 1])",reason=FieldValueForbidden,fieldPath=".spec.version",message="the control plane runs another minor version (status.version), and Kubernetes goes up one at a time and never back; wait for an upgrade under way, or name the running minor version or the next one"
type Cluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the cluster is asked to be.
	Spec ClusterSpec `json:"spec"`
	// Status is what became of it.
	Status ClusterStatus `json:"status,omitempty"`
}

// ClusterList is a list of clusters.
// +kubebuilder:object:root=true
type ClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Cluster `json:"items"`
}
