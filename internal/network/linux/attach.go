package linux

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"plasmacloud.io/plasmacloud/internal/network/ipam"
)

// ErrInterfaceExists means that the pod has an interface of the wanted name
// that is not ours.
var ErrInterfaceExists = errors.New("interface exists in the pod")

// linkPoll is the interval of looking at a link that nobody tells about: to
// subscribe would take longer.
const linkPoll = time.Millisecond

// Attachment is a pod interface as it is to be.
type Attachment struct {
	ipam.Lease
	MTU int
	// NodeIP is the source of the node's own packets to the pod. Zero leaves the
	// choice to the kernel, which takes the node's first address.
	NodeIP netip.Addr
}

// CreateVeth makes the veth pair. The kernel makes it in one step, both ends
// under their final names, the pod's end in the pod: however a caller dies,
// there is a whole pair or none. A pair that is there is kept.
func (d *Dataplane) CreateVeth(a Attachment) error {
	pod, ns, err := openPod(a.Netns)
	if err != nil {
		return err
	}
	defer pod.Close()
	defer func() { _ = ns.Close() }()

	name := d.HostInterface(a.Key)
	host, err := netlink.LinkByName(name)
	switch {
	case isLinkNotFound(err):
	case err != nil:
		return fmt.Errorf("find interface %s: %w", name, err)
	case isPair(host, pod, a.IfName):
		return nil
	default:
		// The other end is in a namespace that is not the pod's any more.
		if err := deleteExisting(host); err != nil {
			return err
		}
	}
	if _, err := pod.LinkByName(a.IfName); err == nil {
		return fmt.Errorf("%w: %s", ErrInterfaceExists, a.IfName)
	}
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	attrs.MTU = a.MTU
	attrs.HardwareAddr = hostMAC()
	veth := netlink.NewVeth(attrs)
	veth.PeerName = a.IfName
	veth.PeerHardwareAddr = podMAC(a.Address)
	veth.PeerNamespace = netlink.NsFd(ns)
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("create veth pair %s: %w", name, err)
	}
	return nil
}

// MACs are the hardware addresses of both ends of a pod's veth pair.
func (d *Dataplane) MACs(addr netip.Addr) (host, pod net.HardwareAddr) {
	return hostMAC(), podMAC(addr)
}

// isPair tells whether the pod's interface is the other end of host. Indexes
// alone could match by chance across namespaces, so each must name the other.
func isPair(host netlink.Link, pod *netlink.Handle, ifName string) bool {
	peer, err := pod.LinkByName(ifName)
	return err == nil && peer.Type() == "veth" &&
		peer.Attrs().ParentIndex == host.Attrs().Index && host.Attrs().ParentIndex == peer.Attrs().Index
}

// ConfigurePod gives the pod's end its address and its routes.
func (d *Dataplane) ConfigurePod(a Attachment) error {
	pod, ns, err := openPod(a.Netns)
	if err != nil {
		return err
	}
	defer pod.Close()
	defer func() { _ = ns.Close() }()

	link, err := pod.LinkByName(a.IfName)
	if err != nil {
		return fmt.Errorf("find interface %s in the pod: %w", a.IfName, err)
	}
	if link.Attrs().MTU != a.MTU {
		if err := pod.LinkSetMTU(link, a.MTU); err != nil {
			return fmt.Errorf("set MTU of the pod's interface: %w", err)
		}
	}
	if err := pod.AddrReplace(link, &netlink.Addr{IPNet: hostNet(a.Address)}); err != nil {
		return fmt.Errorf("set the pod's address: %w", err)
	}
	if err := pod.LinkSetUp(link); err != nil {
		return fmt.Errorf("set the pod's interface up: %w", err)
	}
	// With a permanent entry the first packet need not wait for ARP, and a node
	// that is told not to answer ARP for other interfaces' addresses
	// (arp_ignore) is a gateway all the same.
	if err := pod.NeighSet(&netlink.Neigh{
		LinkIndex: link.Attrs().Index, Family: netlink.FAMILY_V4, State: netlink.NUD_PERMANENT,
		IP: Gateway().AsSlice(), HardwareAddr: hostMAC(),
	}); err != nil {
		return fmt.Errorf("set the pod's gateway neighbour: %w", err)
	}
	for _, route := range podRoutes(link.Attrs().Index) {
		if err := pod.RouteReplace(&route); err != nil {
			return fmt.Errorf("set the pod's route to %s: %w", route.Dst, err)
		}
	}
	return nil
}

