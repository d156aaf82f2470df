package node_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"plasmacloud.io/plasmacloud/internal/network/linux"
	"plasmacloud.io/plasmacloud/internal/network/netlab"
)

const big = 8 << 20

// onSegment connects two hosts directly.
func onSegment(t *testing.T) (*cluster, *host, *host) {
	t.Helper()
	c := newCluster(t)
	a, b := newHost(t, "a"), newHost(t, "b")
	netlab.Connect(t, 1500,
		netlab.End{Namespace: a.Namespace, Interface: "uplink", Address: "192.168.7.1/24"},
		netlab.End{Namespace: b.Namespace, Interface: "uplink", Address: "192.168.7.2/24"})
	c.register("a", "10.42.0.0/24", "192.168.7.1")
	c.register("b", "10.42.1.0/24", "192.168.7.2")
	return c, a, b
}

// acrossRouter connects two hosts by a router that knows nothing of pods.
func acrossRouter(t *testing.T, mtu int) (*cluster, *host, *host) {
	t.Helper()
	c := newCluster(t)
	a, b := newHost(t, "a"), newHost(t, "b")
	router := netlab.New(t)
	router.Sysctl("net/ipv4/ip_forward", "1")
	netlab.Connect(t, mtu,
		netlab.End{Namespace: a.Namespace, Interface: "uplink", Address: "192.168.1.2/24"},
		netlab.End{Namespace: router, Interface: "to-a", Address: "192.168.1.1/24"})
	netlab.Connect(t, mtu,
		netlab.End{Namespace: b.Namespace, Interface: "uplink", Address: "192.168.2.2/24"},
		netlab.End{Namespace: router, Interface: "to-b", Address: "192.168.2.1/24"})
	a.Route("default", "192.168.1.1")
	b.Route("default", "192.168.2.1")
	c.register("a", "10.42.0.0/24", "192.168.1.2")
	c.register("b", "10.42.1.0/24", "192.168.2.2")
	return c, a, b
}

func (h *host) hasTunnel() (found bool) {
	h.Do(func() error {
		_, err := netlink.LinkByName(h.dataplane().VXLAN())
		found = err == nil
		return nil
	})
	return found
}

func podMTU(pod *netlab.Pod) (mtu int) {
	pod.Do(func() error {
		link, err := netlink.LinkByName("eth0")
		if err == nil {
			mtu = link.Attrs().MTU
		}
		return err
	})
	return mtu
}

func TestNodesOnOneSegmentRouteDirectly(t *testing.T) {
	c, a, b := onSegment(t)
	a.start(c)
	b.start(c)
	first := a.runtime().Start(t, "first", nil)
	second := b.runtime().Start(t, "second", nil)
	second.ServeTCP(":80")
	address := second.Address.String() + ":80"

	mustReach(t, "pod to pod", first.Address.String(), func() (netip.Addr, error) { return first.SendTCP(address, big) })
	mustReach(t, "node to pod", "192.168.7.1", func() (netip.Addr, error) { return a.SendTCP(address, big) })
	if a.hasTunnel() || b.hasTunnel() {
		t.Error("there is a tunnel that nobody needs")
	}
	if got := podMTU(first); got != 1500 {
		t.Errorf("pod has MTU %d, want the segment's 1500", got)
	}
	// An address that no pod has is refused at once, by the node that would
	// have it.
	if _, err := first.SendTCP("10.42.1.200:80", 0); !errors.Is(err, unix.EHOSTUNREACH) {
		t.Errorf("an unused address answers %v, want %v", err, unix.EHOSTUNREACH)
	}
}

func TestNodesAcrossARouterUseTheTunnel(t *testing.T) {
	for _, mtu := range []int{1500, 9000} {
		t.Run(fmt.Sprint(mtu), func(t *testing.T) {
			c, a, b := acrossRouter(t, mtu)
			a.start(c)
			b.start(c)
			first := a.runtime().Start(t, "first", nil)
			second := b.runtime().Start(t, "second", nil)
			second.ServeTCP(":80")
			second.ServeUDP(":53")
			address := second.Address.String()

			mustReach(t, "pod to pod", first.Address.String(), func() (netip.Addr, error) { return first.SendTCP(address+":80", big) })
			mustReach(t, "node to pod", "10.42.0.0", func() (netip.Addr, error) { return a.SendTCP(address+":80", big) })
			// A datagram that fills the pod's interface but not the tunnel.
			mustReach(t, "full datagram", first.Address.String(), func() (netip.Addr, error) {
				return first.SendUDP(address+":53", podMTU(first)-28)
			})
			a.Do(func() error {
				link, err := netlink.LinkByName(a.dataplane().VXLAN())
				if err == nil && link.Attrs().MTU != mtu-linux.TunnelOverhead {
					t.Errorf("tunnel has MTU %d, want %d", link.Attrs().MTU, mtu-linux.TunnelOverhead)
				}
				return err
			})
		})
	}
}

