package aws

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/terraform/translate"
)

// NAT is how private subnets reach the internet.
type NAT string

// The ways of NAT.
const (
	NATNone    NAT = "None"
	NATSingle  NAT = "Single"  // one gateway: cheap, and one zone's trouble is everybody's
	NATPerZone NAT = "PerZone" // one in each zone
)

// NetworkOptions are what can be chosen of a network in AWS.
type NetworkOptions struct {
	Zones              []string // that subnets are cut for; the region's a, b and c if empty
	NAT                NAT      // NATSingle if empty
	NoFlowLogs         bool
	LogRetentionDays   int      // 30 if 0
	InterfaceEndpoints []string // services that are reached inside of the network, such as ecr.api; from infra version v1.1.0
}

// Subnet is one of a network's.
type Subnet struct {
	CIDR string              `json:"cidr"`
	Zone string              `json:"zone"`
	Role v1alpha1.SubnetRole `json:"role"`
}

// NetworkVariables are the variables of the network's configuration.
type NetworkVariables struct {
	Common
	Name               string            `json:"name"`
	CIDR               string            `json:"cidr"`
	Subnets            map[string]Subnet `json:"subnets"`
	NAT                NAT               `json:"nat"`
	FlowLogs           bool              `json:"flow_logs"`
	LogRetentionDays   int               `json:"log_retention_days"`
	InterfaceEndpoints []string          `json:"interface_endpoints,omitempty"`
}

// withEndpoints is the first infra version that has interface endpoints.
const withEndpoints = "v1.1.0"

// Network translates a network.
func Network(stack Stack, network *v1alpha1.Network, options NetworkOptions) (*NetworkVariables, error) {
	common, errs := stack.common(map[string]string{"plasmacloud.io/network": network.Name})
	spec := field.NewPath("spec")
	variables := &NetworkVariables{
		Common: common, Name: translate.Name(stack.Name, network.Name), CIDR: network.Spec.CIDR, Subnets: map[string]Subnet{},
		NAT: options.NAT, FlowLogs: !options.NoFlowLogs, LogRetentionDays: options.LogRetentionDays, InterfaceEndpoints: options.InterfaceEndpoints,
	}
	if variables.NAT == "" {
		variables.NAT = NATSingle
	}
	if variables.LogRetentionDays == 0 {
		variables.LogRetentionDays = 30
	}
	errs = append(errs, translate.Within(spec.Child("cidr"), network.Spec.CIDR, 16, 28, "AWS")...)
	if len(options.InterfaceEndpoints) > 0 && semver.Compare(stack.InfraVersion, withEndpoints) < 0 {
		errs = append(errs, field.Invalid(spec.Child("infraVersion"), stack.InfraVersion, "interface endpoints come with "+withEndpoints+"; upgrade the network first"))
	}
	subnets, problems := subnetsOf(network, common.Region, options.Zones, spec)
	errs = append(errs, problems...)
	public := map[string]bool{}
	for _, subnet := range subnets {
		variables.Subnets[subnet.Name] = Subnet{CIDR: subnet.CIDR, Zone: subnet.Zone, Role: subnet.Role}
		if subnet.Role == v1alpha1.SubnetPublic {
			public[subnet.Zone] = true
		}
	}
	for _, subnet := range subnets {
		switch {
		case subnet.Role != v1alpha1.SubnetPrivate || variables.NAT == NATNone:
		case len(public) == 0:
			errs = append(errs, field.Invalid(spec.Child("subnets"), subnet.Name, "a private subnet reaches the internet through NAT in a public one, and there is none; add one, or choose no NAT"))
		case variables.NAT == NATPerZone && !public[subnet.Zone]:
			errs = append(errs, field.Invalid(spec.Child("subnets"), subnet.Name, fmt.Sprintf("NAT in every zone needs a public subnet in %s; add one, or choose a single NAT", subnet.Zone)))
		}
	}
	return variables, errs.ToAggregate()
}

// subnetsOf are those that the network names, or those that are cut for it.
func subnetsOf(network *v1alpha1.Network, region string, zones []string, spec *field.Path) ([]v1alpha1.Subnet, field.ErrorList) {
	if len(zones) == 0 && region != "" {
		zones = []string{region + "a", region + "b", region + "c"}
	}
	if len(network.Spec.Subnets) == 0 {
		subnets, err := translate.Cut(network.Spec.CIDR, zones)
		if err != nil {
			return nil, field.ErrorList{field.Invalid(spec.Child("cidr"), network.Spec.CIDR, err.Error())}
		}
		return subnets, nil
	}
	var errs field.ErrorList
	inZones := map[string]bool{}
	for i, subnet := range network.Spec.Subnets {
		path := spec.Child("subnets").Index(i)
		errs = append(errs, translate.Within(path.Child("cidr"), subnet.CIDR, 16, 28, "AWS")...)
		if !strings.HasPrefix(subnet.Zone, region) || subnet.Zone == region {
			errs = append(errs, field.Invalid(path.Child("zone"), subnet.Zone, fmt.Sprintf("a subnet in AWS lies in one zone of the account's region; name it, such as %sa", region)))
		}
		if subnet.Role != v1alpha1.SubnetPublic {
			inZones[subnet.Zone] = true
		}
	}
	if len(inZones) < 2 {
		errs = append(errs, field.Invalid(spec.Child("subnets"), len(network.Spec.Subnets), "EKS needs subnets that are not public in two zones at least"))
	}
	return slices.Clone(network.Spec.Subnets), errs
}

// Placed is a subnet that exists.
type Placed struct {
	ID   string `json:"id"`
	Zone string `json:"zone"`
}

// NetworkOutputs are what the network's configuration puts out.
type NetworkOutputs struct {
	ID             string            `json:"id"`
	PublicSubnets  map[string]Placed `json:"public_subnets"`
	PrivateSubnets map[string]Placed `json:"private_subnets"`
	IntraSubnets   map[string]Placed `json:"intra_subnets"`
	NATAddresses   []string          `json:"nat_addresses"`
}

// Apply writes them down in the network's status.
func (o *NetworkOutputs) Apply(status *v1alpha1.NetworkStatus) {
	status.ID, status.NATAddresses, status.Subnets = o.ID, o.NATAddresses, nil
	for _, part := range []struct {
		role    v1alpha1.SubnetRole
		subnets map[string]Placed
	}{{v1alpha1.SubnetIntra, o.IntraSubnets}, {v1alpha1.SubnetPrivate, o.PrivateSubnets}, {v1alpha1.SubnetPublic, o.PublicSubnets}} {
		for _, name := range slices.Sorted(maps.Keys(part.subnets)) {
			subnet := part.subnets[name]
			status.Subnets = append(status.Subnets, v1alpha1.NetworkSubnet{Name: name, ID: subnet.ID, Role: part.role, Zone: subnet.Zone})
		}
	}
}
