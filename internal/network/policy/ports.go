package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"plasmacloud.io/plasmacloud/internal/network/linux"
)

// portMatch is what a rule says about ports.
type portMatch struct {
	// all is a rule without ports, which means every protocol.
	all    bool
	ranges []linux.PortRange
	// names are ports by name and protocol.
	names []NamedPort
}

func readPorts(given []networkingv1.NetworkPolicyPort) (portMatch, error) {
	if len(given) == 0 {
		return portMatch{all: true}, nil
	}
	var match portMatch
	var problems []error
	for _, port := range given {
		protocol := corev1.ProtocolTCP
		if port.Protocol != nil {
			protocol = *port.Protocol
		}
		name := strings.ToLower(string(protocol))
		switch {
		case protocol != corev1.ProtocolTCP && protocol != corev1.ProtocolUDP && protocol != corev1.ProtocolSCTP:
			problems = append(problems, fmt.Errorf("protocol %q is none of TCP, UDP, SCTP", protocol))
		case port.Port == nil:
			match.ranges = append(match.ranges, linux.AllPorts(name))
		case port.Port.Type == intstr.String:
			match.names = append(match.names, NamedPort{Name: port.Port.StrVal, Protocol: name})
		default:
			numbers, err := readRange(name, port)
			if err != nil {
				problems = append(problems, err)
				continue
			}
			match.ranges = append(match.ranges, numbers)
		}
	}
	match.ranges = merge(match.ranges)
	return match, errors.Join(problems...)
}

func readRange(protocol string, port networkingv1.NetworkPolicyPort) (linux.PortRange, error) {
	first := port.Port.IntVal
	last := first
	if port.EndPort != nil {
		last = *port.EndPort
	}
	if first < 1 || last < first || last > 65535 {
		return linux.PortRange{}, fmt.Errorf("ports %d to %d are none", first, last)
	}
	return linux.PortRange{Protocol: protocol, First: uint16(first), Last: uint16(last)}, nil
}

// merge joins ranges that meet: nftables takes none that overlap.
func merge(ranges []linux.PortRange) []linux.PortRange {
	slices.SortFunc(ranges, func(a, b linux.PortRange) int {
		return cmp.Or(strings.Compare(a.Protocol, b.Protocol), cmp.Compare(a.First, b.First))
	})
	var merged []linux.PortRange
	for _, next := range ranges {
		if i := len(merged) - 1; i >= 0 && merged[i].Protocol == next.Protocol && int(next.First) <= int(merged[i].Last)+1 {
			merged[i].Last = max(merged[i].Last, next.Last)
			continue
		}
		merged = append(merged, next)
	}
	return merged
}

// namedPorts makes a set of what pods call by some names; it returns nothing
// where there are no names.
func (c *compiler) namedPorts(set string, names []NamedPort, pods []*Pod) string {
	if len(names) == 0 {
		return ""
	}
	var ports []linux.PodPort
	for _, pod := range pods {
		for _, port := range pod.Ports {
			if !slices.Contains(names, NamedPort{Name: port.Name, Protocol: port.Protocol}) {
				continue
			}
			for _, addr := range pod.Addresses {
				ports = append(ports, linux.PodPort{Address: addr, Protocol: port.Protocol, Port: port.Port})
			}
		}
	}
	c.rules.Ports[set] = ports
	return set
}
