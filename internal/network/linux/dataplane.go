// Package linux is the default dataplane: every pod interface is a veth pair
// with a routed /32 address, other nodes are reached by plain routes or VXLAN,
// and one nftables table does masquerading, host ports and anti-spoofing.
// Everything that speaks netlink, sysctl or nftables is here.
//
// The functions act on the network namespace of the calling thread. Everything
// is made under names derived from the instance's state directory, so that it
// is found again after any crash and two instances share a host in peace.
package linux

import (
	"crypto/sha256"
	"encoding/base32"
	"net"
	"net/netip"
	"path/filepath"
	"strings"

	"plasmacloud.io/plasmacloud/internal/network/ipam"
)

// routeProtocol marks the routes that are ours (`ip route show proto 112`).
const routeProtocol = 112

// Dataplane is one instance of the pod network on one node.
type Dataplane struct {
	id string
}

// New names the instance that keeps its state in stateDir. It touches nothing.
func New(stateDir string) *Dataplane {
	return &Dataplane{id: digest(filepath.Clean(stateDir))[:5]}
}

// Table is the name of the instance's nftables table, of family inet.
func (d *Dataplane) Table() string { return tablePrefix + d.id }

// VXLAN is the name of the instance's tunnel device.
func (d *Dataplane) VXLAN() string { return "prism-" + d.id }

// HostInterface is the name of the node's end of a pod's veth pair.
func (d *Dataplane) HostInterface(key ipam.Key) string {
	return d.vethPrefix() + digest(key.ContainerID + "/" + key.IfName)[:8]
}

// vethPrefix and eight characters make the 15 that Linux allows a name.
func (d *Dataplane) vethPrefix() string { return "pn" + d.id }

const tablePrefix = "prismnet-"

// Gateway is the next hop of every pod. The node has it on its loopback
// interface; no other host ever sees it.
func Gateway() netip.Addr { return netip.AddrFrom4([4]byte{169, 254, 1, 1}) }

// hostMAC is the hardware address of all host ends. One fixed address makes the
// gateway's neighbour entry in the pod permanent, and as it was set by somebody,
// udev does not replace it by one of its own.
func hostMAC() net.HardwareAddr { return net.HardwareAddr{0xee, 0xee, 0xee, 0xee, 0xee, 0xee} }

// podMAC derives a pod's hardware address from its address, so that a repeated
// ADD reports the same.
func podMAC(addr netip.Addr) net.HardwareAddr { return derivedMAC(0x58, addr) }

// tunnelMAC derives the hardware address of a node's tunnel endpoint from the
// node's address, so that nodes need not tell each other.
func tunnelMAC(node netip.Addr) net.HardwareAddr { return derivedMAC(0x56, node) }

// derivedMAC is locally administered, and unique for IPv4 as it holds all of it.
func derivedMAC(kind byte, addr netip.Addr) net.HardwareAddr {
	tail := addr.AsSlice()
	if !addr.Is4() {
		sum := sha256.Sum256(tail)
		tail = sum[:4]
	}
	return append(net.HardwareAddr{0x0a, kind}, tail...)
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:10]))
}

// hostNet is addr with a prefix of full length.
func hostNet(addr netip.Addr) *net.IPNet { return ipNet(netip.PrefixFrom(addr, addr.BitLen())) }

func ipNet(prefix netip.Prefix) *net.IPNet {
	return &net.IPNet{
		IP:   prefix.Addr().AsSlice(),
		Mask: net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen()),
	}
}

// prefixOf is the inverse of ipNet; ok is false for nil, which netlink may
// report for a default route.
func prefixOf(n *net.IPNet) (prefix netip.Prefix, ok bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	addr, ok := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(addr.Unmap(), bits), ok
}