// TCP must not depend on ICMP to find out what fits the tunnel.
func TestTCPFitsTheTunnelWhereICMPIsLost(t *testing.T) {
	c, a, b := acrossRouter(t, 1500)
	for _, h := range []*host{a, b} {
		h.Nft(`table ip deaf { chain output { type filter hook output priority 0; meta l4proto icmp drop; }; }`)
		h.start(c)
	}
	first := a.runtime().Start(t, "first", nil)
	second := b.runtime().Start(t, "second", nil)
	second.ServeTCP(":80")
	mustReach(t, "pod to pod", first.Address.String(), func() (netip.Addr, error) {
		return first.SendTCP(second.Address.String()+":80", big)
	})
}

func TestTunnelOnASharedSegmentWhereAsked(t *testing.T) {
	c, a, b := onSegment(t)
	for _, h := range []*host{a, b} {
		h.config.Tunnel.Always = true
		h.start(c)
	}
	first := a.runtime().Start(t, "first", nil)
	second := b.runtime().Start(t, "second", nil)
	second.ServeTCP(":80")
	mustReach(t, "pod to pod", first.Address.String(), func() (netip.Addr, error) {
		return first.SendTCP(second.Address.String()+":80", big)
	})
	if !a.hasTunnel() || !b.hasTunnel() {
		t.Error("there is no tunnel")
	}
	if got := podMTU(first); got != 1450 {
		t.Errorf("pod has MTU %d, want 1450, which fits the tunnel", got)
	}
}

func TestNodeLeavesAndComesBack(t *testing.T) {
	for name, network := range map[string]func(*testing.T) (*cluster, *host, *host){
		"direct": onSegment,
		"tunnel": func(t *testing.T) (*cluster, *host, *host) { return acrossRouter(t, 1500) },
	} {
		t.Run(name, func(t *testing.T) {
			c, a, b := network(t)
			c.register("c", "10.42.2.0/24", "192.168.9.9")
			a.start(c)
			b.start(c)
			first := a.runtime().Start(t, "first", nil)
			second := b.runtime().Start(t, "second", nil)
			second.ServeTCP(":80")
			address := second.Address.String() + ":80"
			reach := func() (netip.Addr, error) { return first.SendTCP(address, 1000) }
			mustReach(t, "before", first.Address.String(), reach)
			before := a.Snapshot()

			c.remove("b")
			eventually(t, "route is gone", func() error {
				if first.BlockedTCP(address) {
					return nil
				}
				return errors.New("pod of a node that left is reached")
			})
			c.register("b", "10.42.1.0/24", b.nodeIP())
			mustReach(t, "after", first.Address.String(), reach)
			if diff := netlab.Difference(before, a.Snapshot()); diff != "" {
				t.Errorf("node is not what it was:\n%s", diff)
			}
		})
	}
}

// nodeIP is the address of the uplink.
func (h *host) nodeIP() (ip string) {
	h.Do(func() error {
		link, err := netlink.LinkByName("uplink")
		if err != nil {
			return err
		}
		addrs, err := netlink.AddrList(link, netlink.FAMILY_V4)
		if err == nil {
			ip = addrs[0].IP.String()
		}
		return err
	})
	return ip
}

func TestNodesThatClaimWhatIsNotTheirs(t *testing.T) {
	c, a, b := onSegment(t)
	c.register("everything", "0.0.0.0/0", "192.168.7.66")
	c.register("elsewhere", "10.99.0.0/24", "192.168.7.67")
	c.register("mine", "10.42.0.0/25", "192.168.7.68")
	c.register("impostor", "10.42.66.0/24", "192.168.7.1")
	c.register("loopback", "10.42.67.0/24", "127.0.0.1")
	c.register("unready", "", "192.168.7.69")
	a.start(c)
	b.start(c)
	first := a.runtime().Start(t, "first", nil)
	second := b.runtime().Start(t, "second", nil)
	second.ServeTCP(":80")
	mustReach(t, "honest node", first.Address.String(), func() (netip.Addr, error) {
		return first.SendTCP(second.Address.String()+":80", 1000)
	})
	a.Do(func() error {
		routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
		for _, route := range routes {
			if route.Gw != nil && route.Gw.String() != "192.168.7.2" {
				t.Errorf("there is a route %v", route)
			}
		}
		return err
	})
}
