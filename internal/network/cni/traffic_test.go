package cni_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"plasmacloud.io/plasmacloud/internal/network/netlab"
)

func TestPodsAndNodeReachEachOther(t *testing.T) {
	runtime, _ := newRuntime(t)
	protect(t, runtime)
	a := runtime.Start(t, "a", nil)
	b := runtime.Start(t, "b", nil)
	b.ServeTCP(":80")
	b.ServeUDP(":80")
	runtime.Node.ServeTCP(":10250")

	mustSee(t, "pod to pod", a.Address.String())(a.SendTCP(b.Address.String()+":80", 1<<20))
	mustSee(t, "pod to pod by UDP", a.Address.String())(a.SendUDP(b.Address.String()+":80", 1200))
	mustSee(t, "pod to node", a.Address.String())(a.SendTCP(nodeIP+":10250", 1<<20))
	mustSee(t, "node to pod", nodeIP)(runtime.Node.SendTCP(b.Address.String()+":80", 1<<20))
}

func TestGatewayAnswersWhereTheNodeIgnoresARP(t *testing.T) {
	runtime, _ := newRuntime(t)
	runtime.Node.Sysctl("net/ipv4/conf/all/arp_ignore", "1")
	a := runtime.Start(t, "a", nil)
	runtime.Node.ServeTCP(":10250")
	mustSee(t, "pod to node", a.Address.String())(a.SendTCP(nodeIP+":10250", 0))
}

func TestEgressIsMasqueraded(t *testing.T) {
	runtime, outside := newRuntime(t)
	protect(t, runtime)
	outside.ServeTCP(":443")
	outside.ServeUDP(":53")
	a := runtime.Start(t, "a", nil)

	mustSee(t, "TCP to outside", nodeIP)(a.SendTCP(outsideIP+":443", 1<<20))
	mustSee(t, "UDP to outside", nodeIP)(a.SendUDP(outsideIP+":53", 100))
}

func TestInterfaceHasTheConfiguredMTU(t *testing.T) {
	runtime, _ := newRuntime(t)
	a := runtime.Start(t, "a", nil)
	mtuOf := func(n *netlab.Namespace, name string) (mtu int) {
		n.Do(func() error {
			link, err := netlink.LinkByName(name)
			if err == nil {
				mtu = link.Attrs().MTU
			}
			return err
		})
		return mtu
	}
	if got := mtuOf(a.Namespace, "eth0"); got != podMTU {
		t.Errorf("pod's interface has MTU %d, want %d", got, podMTU)
	}
	if got := mtuOf(runtime.Node, a.Result.Interfaces[0].Name); got != podMTU {
		t.Errorf("node's interface has MTU %d, want %d", got, podMTU)
	}
}

func TestPodCannotUseAnotherAddress(t *testing.T) {
	runtime, outside := newRuntime(t)
	protect(t, runtime)
	// Nothing but the firewall is to stop the packets.
	outside.Route(podCIDR.String(), nodeIP)
	a := runtime.Start(t, "a", nil)
	b := runtime.Start(t, "b", nil)
	c := runtime.Start(t, "c", nil)
	servers := map[string]func() (netip.Addr, error){
		b.Address.String(): b.ListenUDP(":53"), nodeIP: runtime.Node.ListenUDP(":53"), outsideIP: outside.ListenUDP(":53"),
	}
	free := c.Address.Next().String()
	for _, source := range []string{c.Address.String(), free, "169.254.1.1", "8.8.8.8"} {
		withAddress(a.Namespace, source, func() {
			for server := range servers {
				if err := a.ThrowUDP(source, server+":53"); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	// What came in before the pod's own packet should not have.
	for server, next := range servers {
		if err := a.ThrowUDP(a.Address.String(), server+":53"); err != nil {
			t.Fatal(err)
		}
		want := a.Address.String()
		if server == outsideIP {
			want = nodeIP
		}
		mustSee(t, "packet to "+server, want)(next())
	}
}

// withAddress lends a pod an address that is not its own.
func withAddress(pod *netlab.Namespace, address string, do func()) {
	change := func(change func(netlink.Link, *netlink.Addr) error) {
		pod.Do(func() error {
			link, err := netlink.LinkByName("eth0")
			if err != nil {
				return err
			}
			addr, err := netlink.ParseAddr(address + "/32")
			if err != nil {
				return err
			}
			return change(link, addr)
		})
	}
	change(netlink.AddrAdd)
	do()
	change(netlink.AddrDel)
}

// A host port opens the way from the node's loopback to the pod; the pod must
// not get in by it.
func TestPodCannotReachTheNodesLoopback(t *testing.T) {
	runtime, _ := newRuntime(t)
	protect(t, runtime)
	runtime.Node.ServeTCP("127.0.0.1:6444")
	a := runtime.Start(t, "a", netlab.Ports(map[string]any{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}))
	a.Sysctl("net/ipv4/conf/all/route_localnet", "1")
	a.Do(func() error {
		lo, err := netlink.LinkByName("lo")
		if err != nil {
			return err
		}
		addr, err := netlink.ParseAddr("127.0.0.1/8")
		if err != nil {
			return err
		}
		if err := netlink.AddrDel(lo, addr); err != nil {
			return err
		}
		route, err := netlink.RouteGet([]byte{127, 0, 0, 1})
		if err != nil {
			return err
		}
		if route[0].Type != unix.RTN_UNICAST {
			return fmt.Errorf("pod keeps 127.0.0.1 to itself, the test tests nothing: %v", route)
		}
		return nil
	})
	if !a.BlockedTCP("127.0.0.1:6444") {
		t.Error("pod reaches a server on the node's loopback")
	}
}

// kube-proxy's nftables mode rewrites Service addresses in a table of its own.
func TestServicesOfKubeProxyWork(t *testing.T) {
	runtime, _ := newRuntime(t)
	protect(t, runtime)
	a := runtime.Start(t, "a", nil)
	b := runtime.Start(t, "b", nil)
	b.ServeTCP(":8080")
	a.ServeTCP(":8080")
	runtime.Node.Nft(`table ip kube-proxy {
		chain services {
			ip daddr 10.43.0.20 tcp dport 80 dnat to ` + b.Address.String() + `:8080
			ip daddr 10.43.0.21 tcp dport 80 ip saddr ` + a.Address.String() + ` meta mark set mark or 0x4000
			ip daddr 10.43.0.21 tcp dport 80 dnat to ` + a.Address.String() + `:8080
		}
		chain nat-prerouting { type nat hook prerouting priority dstnat; jump services; }
		chain nat-output { type nat hook output priority -100; jump services; }
		chain nat-postrouting { type nat hook postrouting priority srcnat;
			meta mark and 0x4000 != 0 masquerade fully-random
		}
	}`)
	runtime.Node.Route("10.43.0.0/16", outsideIP)
	mustSee(t, "pod to service", a.Address.String())(a.SendTCP("10.43.0.20:80", 1<<20))
	mustSee(t, "pod to itself by service", nodeIP)(a.SendTCP("10.43.0.21:80", 1<<20))
	mustSee(t, "node to service", nodeIP)(runtime.Node.SendTCP("10.43.0.20:80", 1<<20))
}
