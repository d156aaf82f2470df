package linux

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TunnelOverhead is what VXLAN over IPv4 adds to a packet: outer IP, UDP and
// VXLAN headers and the inner Ethernet header.
const TunnelOverhead = 20 + 8 + 8 + 14

// Tunnel is how nodes that share no segment reach each other. All nodes of a
// cluster must agree on it.
type Tunnel struct {
	VNI  int
	Port int
	// Always tunnels to nodes on a shared segment too, for networks that drop
	// packets with addresses they did not assign.
	Always bool
}

// tunnelAddress is a node's own address in the tunnel: the first of its CIDR,
// which no pod gets.
func tunnelAddress(podCIDR netip.Prefix) netip.Addr { return podCIDR.Masked().Addr() }

// syncTunnel makes the device and its tables what the peers need, or removes it
// where there are none. It returns the device's index.
func (d *Dataplane) syncTunnel(local Local, peers []path, underlay int) (int, error) {
	if len(peers) == 0 {
		return 0, deleteLink(d.VXLAN())
	}
	index, err := d.ensureTunnelDevice(local, underlay-TunnelOverhead)
	if err != nil {
		return 0, fmt.Errorf("set up tunnel %s: %w", d.VXLAN(), err)
	}
	if err := syncNeighbours(index, peers); err != nil {
		return 0, fmt.Errorf("set up tunnel %s: %w", d.VXLAN(), err)
	}
	return index, nil
}

func (d *Dataplane) ensureTunnelDevice(local Local, mtu int) (int, error) {
	want := &netlink.Vxlan{
		LinkAttrs: netlink.NewLinkAttrs(),
		VxlanId:   local.Tunnel.VNI, Port: local.Tunnel.Port, SrcAddr: local.NodeIP.AsSlice(),
	}
	want.Name, want.MTU, want.HardwareAddr = d.VXLAN(), mtu, tunnelMAC(local.NodeIP)

	if link, err := netlink.LinkByName(want.Name); err == nil && !sameTunnel(link, want) {
		if err := deleteExisting(link); err != nil {
			return 0, err
		}
	}
	if err := netlink.LinkAdd(want); err != nil && !errors.Is(err, unix.EEXIST) {
		return 0, fmt.Errorf("create device: %w", err)
	}
	link, err := netlink.LinkByName(want.Name)
	if isLinkNotFound(err) {
		return 0, fmt.Errorf("create device: VNI %d on UDP port %d is taken by another", want.VxlanId, want.Port)
	}
	if err != nil {
		return 0, fmt.Errorf("find device: %w", err)
	}
	return link.Attrs().Index, configureTunnel(link, local, mtu)
}

func configureTunnel(link netlink.Link, local Local, mtu int) error {
	if err := disableIPv6(link.Attrs().Name); err != nil {
		return err
	}
	if link.Attrs().MTU != mtu {
		if err := netlink.LinkSetMTU(link, mtu); err != nil {
			return fmt.Errorf("set MTU: %w", err)
		}
	}
	if err := setOnlyAddress(link, tunnelAddress(local.PodCIDR)); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set device up: %w", err)
	}
	return nil
}

// sameTunnel compares what can only be set when the device is made.
func sameTunnel(link netlink.Link, want *netlink.Vxlan) bool {
	got, ok := link.(*netlink.Vxlan)
	return ok && got.VxlanId == want.VxlanId && got.Port == want.Port && got.SrcAddr.Equal(want.SrcAddr) &&
		!got.Learning && got.HardwareAddr.String() == want.HardwareAddr.String()
}

// setOnlyAddress gives the tunnel its address. It is of global scope: what is masqueraded into the tunnel has to come from
// it, or the answer takes another way, past the tunnel, where a network between nodes may not let pods' addresses pass.
func setOnlyAddress(link netlink.Link, addr netip.Addr) error {
	want := &netlink.Addr{IPNet: hostNet(addr), Scope: unix.RT_SCOPE_UNIVERSE}
	present, err := dump(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_V4) })
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	found := false
	for _, other := range present {
		if other.IPNet.String() == want.IPNet.String() && other.Scope == want.Scope {
			found = true
		} else if err := netlink.AddrDel(link, &other); err != nil {
			return fmt.Errorf("remove address %s: %w", other.IPNet, err)
		}
	}
	if found {
		return nil
	}
	if err := netlink.AddrAdd(link, want); err != nil {
		return fmt.Errorf("set address %s: %w", addr, err)
	}
	return nil
}

// syncNeighbours tells the kernel which hardware address a peer's tunnel
// address has, and which node that hardware address is at.
func syncNeighbours(index int, peers []path) error {
	var wanted []netlink.Neigh
	for _, p := range peers {
		mac := tunnelMAC(p.peer.NodeIP)
		wanted = append(wanted,
			netlink.Neigh{
				LinkIndex: index, Family: unix.AF_INET, State: netlink.NUD_PERMANENT,
				IP: tunnelAddress(p.peer.PodCIDR).AsSlice(), HardwareAddr: mac,
			},
			netlink.Neigh{
				LinkIndex: index, Family: unix.AF_BRIDGE, State: netlink.NUD_PERMANENT, Flags: netlink.NTF_SELF,
				IP: p.peer.NodeIP.AsSlice(), HardwareAddr: mac,
			})
	}
	missing := make(map[string]netlink.Neigh, len(wanted))
	for _, neigh := range wanted {
		missing[neighKey(neigh)] = neigh
	}
	var problems []error
	for _, family := range []int{unix.AF_INET, unix.AF_BRIDGE} {
		present, err := dump(func() ([]netlink.Neigh, error) { return netlink.NeighList(index, family) })
		if err != nil {
			return fmt.Errorf("list neighbours: %w", err)
		}
		for _, neigh := range present {
			neigh.Family = family
			if _, ok := missing[neighKey(neigh)]; ok && neigh.State&netlink.NUD_PERMANENT != 0 {
				delete(missing, neighKey(neigh))
			} else if err := netlink.NeighDel(&neigh); err != nil && !errors.Is(err, unix.ENOENT) {
				problems = append(problems, fmt.Errorf("remove neighbour %s: %w", neigh.IP, err))
			}
		}
	}
	for _, neigh := range missing {
		if err := netlink.NeighSet(&neigh); err != nil {
			problems = append(problems, fmt.Errorf("set neighbour %s: %w", neigh.IP, err))
		}
	}
	return errors.Join(problems...)
}

func neighKey(n netlink.Neigh) string {
	return fmt.Sprintf("%d %s %s", n.Family, n.IP, n.HardwareAddr)
}
