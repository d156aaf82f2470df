package linux

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ErrNotLocal means that no interface of this node has the address.
var ErrNotLocal = errors.New("address is not on this node")

// dumpAttempts is how often a dump is started anew. Each loses against a change
// that happened during it, and pods come and go.
const dumpAttempts = 20

// dump repeats a netlink dump until the kernel says it is consistent.
func dump[T any](list func() ([]T, error)) ([]T, error) {
	for range dumpAttempts {
		items, err := list()
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			return items, err
		}
	}
	return nil, netlink.ErrDumpInterrupted
}

// routeTo asks the kernel how it reaches addr; nil if it does not.
func routeTo(addr netip.Addr) (*netlink.Route, error) {
	routes, err := netlink.RouteGet(addr.AsSlice())
	if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up route to %s: %w", addr, err)
	}
	if len(routes) == 0 {
		return nil, nil
	}
	return &routes[0], nil
}

// ethernetMTU is taken where a node has its address on the loopback interface
// and announces it by a routing protocol.
const ethernetMTU = 1500

// UnderlayMTU is the MTU of the interface that has the node's address.
func UnderlayMTU(node netip.Addr) (int, error) {
	addrs, err := dump(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_V4) })
	if err != nil {
		return 0, fmt.Errorf("list addresses: %w", err)
	}
	for _, addr := range addrs {
		if !addr.IP.Equal(node.AsSlice()) {
			continue
		}
		link, err := netlink.LinkByIndex(addr.LinkIndex)
		if err != nil {
			return 0, fmt.Errorf("find interface of %s: %w", node, err)
		}
		if link.Attrs().Flags&net.FlagLoopback != 0 {
			return ethernetMTU, nil
		}
		return link.Attrs().MTU, nil
	}
	return 0, fmt.Errorf("%w: %s", ErrNotLocal, node)
}
