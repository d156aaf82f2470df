// Package securitygroup is what the machines of a cluster let in. A Policy, which is data, becomes an nftables ruleset
// (Render), which is put onto a machine over SSH (Install): replaced in one transaction, loaded again at every boot before
// there is a network, and taken off without a trace (Remove).
//
// What is decided is whether somebody may begin to talk to the machine itself: to its own ports and to those that it
// forwards to pods, as the sender wrote them. What a machine began itself is answered, and what passes through it to a
// pod's own address is for network policies to judge.
package securitygroup

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// Policy is what a machine lets in. Besides that it always lets in SSH, without which nobody could take care of it, and
// what a machine has its address from and finds its neighbours by: DHCP, ARP, and their like of IPv6.
type Policy struct {
	// Group of the cluster.
	Group v1alpha1.SecurityGroup
	// Internal are rules that the cluster cannot do without, whatever its group says, such as Etcd's.
	Internal []v1alpha1.SecurityRule
	// PodCIDR is where pods have their addresses; what they send to the machine that they are on is let in. It may be
	// several, with commas between them, or none.
	PodCIDR string
	// SSHPorts are where SSH listens, besides 22.
	SSHPorts []int
}

// Etcd are the rules by which the members of a control plane reach each other's etcd. The same members, in whatever order
// they were listed, have the same rules.
func Etcd(members ...string) []v1alpha1.SecurityRule {
	var rules []v1alpha1.SecurityRule
	for _, member := range slices.Sorted(slices.Values(members)) {
		source := member
		if addr, err := netip.ParseAddr(member); err == nil {
			source = netip.PrefixFrom(addr, addr.BitLen()).String()
		}
		rules = append(rules, v1alpha1.SecurityRule{Protocol: v1alpha1.ProtocolTCP, Ports: "2379-2380", Source: source, Description: "etcd of the control plane"})
	}
	return rules
}

// Tunnel is the rule by which machines reach each other's pods, where that goes through a tunnel of UDP.
func Tunnel(port int) v1alpha1.SecurityRule {
	return v1alpha1.SecurityRule{Protocol: v1alpha1.ProtocolUDP, Ports: strconv.Itoa(port), Description: "tunnel between pods"}
}

// rule is a security rule that was understood.
type rule struct {
	protocol v1alpha1.Protocol
	ports    portRange
	source   netip.Prefix // invalid where it is everybody
	comment  string
}

type portRange struct{ first, last uint16 }

func (p portRange) String() string {
	if p.first == p.last {
		return strconv.Itoa(int(p.first))
	}
	return fmt.Sprintf("%d-%d", p.first, p.last)
}

// understand reads rules. The API has looked at them already; but what is written into a machine's firewall is looked at
// once more.
func understand(rules []v1alpha1.SecurityRule) ([]rule, error) {
	understood := make([]rule, 0, len(rules))
	for i, given := range rules {
		r := rule{protocol: given.Protocol, comment: printable(given.Description)}
		var err error
		switch given.Protocol {
		case v1alpha1.ProtocolTCP, v1alpha1.ProtocolUDP:
			r.ports, err = parsePorts(given.Ports)
		case v1alpha1.ProtocolICMP, v1alpha1.ProtocolARP, v1alpha1.ProtocolAny:
			if given.Ports != "" {
				err = fmt.Errorf("%s has no ports", given.Protocol)
			}
		default:
			err = fmt.Errorf("%q is no protocol", given.Protocol)
		}
		if err == nil && given.Source != "" {
			r.source, err = netip.ParsePrefix(given.Source)
		}
		if err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
		r.source = r.source.Masked()
		understood = append(understood, r)
	}
	return understood, nil
}

func parsePorts(text string) (portRange, error) {
	first, last, _ := strings.Cut(text, "-")
	from, err := strconv.ParseUint(first, 10, 16)
	to := from
	if err == nil && last != "" {
		to, err = strconv.ParseUint(last, 10, 16)
	}
	if err != nil || from == 0 || to < from {
		return portRange{}, fmt.Errorf("%q is neither a port nor a range of them", text)
	}
	return portRange{uint16(from), uint16(to)}, nil
}

// printable is a text as a comment of nftables can have it.
func printable(text string) string {
	const longest = 120
	clean := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || strings.ContainsRune("\"\\;{}$", r) {
			return '?'
		}
		return r
	}, text)
	return clean[:min(len(clean), longest)]
}

func (p Policy) prefixes() ([]netip.Prefix, error) {
	if p.PodCIDR == "" {
		return nil, nil
	}
	var prefixes []netip.Prefix
	for text := range strings.SplitSeq(p.PodCIDR, ",") {
		prefix, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("pods' range: %w", err)
		}
		prefixes = append(prefixes, prefix.Masked())
	}
	return prefixes, nil
}

func (p Policy) sshPorts() ([]portRange, error) {
	var ports []portRange
	for _, port := range append([]int{22}, p.SSHPorts...) {
		if port < 1 || port > 65535 {
			return nil, fmt.Errorf("%d is no port", port)
		}
		if one := (portRange{uint16(port), uint16(port)}); !slices.Contains(ports, one) {
			ports = append(ports, one)
		}
	}
	return ports, nil
}
