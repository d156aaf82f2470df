package node_test

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"plasmacloud.io/plasmacloud/internal/network/node"
)

func TestConfigNamesWhatIsWrong(t *testing.T) {
	good := node.Config{
		NodeName: "a", ClusterCIDR: netip.MustParsePrefix("10.42.0.0/16"),
		StateDir: "/var/lib/net", CNIConfDir: "/etc/cni/net.d",
	}
	if err := good.Validate(); err != nil {
		t.Fatalf("a good configuration is refused: %v", err)
	}
	nodes := newCluster(t).nodes()
	for name, change := range map[string]func(*node.Config){
		"node name is missing":        func(c *node.Config) { c.NodeName = "" },
		"cluster CIDR is missing":     func(c *node.Config) { c.ClusterCIDR = netip.Prefix{} },
		"not an IPv4 prefix":          func(c *node.Config) { c.ClusterCIDR = netip.MustParsePrefix("fd00::/48") },
		"is 10.42.0.0/16 meant":       func(c *node.Config) { c.ClusterCIDR = netip.MustParsePrefix("10.42.1.0/16") },
		"state directory":             func(c *node.Config) { c.StateDir = "state" },
		"CNI configuration directory": func(c *node.Config) { c.CNIConfDir = "" },
		"plugin binary go together":   func(c *node.Config) { c.CNIBinDir = "/opt/cni/bin" },
		"MTU 100 is not between":      func(c *node.Config) { c.MTU = 100 },
		"VXLAN network identifier":    func(c *node.Config) { c.Tunnel.VNI = 1 << 24 },
		"VXLAN port 70000":            func(c *node.Config) { c.Tunnel.Port = 70000 },
		"is negative":                 func(c *node.Config) { c.Resync = -1 },
	} {
		config := good
		change(&config)
		err := config.Validate()
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an error with %q", err, name)
		}
		if _, err := node.New(config, nodes, nil, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("daemon takes a configuration where %s", name)
		}
	}
}