func podRoutes(index int) []netlink.Route {
	return []netlink.Route{
		{LinkIndex: index, Dst: hostNet(Gateway()), Scope: netlink.SCOPE_LINK},
		{LinkIndex: index, Dst: defaultRoute(), Gw: Gateway().AsSlice()},
	}
}

func defaultRoute() *net.IPNet { return &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)} }

// ConfigureHost sets the node's end up and leads the pod's address to it.
func (d *Dataplane) ConfigureHost(a Attachment) error {
	name := d.HostInterface(a.Key)
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", name, err)
	}
	if link.Attrs().MTU != a.MTU {
		if err := netlink.LinkSetMTU(link, a.MTU); err != nil {
			return fmt.Errorf("set MTU of %s: %w", name, err)
		}
	}
	if err := disableIPv6(name); err != nil {
		return err
	}
	// Lets 127.0.0.1:hostPort reach the pod. The firewall keeps the pod from
	// using it the other way round.
	if len(a.HostPorts) > 0 {
		if err := setSysctl("net/ipv4/conf/"+name+"/route_localnet", "1"); err != nil {
			return err
		}
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set %s up: %w", name, err)
	}
	route := hostRoute(link.Attrs().Index, a)
	err = netlink.RouteReplace(route)
	if errors.Is(err, unix.EINVAL) && route.Src != nil {
		// The node has lost that address, and the news is not everywhere yet.
		route.Src = nil
		err = netlink.RouteReplace(route)
	}
	if err != nil {
		return fmt.Errorf("set route to the pod: %w", err)
	}
	return nil
}

// AwaitLink waits until the pair passes packets, once both ends are up. The end
// that came up first learns of it from a kernel thread, and until then drops
// what it is given to send: a second lost for a pod that connects at once.
// Kernels since 6.8 do that work in the query itself.
func (d *Dataplane) AwaitLink(ctx context.Context, a Attachment) error {
	name := d.HostInterface(a.Key)
	for {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find interface %s: %w", name, err)
		}
		if link.Attrs().OperState == netlink.OperUp {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for interface %s: %w", name, ctx.Err())
		case <-time.After(linkPoll):
		}
	}
}

func hostRoute(index int, a Attachment) *netlink.Route {
	return &netlink.Route{
		LinkIndex: index, Dst: hostNet(a.Address), Scope: netlink.SCOPE_LINK,
		Protocol: routeProtocol, Src: a.NodeIP.AsSlice(),
	}
}

// Detach deletes a pod's interface, and with it its address and routes. None
// there is fine.
func (d *Dataplane) Detach(key ipam.Key) error {
	return deleteLink(d.HostInterface(key))
}

// InUse tells whether a lease speaks for a pod that may still be there: its
// namespace is, or its interface. Where the holder is unknown, a route to the
// address is the evidence.
func (d *Dataplane) InUse(lease ipam.Lease) (bool, error) {
	if lease.Key == (ipam.Key{}) {
		route, err := routeTo(lease.Address)
		if err != nil || route == nil {
			return false, err
		}
		link, err := netlink.LinkByIndex(route.LinkIndex)
		if isLinkNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("find interface %d: %w", route.LinkIndex, err)
		}
		return strings.HasPrefix(link.Attrs().Name, d.vethPrefix()), nil
	}
	if NamespaceExists(lease.Netns) {
		return true, nil
	}
	_, err := netlink.LinkByName(d.HostInterface(lease.Key))
	if isLinkNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("find interface of %s: %w", lease.Holder(), err)
	}
	return true, nil
}

// openPod opens a pod's namespace and a netlink handle in it.
func openPod(path string) (*netlink.Handle, netns.NsHandle, error) {
	ns, err := openNamespace(path)
	if err != nil {
		return nil, netns.None(), err
	}
	handle, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		_ = ns.Close()
		return nil, netns.None(), fmt.Errorf("open netlink in %s: %w", path, err)
	}
	return handle, ns, nil
}
