package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SubnetRole is what a subnet is for.
// +kubebuilder:validation:Enum=Public;Private;Intra
type SubnetRole string

// The roles of subnets.
const (
	SubnetPublic  SubnetRole = "Public"
	SubnetPrivate SubnetRole = "Private"
	SubnetIntra   SubnetRole = "Intra"
)

// Subnet is a part of a network.
type Subnet struct {
	// Name of the subnet.
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$')",message="use 1 to 40 lower-case letters, digits and '-', beginning with a letter and not ending with '-'"
	Name string `json:"name"`
	// CIDR of the subnet, within the network's.
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="this is no CIDR, or has host bits set; it looks like 10.0.1.0/24"
	CIDR string `json:"cidr"`
	// Role of the subnet.
	// +kubebuilder:default=Private
	Role SubnetRole `json:"role,omitempty"`
	// Zone of the cloud that it lies in.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Zone string `json:"zone,omitempty"`
}

// Protocol of a security rule.
// +kubebuilder:validation:Enum=TCP;UDP;ICMP;ARP;Any
type Protocol string

// The protocols of security rules.
const (
	ProtocolTCP  Protocol = "TCP"
	ProtocolUDP  Protocol = "UDP"
	ProtocolICMP Protocol = "ICMP"
	ProtocolARP  Protocol = "ARP"
	ProtocolAny  Protocol = "Any"
)

// SecurityRule lets traffic in.
// +kubebuilder:validation:XValidation:rule="!(self.protocol in ['TCP', 'UDP']) || has(self.ports)",reason=FieldValueRequired,fieldPath=".ports",message="a rule for TCP or UDP needs a port, such as 6443, or a range, such as 30000-32767"
// +kubebuilder:validation:XValidation:rule="self.protocol in ['TCP', 'UDP'] || !has(self.ports)",reason=FieldValueForbidden,fieldPath=".ports",message="only rules for TCP and UDP have ports; remove it"
type SecurityRule struct {
	// Protocol to let in.
	Protocol Protocol `json:"protocol"`
	// Ports, one or a range.
	// +optional
	// +kubebuilder:validation:MaxLength=11
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]{1,5}(-[0-9]{1,5})?$') && self.split('-').all(p, int(p) >= 1 && int(p) <= 65535) && int(self.split('-')[0]) <= int(self.split('-')[size(self.split('-')) - 1])",message="give a port from 1 to 65535, or a range with the lower one first"
	Ports string `json:"ports,omitempty"`
	// Source to let in; everybody where it is empty.
	// +optional
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="self == '' || isCIDR(self)",message="this is no CIDR; it looks like 10.0.0.0/8"
	Source string `json:"source,omitempty"`
	// Description for people to read.
	// +optional
	// +kubebuilder:validation:MaxLength=120
	Description string `json:"description,omitempty"`
}

// SecurityGroup is a named set of rules.
type SecurityGroup struct {
	// Name of the group, such as sg-dev-cluster.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$')",message="use 1 to 63 lower-case letters, digits and '-', beginning with a letter and not ending with '-'"
	Name string `json:"name"`
	// Rules; what none of them lets in stays out.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Rules []SecurityRule `json:"rules,omitempty"`
}

