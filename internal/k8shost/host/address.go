package host

import (
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// DetectIdentity reads the host's name and picks its address in the network namespace
// of the caller.
func DetectIdentity() (Identity, error) {
	name, err := os.Hostname()
	if err != nil {
		return Identity{}, fmt.Errorf("read host name: %w", err)
	}
	address, err := nodeAddress()
	if err != nil {
		return Identity{}, err
	}
	return Identity{Hostname: name, Address: address}, nil
}

func nodeAddress() (netip.Addr, error) {
	route, err := defaultRoute()
	if err != nil {
		return netip.Addr{}, err
	}
	if route != nil {
		if src, ok := netip.AddrFromSlice(route.Src.To4()); ok {
			return src, nil
		}
		index := route.LinkIndex
		if index == 0 && len(route.MultiPath) > 0 {
			index = route.MultiPath[0].LinkIndex
		}
		found, err := addresses(index)
		if err != nil {
			return netip.Addr{}, err
		}
		if len(found) > 0 {
			return found[0], nil
		}
	}
	all, err := addresses(0)
	if err != nil || len(all) != 1 {
		return netip.Addr{}, err
	}
	return all[0], nil
}

// defaultRoute is the IPv4 default route with the lowest metric, nil without one.
func defaultRoute() (*netlink.Route, error) {
	filter := &netlink.Route{Table: unix.RT_TABLE_MAIN}
	routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, filter, netlink.RT_FILTER_TABLE)
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	var best *netlink.Route
	for i := range routes {
		if !isDefault(routes[i].Dst) {
			continue
		}
		if best == nil || routes[i].Priority < best.Priority {
			best = &routes[i]
		}
	}
	return best, nil
}

func isDefault(dst *net.IPNet) bool {
	if dst == nil {
		return true
	}
	ones, _ := dst.Mask.Size()
	return ones == 0
}

// addresses lists the usable IPv4 addresses of one interface, or of all when index is 0.
func addresses(index int) ([]netip.Addr, error) {
	list, err := netlink.AddrList(nil, netlink.FAMILY_V4)
	if err != nil {
		return nil, fmt.Errorf("list addresses: %w", err)
	}
	var found []netip.Addr
	for _, a := range list {
		addr, ok := netip.AddrFromSlice(a.IP.To4())
		if !ok || index != 0 && a.LinkIndex != index {
			continue
		}
		if addr.IsLoopback() || addr.IsLinkLocalUnicast() || a.Flags&unix.IFA_F_SECONDARY != 0 {
			continue
		}
		found = append(found, addr)
	}
	return found, nil
}
