package translate

import (
	"fmt"
	"net/netip"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// Cut divides a network into a private, a public and an intra subnet for each zone, up to four zones: an eighth, a
// sixty-fourth and a two-hundred-fifty-sixth of the network. Half of it stays free for what comes later. Zones that are
// added later get subnets of their own, and the others stay as they are.
func Cut(cidr string, zones []string) ([]v1alpha1.Subnet, error) {
	network, err := netip.ParsePrefix(cidr)
	if err != nil {
		return nil, fmt.Errorf("cut subnets: %w", err)
	}
	if len(zones) == 0 || len(zones) > 4 {
		return nil, fmt.Errorf("cut subnets: there are %d zones; give one to four", len(zones))
	}
	if !network.Addr().Is4() || network.Bits() > 20 {
		return nil, fmt.Errorf("cut subnets: %s is too small to be cut; use /20 or larger, or name the subnets", cidr)
	}
	// The first half holds four private subnets; the public ones begin the second half, the intra ones its second eighth.
	var subnets []v1alpha1.Subnet
	for i, zone := range zones {
		for _, part := range []struct {
			role        v1alpha1.SubnetRole
			name        string
			bits, index int
		}{
			{v1alpha1.SubnetPrivate, "private", 3, i},
			{v1alpha1.SubnetPublic, "public", 6, 32 + i},
			{v1alpha1.SubnetIntra, "intra", 8, 160 + i},
		} {
			subnets = append(subnets, v1alpha1.Subnet{
				Name: fmt.Sprintf("%s-%d", part.name, i+1), Role: part.role, Zone: zone, CIDR: piece(network, part.bits, part.index).String(),
			})
		}
	}
	return subnets, nil
}

// piece is the index-th of the 2^bits equal pieces of a network.
func piece(network netip.Prefix, bits, index int) netip.Prefix {
	length := network.Bits() + bits
	address := network.Masked().Addr().As4()
	value := uint32(address[0])<<24 | uint32(address[1])<<16 | uint32(address[2])<<8 | uint32(address[3])
	value += uint32(index) << (32 - length)
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}), length)
}

// Address is the n-th address of a range.
func Address(cidr string, n int) (string, error) {
	network, err := netip.ParsePrefix(cidr)
	if err != nil {
		return "", err
	}
	address := network.Masked().Addr()
	for range n {
		address = address.Next()
	}
	if !network.Contains(address) {
		return "", fmt.Errorf("%s has no address number %d", cidr, n)
	}
	return address.String(), nil
}
