package linux

import (
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"plasmacloud.io/plasmacloud/internal/network/ipam"
)

// ForgetFlows makes the kernel forget UDP flows to a lease's host ports. A UDP
// flow never ends while its client keeps sending, and as long as it is
// remembered, its packets go where they went first: to the pod before, or to
// no pod.
func (d *Dataplane) ForgetFlows(lease ipam.Lease) error {
	if !slices.ContainsFunc(lease.HostPorts, func(p ipam.HostPort) bool { return p.Protocol == "udp" }) {
		return nil
	}
	_, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, unix.AF_INET, leaseFlows(lease))
	if err != nil {
		return fmt.Errorf("forget UDP flows of host ports: %w", err)
	}
	return nil
}

// leaseFlows selects the flows to the lease's UDP host ports and those that
// its pod answers.
type leaseFlows ipam.Lease

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (l leaseFlows) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	if flow.Forward.Protocol != unix.IPPROTO_UDP {
		return false
	}
	if flow.Reverse.SrcIP.Equal(l.Address.AsSlice()) {
		return true
	}
	return slices.ContainsFunc(l.HostPorts, func(p ipam.HostPort) bool {
		return p.Protocol == "udp" && p.HostPort == flow.Forward.DstPort &&
			(!p.HostIP.IsValid() || flow.Forward.DstIP.Equal(p.HostIP.AsSlice()))
	})
}
