package linux

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ownRoutePriority puts the route that catches the node's own unused addresses
// behind any other.
const ownRoutePriority = 1 << 16

// Local is this node as the other nodes see it.
type Local struct {
	NodeIP  netip.Addr
	PodCIDR netip.Prefix
	// ClusterCIDR holds all pod CIDRs. Routes of ours in it are managed, routes
	// outside of it are another instance's.
	ClusterCIDR netip.Prefix
	Tunnel      Tunnel
}

// Peer is another node.
type Peer struct {
	Name    string
	NodeIP  netip.Addr
	PodCIDR netip.Prefix
}

// path is how a peer's pods are reached.
type path struct {
	peer   Peer
	tunnel bool
	// link is the interface of a direct route.
	link int
	// mtu is the route's, if that is less than the interface's.
	mtu int
}

// SyncPeers makes the routes to other nodes' pods those of peers, and the
// tunnel what they need. One bad peer does not keep the others from their
// routes.
func (d *Dataplane) SyncPeers(local Local, peers []Peer) error {
	underlay, err := UnderlayMTU(local.NodeIP)
	if err != nil {
		return err
	}
	var problems []error
	var paths, tunnelled []path
	for _, peer := range peers {
		p, err := d.choosePath(local, peer, underlay)
		if err != nil {
			problems = append(problems, fmt.Errorf("reach node %s: %w", peer.Name, err))
			continue
		}
		paths = append(paths, p)
		if p.tunnel {
			tunnelled = append(tunnelled, p)
		}
	}
	tunnelIndex, err := d.syncTunnel(local, tunnelled, underlay)
	if err != nil {
		problems = append(problems, err)
	}
	routes := []netlink.Route{ownRoute(local.PodCIDR)}
	for _, p := range paths {
		if p.tunnel && tunnelIndex == 0 {
			continue
		}
		routes = append(routes, p.route(local, tunnelIndex))
	}
	return errors.Join(append(problems, d.syncRoutes(local.ClusterCIDR, routes))...)
}

// choosePath sends packets straight to a node on a shared segment, where the
// kernel has no gateway on the way to it, and through the tunnel otherwise.
func (d *Dataplane) choosePath(local Local, peer Peer, underlay int) (path, error) {
	p := path{peer: peer, tunnel: true}
	route, err := routeTo(peer.NodeIP)
	if err != nil {
		return path{}, err
	}
	if route == nil {
		// Nothing leads there at this moment. The tunnel looks its way up for
		// each packet and will find it when there is one.
		return p, nil
	}
	if route.Type == unix.RTN_LOCAL {
		return path{}, fmt.Errorf("address %s is this node's own", peer.NodeIP)
	}
	link, err := netlink.LinkByIndex(route.LinkIndex)
	if err != nil {
		return path{}, fmt.Errorf("find interface to %s: %w", peer.NodeIP, err)
	}
	mtu := link.Attrs().MTU
	if route.MTU > 0 && route.MTU < mtu {
		mtu = route.MTU
	}
	if route.Gw == nil && route.Via == nil && !local.Tunnel.Always {
		p.tunnel, p.link = false, route.LinkIndex
		if mtu < link.Attrs().MTU {
			p.mtu = mtu
		}
		return p, nil
	}
	if mtu < underlay {
		p.mtu = mtu - TunnelOverhead
	}
	return p, nil
}

func (p path) route(local Local, tunnelIndex int) netlink.Route {
	route := netlink.Route{
		Dst: ipNet(p.peer.PodCIDR), Protocol: routeProtocol, Table: unix.RT_TABLE_MAIN,
		Type: unix.RTN_UNICAST, Flags: int(netlink.FLAG_ONLINK), MTU: p.mtu,
	}
	if p.tunnel {
		route.LinkIndex = tunnelIndex
		route.Gw = tunnelAddress(p.peer.PodCIDR).AsSlice()
		route.Src = tunnelAddress(local.PodCIDR).AsSlice()
		return route
	}
	route.LinkIndex = p.link
	route.Gw = p.peer.NodeIP.AsSlice()
	route.Src = local.NodeIP.AsSlice()
	return route
}

// ownRoute answers for addresses of the node's CIDR that no pod has. Without
// it, packets to them would leave by the default route, or circle between
// nodes.
func ownRoute(podCIDR netip.Prefix) netlink.Route {
	return netlink.Route{
		Dst: ipNet(podCIDR), Protocol: routeProtocol, Table: unix.RT_TABLE_MAIN,
		Type: unix.RTN_UNREACHABLE, Priority: ownRoutePriority,
	}
}

// syncRoutes makes our routes in the cluster's CIDR those wanted. Routes to
// single pods are the plugin's and go with their interfaces.
func (d *Dataplane) syncRoutes(cluster netip.Prefix, wanted []netlink.Route) error {
	present, err := ownRoutes(cluster)
	if err != nil {
		return err
	}
	missing := make(map[string]netlink.Route, len(wanted))
	for _, route := range wanted {
		missing[routeKey(route)] = route
	}
	var problems []error
	for _, route := range present {
		key := routeKey(route)
		want, ok := missing[key]
		switch {
		case !ok:
			if err := netlink.RouteDel(&route); err != nil && !errors.Is(err, unix.ESRCH) {
				problems = append(problems, fmt.Errorf("delete route to %s: %w", route.Dst, err))
			}
		case sameRoute(route, want):
			delete(missing, key)
		}
	}
	for _, route := range missing {
		if err := netlink.RouteReplace(&route); err != nil {
			problems = append(problems, fmt.Errorf("set route to %s: %w", route.Dst, err))
		}
	}
	return errors.Join(problems...)
}

// ownRoutes lists our routes to CIDRs within the cluster's.
func ownRoutes(cluster netip.Prefix) ([]netlink.Route, error) {
	routes, err := allRoutes()
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(routes, func(route netlink.Route) bool {
		dst, ok := prefixOf(route.Dst)
		return !ok || dst.IsSingleIP() || !cluster.Overlaps(dst) || dst.Bits() < cluster.Bits()
	}), nil
}

// allRoutes lists the routes of all instances, those to single pods included.
func allRoutes() ([]netlink.Route, error) {
	routes, err := dump(func() ([]netlink.Route, error) {
		return netlink.RouteListFiltered(netlink.FAMILY_V4,
			&netlink.Route{Protocol: routeProtocol, Table: unix.RT_TABLE_MAIN},
			netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	return routes, nil
}

// routeKey is what the kernel tells routes apart by.
func routeKey(route netlink.Route) string {
	return fmt.Sprintf("%s metric %d", route.Dst, route.Priority)
}

func sameRoute(a, b netlink.Route) bool {
	return a.Type == b.Type && (a.Type == unix.RTN_UNREACHABLE ||
		a.LinkIndex == b.LinkIndex && a.Gw.Equal(b.Gw) && a.Src.Equal(b.Src) && a.MTU == b.MTU)
}
