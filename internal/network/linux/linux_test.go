package linux_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"plasmacloud.io/plasmacloud/internal/network/ipam"
	"plasmacloud.io/plasmacloud/internal/network/linux"
	"plasmacloud.io/plasmacloud/internal/network/netlab"
)

func TestNamesFitAndDiffer(t *testing.T) {
	a, b := linux.New("/var/lib/a"), linux.New("/var/lib/b")
	if a.Table() == b.Table() || a.VXLAN() == b.VXLAN() {
		t.Errorf("instances share names %s, %s", a.Table(), a.VXLAN())
	}
	if linux.New("/var/lib/a/").Table() != a.Table() {
		t.Error("the way a path is written changes the names")
	}
	names := map[string]bool{}
	for _, d := range []*linux.Dataplane{a, b} {
		for _, key := range []ipam.Key{{ContainerID: "x", IfName: "eth0"}, {ContainerID: "x", IfName: "net1"}, {ContainerID: "y", IfName: "eth0"}} {
			name := d.HostInterface(key)
			if len(name) > 15 || names[name] || strings.HasPrefix(d.VXLAN(), name[:7]) {
				t.Errorf("interface name %s is too long, taken or misleading", name)
			}
			names[name] = true
		}
	}
	if len(a.VXLAN()) > 15 {
		t.Errorf("interface name %s is too long", a.VXLAN())
	}
}

func TestHardwareAddressFollowsTheAddress(t *testing.T) {
	d := linux.New("/var/lib/a")
	for _, addr := range []string{"10.42.0.5", "fd00::5"} {
		_, first := d.MACs(netip.MustParseAddr(addr))
		_, again := d.MACs(netip.MustParseAddr(addr))
		_, other := d.MACs(netip.MustParseAddr(addr).Next())
		if len(first) != 6 || first.String() != again.String() || first.String() == other.String() {
			t.Errorf("%s has %s, then %s; the next has %s", addr, first, again, other)
		}
		if first[0]&1 != 0 || first[0]&2 == 0 {
			t.Errorf("%s is not a locally administered address of one host", first)
		}
	}
}

func TestNamespaces(t *testing.T) {
	ns := netlab.New(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !linux.NamespaceExists(ns.Path) || linux.NamespaceExists(file) || linux.NamespaceExists(file+"x") {
		t.Error("namespaces are not told from other files")
	}
	for _, path := range []string{file, file + "x"} {
		if err := linux.InNamespace(path, func() error { return nil }); !errors.Is(err, linux.ErrNoNamespace) {
			t.Errorf("got %v, want %v", err, linux.ErrNoNamespace)
		}
	}
	ns.Do(func() error {
		own, err := linux.IsOwnNamespace(ns.Path)
		if !own {
			t.Error("own namespace is not recognised")
		}
		return err
	})
	if own, err := linux.IsOwnNamespace(ns.Path); own || err != nil {
		t.Errorf("a foreign namespace is taken for the own: %v", err)
	}
	ns.Close()
	if linux.NamespaceExists(ns.Path) {
		t.Error("a closed namespace is there")
	}
}

// The gateway's address must never be the source of the node's own packets.
func TestGatewayIsNotASource(t *testing.T) {
	node, other := netlab.New(t), netlab.New(t)
	netlab.Connect(t, 1500,
		netlab.End{Namespace: node, Interface: "eth0", Address: "192.168.7.1/24"},
		netlab.End{Namespace: other, Interface: "eth0", Address: "192.168.7.2/24"})
	node.Do(linux.New(t.TempDir()).EnsureHost)
	other.ServeTCP(":80")
	seen, err := node.SendTCP("192.168.7.2:80", 0)
	if err != nil || seen.String() != "192.168.7.1" {
		t.Errorf("server saw %s, %v", seen, err)
	}
	node.Do(func() error {
		mtu, err := linux.UnderlayMTU(netip.MustParseAddr("192.168.7.1"))
		if mtu != 1500 {
			t.Errorf("MTU is %d", mtu)
		}
		return err
	})
	if err := node.Try(func() error {
		_, err := linux.UnderlayMTU(netip.MustParseAddr("192.168.7.2"))
		return err
	}); !errors.Is(err, linux.ErrNotLocal) {
		t.Errorf("got %v, want %v", err, linux.ErrNotLocal)
	}
}