// NetworkSpec is what a network is asked to be.
// +kubebuilder:validation:XValidation:rule="self.subnets.all(s, !isCIDR(s.cidr) || !isCIDR(self.cidr) || cidr(self.cidr).containsCIDR(s.cidr))",fieldPath=".subnets",message="a subnet does not lie within spec.cidr; choose its cidr from the network's"
// +kubebuilder:validation:XValidation:rule="self.subnets.all(a, self.subnets.all(b, a.name == b.name || !isCIDR(a.cidr) || !isCIDR(b.cidr) || !(cidr(a.cidr).containsCIDR(b.cidr) || cidr(b.cidr).containsCIDR(a.cidr))))",fieldPath=".subnets",message="two subnets overlap; choose ranges apart"
type NetworkSpec struct {
	// Account that the network's infrastructure comes from.
	// +kubebuilder:default=local
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="it cannot change; make a new network"
	Account string `json:"account,omitempty"`
	// CIDR of the network.
	// +kubebuilder:default="10.0.0.0/16"
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self) && cidr(self) == cidr(self).masked()",message="this is no CIDR, or has host bits set; it looks like 10.0.0.0/16"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self).prefixLength() <= (cidr(self).ip().family() == 4 ? 28 : 64)",message="the range is too small for a network; use /28 or larger (IPv6: /64 or larger)"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",reason=FieldValueForbidden,message="it cannot change; make a new network"
	CIDR string `json:"cidr,omitempty"`
	// Subnets of the network; the platform cuts them where none are given.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:default={}
	// +kubebuilder:validation:MaxItems=30
	Subnets []Subnet `json:"subnets"`
	// ClusterRules are the rules of the group sg-<cluster> that each cluster in the network has.
	// +optional
	// +listType=atomic
	// +kubebuilder:default={{protocol: TCP, ports: "6443", source: "0.0.0.0/0", description: "Kubernetes API Server"}, {protocol: UDP, ports: "4789", source: "0.0.0.0/0", description: "VXLAN Overlay"}, {protocol: TCP, ports: "179", source: "0.0.0.0/0", description: "BGP"}, {protocol: TCP, ports: "10250", source: "0.0.0.0/0", description: "Kubelet API"}, {protocol: TCP, ports: "30000-32767", source: "0.0.0.0/0", description: "NodePort Services"}, {protocol: UDP, ports: "30000-32767", source: "0.0.0.0/0", description: "NodePort Services"}, {protocol: ARP, description: "L2 Discovery"}}
	// +kubebuilder:validation:MaxItems=50
	ClusterRules []SecurityRule `json:"clusterRules"`
	// SecurityGroups besides those that clusters bring along. One that is named as a cluster's, sg-<cluster>, takes its
	// place.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	SecurityGroups []SecurityGroup `json:"securityGroups,omitempty"`
	// AWS is what networks in AWS have of their own.
	// +optional
	AWS *AWSNetwork `json:"aws,omitempty"`
	// GCP is what networks in Google Cloud have of their own.
	// +optional
	GCP *GCPNetwork `json:"gcp,omitempty"`
	// Azure is what networks in Azure have of their own.
	// +optional
	Azure *AzureNetwork `json:"azure,omitempty"`
	// InfraVersion is the version of the infrastructure's configuration, for networks in a cloud; it stays until it is
	// changed here.
	// +optional
	// +kubebuilder:validation:MaxLength=20
	InfraVersion string `json:"infraVersion,omitempty"`
	// RepairDrift has what somebody else changes in the cloud put right by itself, where nothing is lost by that. Otherwise
	// it is only told, by the condition Drifted.
	// +optional
	RepairDrift bool `json:"repairDrift,omitempty"`
}

// SecurityGroupOf is the name of a cluster's security group.
func SecurityGroupOf(cluster string) string { return "sg-" + cluster }

// SecurityGroupOf is the group of a cluster that is in the network.
func (s *NetworkSpec) SecurityGroupOf(cluster string) SecurityGroup {
	name := SecurityGroupOf(cluster)
	for _, group := range s.SecurityGroups {
		if group.Name == name {
			return group
		}
	}
	return SecurityGroup{Name: name, Rules: s.ClusterRules}
}

// NetworkStatus is what became of it.
type NetworkStatus struct {
	StackStatus `json:",inline"`
	// Phase is where the network is in its life, in one word.
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Clusters that are in the network.
	// +optional
	Clusters int32 `json:"clusters"`
	// ID that the provider knows the network by.
	// +optional
	ID string `json:"id,omitempty"`
	// Subnets that a network in a cloud has there.
	// +optional
	// +listType=map
	// +listMapKey=name
	Subnets []NetworkSubnet `json:"subnets,omitempty"`
	// ResourceGroup that a network in Azure is in.
	// +optional
	ResourceGroup string `json:"resourceGroup,omitempty"`
	// NATAddresses that the network is seen under from outside, where the cloud tells them.
	// +optional
	// +listType=atomic
	NATAddresses []string `json:"natAddresses,omitempty"`
	// ObservedGeneration is the generation that the status speaks of.
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions are Ready: clusters can be made in the network. In a cloud also Progressing: a task changes it; and
	// Stalled: a person has to act; Drifted: somebody else has changed what is in the cloud.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Network is a virtual private cloud: a range of addresses, its subnets, and who may talk to whom.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=vpc;net,categories=plasmacloud
// +kubebuilder:selectablefield:JSONPath=`.spec.account`
// +kubebuilder:printcolumn:name="CIDR",type=string,JSONPath=`.spec.cidr`
// +kubebuilder:printcolumn:name="Account",type=string,JSONPath=`.spec.account`
// +kubebuilder:printcolumn:name="Clusters",type=integer,JSONPath=`.status.clusters`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.matches('^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$')",message="metadata.name: use 1 to 40 lower-case letters, digits and '-', beginning with a letter and not ending with '-'"
type Network struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the network is asked to be.
	Spec NetworkSpec `json:"spec"`
	// Status is what became of it.
	Status NetworkStatus `json:"status,omitempty"`
}

// NetworkList is a list of networks.
// +kubebuilder:object:root=true
type NetworkList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Network `json:"items"`
}
