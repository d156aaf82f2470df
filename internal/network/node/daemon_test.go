package node_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"plasmacloud.io/plasmacloud/internal/network/ipam"
	"plasmacloud.io/plasmacloud/internal/network/netlab"
	"plasmacloud.io/plasmacloud/internal/network/node"
)

// single is a node with a host outside of the cluster beside it.
func single(t *testing.T) (c *cluster, h *host, outside *netlab.Namespace) {
	t.Helper()
	c = newCluster(t)
	h = newHost(t, "a")
	outside = netlab.New(t)
	netlab.Connect(t, 1500,
		netlab.End{Namespace: h.Namespace, Interface: "uplink", Address: "192.168.7.1/24"},
		netlab.End{Namespace: outside, Interface: "eth0", Address: "192.168.7.9/24"})
	c.register("a", "10.42.0.0/24", "192.168.7.1")
	return c, h, outside
}

func TestNodeIsReadySoonAfterItHasACIDR(t *testing.T) {
	c, h, _ := single(t)
	c.register("a", "", "192.168.7.1")
	h.start(c)
	if _, err := os.Stat(h.conflist()); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal("node is ready before it has a CIDR")
	}
	eventually(t, "firewall", func() error {
		if !strings.Contains(h.Snapshot(), "table inet "+h.dataplane().Table()) {
			return errors.New("no table")
		}
		return nil
	})
	started := time.Now()
	c.register("a", "10.42.0.0/24", "192.168.7.1")
	h.runtime()
	took := time.Since(started)
	t.Logf("ready after %v", took)
	if took > time.Second {
		t.Errorf("node took %v to be ready", took)
	}
}

func TestPodsAreServedWhileTheAPIIsAway(t *testing.T) {
	c, h, outside := single(t)
	h.start(c)
	pod := h.runtime().Start(t, "web", netlab.Ports(map[string]any{"hostPort": 8080, "containerPort": 80}))
	pod.ServeTCP(":80")
	h.stop()
	// The node lost its rules, and the cluster its API.
	h.Nft("flush ruleset")
	empty := newCluster(t)
	h.start(empty)
	outside.ServeTCP(":443")
	mustReach(t, "host port", "192.168.7.9", func() (netip.Addr, error) { return outside.SendTCP("192.168.7.1:8080", 10) })
	mustReach(t, "egress", "192.168.7.1", func() (netip.Addr, error) { return pod.SendTCP("192.168.7.9:443", 10) })
}

func TestStoppingKeepsThePodsNetwork(t *testing.T) {
	c, a, b := acrossRouter(t, 1500)
	a.start(c)
	b.start(c)
	first := a.runtime().Start(t, "first", nil)
	second := b.runtime().Start(t, "second", nil)
	second.ServeTCP(":80")
	reach := func() (netip.Addr, error) { return first.SendTCP(second.Address.String()+":80", 1000) }
	mustReach(t, "before", first.Address.String(), reach)
	before := a.Snapshot()
	a.stop()
	b.stop()
	if diff := netlab.Difference(before, a.Snapshot()); diff != "" {
		t.Errorf("stopping changed the node:\n%s", diff)
	}
	mustReach(t, "after", first.Address.String(), reach)
}

func TestDamageIsRepaired(t *testing.T) {
	c, a, b := acrossRouter(t, 1500)
	a.start(c)
	b.start(c)
	first := a.runtime().Start(t, "first", netlab.Ports(map[string]any{"hostPort": 8080, "containerPort": 80}))
	first.ServeTCP(":80")
	second := b.runtime().Start(t, "second", nil)
	second.ServeTCP(":80")
	reach := func() (netip.Addr, error) { return first.SendTCP(second.Address.String()+":80", 1000) }
	mustReach(t, "before", first.Address.String(), reach)
	whole := a.Snapshot()

	tunnel := a.dataplane().VXLAN()
	for name, damage := range map[string]func() error{
		"gateway's address":       onLink("lo", func(lo netlink.Link) error { return netlink.AddrDel(lo, address(t, "169.254.1.1/32")) }),
		"tunnel deleted":          onLink(tunnel, netlink.LinkDel),
		"tunnel down":             onLink(tunnel, netlink.LinkSetDown),
		"tunnel's neighbours":     onLink(tunnel, deleteNeighbour),
		"route to the other node": deleteRoute("10.42.1.0/24"),
		"route to the pod":        deleteRoute(first.Address.String() + "/32"),
		"pod's interface down":    onLink(first.Result.Interfaces[0].Name, netlink.LinkSetDown),
		"firewall":                func() error { return exec.Command("nft", "flush", "ruleset").Run() },
	} {
		t.Run(name, func(t *testing.T) {
			a.Do(damage)
			eventually(t, "repair", func() error {
				if diff := netlab.Difference(whole, a.Snapshot()); diff != "" {
					return fmt.Errorf("node differs:\n%s", diff)
				}
				return nil
			})
			mustReach(t, "after", first.Address.String(), reach)
		})
	}
}

