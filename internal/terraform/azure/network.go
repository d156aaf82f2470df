package azure

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform/translate"
)

// NetworkOptions are what can be chosen of a network in Azure.
type NetworkOptions struct {
	NoNAT   bool
	NATZone string // none in particular if empty
}

// Subnet is one of a network's.
type Subnet struct {
	CIDR string              `json:"cidr"`
	Role v1alpha1.SubnetRole `json:"role"`
}

// NetworkVariables are the variables of the network's configuration.
type NetworkVariables struct {
	Common
	Name    string            `json:"name"`
	CIDR    string            `json:"cidr"`
	Subnets map[string]Subnet `json:"subnets"`
	NAT     bool              `json:"nat"`
	NATZone string            `json:"nat_zone"`
}

// Network translates a network. Subnets span all zones of a region there: one is cut where none is named.
func Network(stack Stack, network *v1alpha1.Network, options NetworkOptions) (*NetworkVariables, error) {
	common, errs := stack.common("network", network.Name)
	spec := field.NewPath("spec")
	variables := &NetworkVariables{
		Common: common, Name: translate.Name(stack.Name, network.Name), CIDR: network.Spec.CIDR,
		NAT: !options.NoNAT, NATZone: options.NATZone, Subnets: map[string]Subnet{},
	}
	errs = append(errs, translate.Within(spec.Child("cidr"), network.Spec.CIDR, 8, 29, "Azure")...)
	subnets := network.Spec.Subnets
	if len(subnets) == 0 {
		cut, err := translate.Cut(network.Spec.CIDR, []string{""})
		if err != nil {
			errs = append(errs, field.Invalid(spec.Child("cidr"), network.Spec.CIDR, err.Error()))
		} else {
			subnets = []v1alpha1.Subnet{{Name: "nodes", CIDR: cut[0].CIDR, Role: v1alpha1.SubnetPrivate}}
		}
	}
	private := false
	for i, subnet := range subnets {
		path := spec.Child("subnets").Index(i)
		errs = append(errs, translate.Within(path.Child("cidr"), subnet.CIDR, 8, 29, "Azure")...)
		if subnet.Zone != "" {
			errs = append(errs, field.Forbidden(path.Child("zone"), "a subnet in Azure spans all zones of its region; leave it out"))
		}
		private = private || subnet.Role == v1alpha1.SubnetPrivate
		variables.Subnets[subnet.Name] = Subnet{CIDR: subnet.CIDR, Role: subnet.Role}
	}
	if !private && len(errs) == 0 {
		errs = append(errs, field.Invalid(spec.Child("subnets"), len(subnets), "nodes are in private subnets, and there is none"))
	}
	return variables, errs.ToAggregate()
}

// Placed is a subnet that exists.
type Placed struct {
	ID   string              `json:"id"`
	Role v1alpha1.SubnetRole `json:"role"`
}

// NetworkOutputs are what the network's configuration puts out.
type NetworkOutputs struct {
	ID            string            `json:"id"`
	ResourceGroup string            `json:"resource_group"`
	Subnets       map[string]Placed `json:"subnets"`
	NATAddresses  []string          `json:"nat_addresses"`
}

// Apply writes them down in the network's status.
func (o *NetworkOutputs) Apply(status *v1alpha1.NetworkStatus) {
	status.ID, status.ResourceGroup, status.NATAddresses, status.Subnets = o.ID, o.ResourceGroup, o.NATAddresses, nil
	for _, name := range slices.Sorted(maps.Keys(o.Subnets)) {
		status.Subnets = append(status.Subnets, v1alpha1.NetworkSubnet{Name: name, ID: o.Subnets[name].ID, Role: o.Subnets[name].Role})
	}
}
