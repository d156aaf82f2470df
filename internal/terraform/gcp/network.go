package gcp

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform/translate"
)

// NetworkOptions are what can be chosen of a network in Google Cloud. A cluster's pods and services have their addresses
// from the network there, so their ranges are decided with it.
type NetworkOptions struct {
	PodCIDR     string // of the first subnet; 172.16.0.0/14 if empty
	ServiceCIDR string // of the first subnet; 172.20.0.0/20 if empty
	NoNAT       bool
	NoFlowLogs  bool
}

// Subnet is one of a network's.
type Subnet struct {
	CIDR        string `json:"cidr"`
	PodCIDR     string `json:"pod_cidr"`
	ServiceCIDR string `json:"service_cidr"`
}

// NetworkVariables are the variables of the network's configuration.
type NetworkVariables struct {
	Common
	Name     string            `json:"name"`
	Subnets  map[string]Subnet `json:"subnets"`
	NAT      bool              `json:"nat"`
	FlowLogs bool              `json:"flow_logs"`
}

// Network translates a network. Subnets span all zones of a region there: one is cut where none is named.
func Network(stack Stack, network *v1alpha1.Network, options NetworkOptions) (*NetworkVariables, error) {
	common, errs := stack.common("network", network.Name)
	spec := field.NewPath("spec")
	if options.PodCIDR == "" {
		options.PodCIDR = "172.16.0.0/14"
	}
	if options.ServiceCIDR == "" {
		options.ServiceCIDR = "172.20.0.0/20"
	}
	variables := &NetworkVariables{
		Common: common, Name: translate.Name(stack.Name, network.Name), NAT: !options.NoNAT, FlowLogs: !options.NoFlowLogs, Subnets: map[string]Subnet{},
	}
	errs = append(errs, translate.Within(spec.Child("cidr"), network.Spec.CIDR, 8, 29, "Google Cloud")...)
	errs = append(errs, translate.Within(spec.Child("podCIDR"), options.PodCIDR, 9, 21, "GKE")...)
	errs = append(errs, translate.Within(spec.Child("serviceCIDR"), options.ServiceCIDR, 16, 27, "GKE")...)
	errs = append(errs, translate.Overlap(spec.Child("podCIDR"), options.PodCIDR, network.Spec.CIDR, "the network")...)
	errs = append(errs, translate.Overlap(spec.Child("serviceCIDR"), options.ServiceCIDR, network.Spec.CIDR, "the network")...)
	errs = append(errs, translate.Overlap(spec.Child("serviceCIDR"), options.ServiceCIDR, options.PodCIDR, "pods")...)
	subnets := network.Spec.Subnets
	if len(subnets) == 0 {
		subnets = []v1alpha1.Subnet{{Name: "nodes", CIDR: network.Spec.CIDR}}
	}
	if len(subnets) > 1 {
		errs = append(errs, field.TooMany(spec.Child("subnets"), len(subnets), 1))
	}
	for i, subnet := range subnets {
		if subnet.Zone != "" {
			errs = append(errs, field.Forbidden(spec.Child("subnets").Index(i).Child("zone"), "a subnet in Google Cloud spans all zones of its region; leave it out"))
		}
		if subnet.Role == v1alpha1.SubnetPublic {
			errs = append(errs, field.Invalid(spec.Child("subnets").Index(i).Child("role"), subnet.Role, "nodes have no addresses in the internet; use Private"))
		}
		variables.Subnets[subnet.Name] = Subnet{CIDR: subnet.CIDR, PodCIDR: options.PodCIDR, ServiceCIDR: options.ServiceCIDR}
	}
	return variables, errs.ToAggregate()
}

// NetworkOutputs are what the network's configuration puts out.
type NetworkOutputs struct {
	ID      string `json:"id"`
	Subnets map[string]struct {
		ID   string `json:"id"`
		CIDR string `json:"cidr"`
	} `json:"subnets"`
}

// Apply writes them down in the network's status.
func (o *NetworkOutputs) Apply(status *v1alpha1.NetworkStatus) {
	status.ID, status.Subnets = o.ID, nil
	for _, name := range slices.Sorted(maps.Keys(o.Subnets)) {
		status.Subnets = append(status.Subnets, v1alpha1.NetworkSubnet{Name: name, ID: o.Subnets[name].ID, Role: v1alpha1.SubnetPrivate})
	}
}