func onLink(name string, change func(netlink.Link) error) func() error {
	return func() error {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return change(link)
	}
}

func address(t *testing.T, cidr string) *netlink.Addr {
	t.Helper()
	addr, err := netlink.ParseAddr(cidr)
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

func deleteNeighbour(link netlink.Link) error {
	neighbours, err := netlink.NeighList(link.Attrs().Index, netlink.FAMILY_V4)
	if err != nil || len(neighbours) != 1 {
		return fmt.Errorf("neighbours are %v, %w", neighbours, err)
	}
	// Nobody is told of neighbours; an event of the interface stands for the resync.
	return errors.Join(netlink.NeighDel(&neighbours[0]), netlink.LinkSetAlias(link, "touched"))
}

func deleteRoute(destination string) func() error {
	return func() error {
		routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
		for _, route := range routes {
			if route.Dst.String() == destination {
				err = errors.Join(err, netlink.RouteDel(&route))
			}
		}
		return err
	}
}

// What is right is not set again: each time would be an event, and each event a
// reason to look again.
func TestIdleDaemonChangesNothing(t *testing.T) {
	c, a, b := acrossRouter(t, 1500)
	a.start(c)
	b.start(c)
	pod := a.runtime().Start(t, "pod", nil)
	other := b.runtime().Start(t, "other", nil)
	other.ServeTCP(":80")
	mustReach(t, "other node", pod.Address.String(), func() (netip.Addr, error) {
		return pod.SendTCP(other.Address.String()+":80", 10)
	})
	events := a.Events()
	c.register("newcomer", "", "192.168.9.9")
	if got := events(500 * time.Millisecond); got > 0 {
		t.Errorf("daemon made %d changes to a node that was right", got)
	}
}

func TestNodeChangesItsAddress(t *testing.T) {
	c, a, b := onSegment(t)
	a.start(c)
	b.start(c)
	first := a.runtime().Start(t, "first", nil)
	first.ServeTCP(":80")
	second := b.runtime().Start(t, "second", nil)
	reach := func() (netip.Addr, error) { return second.SendTCP(first.Address.String()+":80", 1000) }
	mustReach(t, "before", second.Address.String(), reach)

	a.Do(onLink("uplink", func(link netlink.Link) error {
		return errors.Join(netlink.AddrDel(link, address(t, "192.168.7.1/24")), netlink.AddrAdd(link, address(t, "192.168.7.3/24")))
	}))
	// The kubelet needs a while to tell the API.
	mustReach(t, "the node's own pod", "192.168.7.3", func() (netip.Addr, error) { return a.SendTCP(first.Address.String()+":80", 10) })
	c.register("a", "10.42.0.0/24", "192.168.7.3")
	mustReach(t, "after", second.Address.String(), reach)
	eventually(t, "network configuration", func() error {
		if got := a.runtime().Config["nodeIP"]; got != "192.168.7.3" {
			return fmt.Errorf("node's address is still %v", got)
		}
		return nil
	})
}

func TestResyncRepairsWhatNobodyTells(t *testing.T) {
	c, h, _ := single(t)
	h.config.Resync = 50 * time.Millisecond
	h.start(c)
	h.runtime()
	// Routes come after the configuration.
	eventually(t, "routes", func() error {
		if !strings.Contains(h.Snapshot(), "route 10.42.0.0/24") {
			return errors.New("none yet")
		}
		return nil
	})
	whole := h.Snapshot()
	h.Nft("flush table inet " + h.dataplane().Table())
	eventually(t, "repair", func() error {
		if diff := netlab.Difference(whole, h.Snapshot()); diff != "" {
			return fmt.Errorf("node differs:\n%s", diff)
		}
		return nil
	})
}

func TestPodsThatVanishedAreCollected(t *testing.T) {
	c, h, outside := single(t)
	h.start(c)
	runtime := h.runtime()
	warm := runtime.Start(t, "warm", netlab.Ports(map[string]any{"hostPort": 8080, "containerPort": 80}))
	if err := runtime.Del(warm); err != nil {
		t.Fatal(err)
	}
	before := h.Snapshot()

	gone := runtime.Start(t, "gone", netlab.Ports(map[string]any{"hostPort": 8080, "containerPort": 80}))
	gone.Close()
	// An interface whose lease was lost.
	orphan := runtime.Start(t, "orphan", nil)
	if err := os.Remove(filepath.Join(h.config.StateDir, "ipam", "leases", orphan.Address.String()+".json")); err != nil {
		t.Fatal(err)
	}
	// A lease that a power failure has made unreadable.
	if err := os.WriteFile(filepath.Join(h.config.StateDir, "ipam", "leases", "10.42.0.200.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	// A pod that is there stays.
	stays := runtime.Start(t, "stays", nil)
	stays.ServeTCP(":80")

	store := ipam.NewStore(h.config.StateDir)
	// Not all of it makes the kernel say something.
	h.stop()
	h.start(c)
	eventually(t, "collection", func() error {
		leases, err := store.Leases()
		if err != nil {
			return err
		}
		if len(leases) != 1 || leases[0].ContainerID != "stays" {
			return fmt.Errorf("leases are %v", leases)
		}
		return nil
	})
	if _, err := h.SendTCP(stays.Address.String()+":80", 10); err != nil {
		t.Errorf("pod that is there: %v", err)
	}
	if !outside.BlockedTCP("192.168.7.1:8080") {
		t.Error("host port of a vanished pod is open")
	}
	if err := runtime.Del(stays); err != nil {
		t.Fatal(err)
	}
	if diff := netlab.Difference(before, h.Snapshot()); diff != "" {
		t.Errorf("left behind:\n%s", diff)
	}
}

// Docker and others set the policy of iptables' FORWARD chain to drop.
func TestHostFirewallThatDropsForwarding(t *testing.T) {
	c, h, outside := single(t)
	foreign := `table ip filter {
		chain FORWARD {
			type filter hook forward priority filter; policy drop;
			ip saddr 172.17.0.0/16 accept
		}
	}`
	h.Nft(foreign)
	before := h.Snapshot()
	outside.ServeTCP(":443")
	h.start(c)
	runtime := h.runtime()
	first, second := runtime.Start(t, "first", nil), runtime.Start(t, "second", nil)
	second.ServeTCP(":80")
	mustReach(t, "pod to pod", first.Address.String(), func() (netip.Addr, error) {
		return first.SendTCP(second.Address.String()+":80", 1000)
	})
	mustReach(t, "egress", "192.168.7.1", func() (netip.Addr, error) { return first.SendTCP("192.168.7.9:443", 1000) })
	h.stop()
	h.start(c)
	if count := strings.Count(h.Snapshot(), "ip saddr 10.42.0.0/16 accept comment"); count != 1 {
		t.Errorf("exemption is there %d times after a restart", count)
	}
	h.stop()
	h.cleanup()
	if diff := netlab.Difference(before, h.Snapshot()); diff != "" {
		t.Errorf("Cleanup left:\n%s", diff)
	}
}

func TestCleanupLeavesNothing(t *testing.T) {
	for name, network := range map[string]func(*testing.T) (*cluster, *host, *host){
		"direct": onSegment,
		"tunnel": func(t *testing.T) (*cluster, *host, *host) { return acrossRouter(t, 1500) },
	} {
		t.Run(name, func(t *testing.T) {
			c, a, b := network(t)
			before := a.Snapshot()
			a.start(c)
			first := a.runtime().Start(t, "first", netlab.Ports(map[string]any{"hostPort": 8080, "containerPort": 80}))
			b.start(c)
			second := b.runtime().Start(t, "second", nil)
			second.ServeTCP(":80")
			mustReach(t, "other node", first.Address.String(), func() (netip.Addr, error) {
				return first.SendTCP(second.Address.String()+":80", 10)
			})
			a.stop()
			for range 2 {
				a.cleanup()
				if diff := netlab.Difference(before, a.Snapshot()); diff != "" {
					t.Fatalf("Cleanup left:\n%s", diff)
				}
			}
			for _, dir := range []string{a.config.StateDir, a.config.CNIConfDir} {
				entries, err := os.ReadDir(dir)
				if err != nil || len(entries) != 0 {
					t.Errorf("Cleanup left %v in %s, %v", entries, dir, err)
				}
			}
			// And the node can be used again.
			a.start(c)
			third := a.runtime().Start(t, "third", nil)
			mustReach(t, "after a new start", third.Address.String(), func() (netip.Addr, error) {
				return third.SendTCP(second.Address.String()+":80", 10)
			})
		})
	}
}

func TestCleanupOfNothing(t *testing.T) {
	h := newHost(t, "a")
	before := h.Snapshot()
	h.cleanup()
	if diff := netlab.Difference(before, h.Snapshot()); diff != "" {
		t.Errorf("Cleanup left:\n%s", diff)
	}
	if err := node.Cleanup(node.Config{StateDir: "relative"}); err == nil {
		t.Error("Cleanup takes a relative state directory")
	}
}

func TestPluginIsInstalled(t *testing.T) {
	c, h, _ := single(t)
	h.config.CNIBinDir = filepath.Join(t.TempDir(), "bin")
	h.config.PluginBinary = program
	h.start(c)
	runtime := h.runtime()
	runtime.Program = filepath.Join(h.config.CNIBinDir, "prismnet")
	runtime.Start(t, "first", nil)
	installed, err := os.Stat(runtime.Program)
	if err != nil {
		t.Fatal(err)
	}
	h.stop()
	h.start(c)
	again, err := os.Stat(runtime.Program)
	if err != nil || !os.SameFile(installed, again) {
		t.Errorf("plugin that is there was installed again, %v", err)
	}
	h.stop()
	if err := os.WriteFile(runtime.Program, []byte("old"), 0o755); err != nil {
		t.Fatal(err)
	}
	h.start(c)
	runtime.Start(t, "second", nil)
}
