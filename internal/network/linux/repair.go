package linux

import (
	"errors"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"

	"plasmacloud.io/plasmacloud/internal/network/ipam"
)

// RepairPods sets up again what somebody took from the node's side of running
// pods: the interface is up, and the pod's address leads to it.
func (d *Dataplane) RepairPods(leases []ipam.Lease, nodeIP netip.Addr) error {
	if len(leases) == 0 {
		return nil
	}
	links, err := d.podLinks()
	if err != nil {
		return err
	}
	byName := make(map[string]netlink.Link, len(links))
	for _, link := range links {
		byName[link.Attrs().Name] = link
	}
	routes, err := allRoutes()
	if err != nil {
		return err
	}
	var problems []error
	for _, lease := range leases {
		link, ok := byName[d.HostInterface(lease.Key)]
		if !ok || link.Attrs().Flags&net.FlagUp != 0 && hasPodRoute(routes, lease, link) {
			continue
		}
		err := d.ConfigureHost(Attachment{Lease: lease, MTU: link.Attrs().MTU, NodeIP: nodeIP})
		if err == nil {
			continue
		}
		// The pod may have gone while it was being repaired.
		if _, missing := netlink.LinkByName(link.Attrs().Name); !isLinkNotFound(missing) {
			problems = append(problems, err)
		}
	}
	return errors.Join(problems...)
}

func hasPodRoute(routes []netlink.Route, lease ipam.Lease, link netlink.Link) bool {
	want := netip.PrefixFrom(lease.Address, lease.Address.BitLen())
	for _, route := range routes {
		if dst, ok := prefixOf(route.Dst); ok && dst == want && route.LinkIndex == link.Attrs().Index {
			return true
		}
	}
	return false
}
