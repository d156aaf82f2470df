// Package node is the daemon that every node runs once. It follows the
// cluster's Node objects and keeps this node to what they say: routes to other
// nodes' pods, the firewall, and the network configuration that tells the
// container runtime that pods can come. It repairs what others damage and
// collects what pods leave behind.
//
// Stopping it leaves running pods their network; only Cleanup takes it away.
package node

import (
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"time"

	"plasmacloud.io/plasmacloud/internal/network/cni"
	"plasmacloud.io/plasmacloud/internal/network/linux"
)

// Defaults of Config. The port is the one that k3s and flannel use, so that
// firewalls opened for them need no change.
const (
	DefaultVNI    = 20558
	DefaultPort   = 8472
	DefaultResync = 30 * time.Second
)

// Config is what the daemon has to be told.
type Config struct {
	// NodeName is the name of this node's Node object.
	NodeName string
	// ClusterCIDR holds the pod CIDRs of all nodes.
	ClusterCIDR netip.Prefix
	// StateDir holds the leases of this node's pods. It also names the instance:
	// everything the daemon makes carries a name derived from it.
	StateDir string
	// CNIConfDir is where the container runtime looks for network configurations.
	CNIConfDir string
	// CNIBinDir, if set, is where the plugin is installed from PluginBinary.
	CNIBinDir    string
	PluginBinary string
	// MTU of pods' interfaces; 0 takes the underlay's.
	MTU int
	// Tunnel must be the same on all nodes. Zero values mean the defaults.
	Tunnel linux.Tunnel
	// Resync is how often everything is checked without a reason; 0 means the
	// default.
	Resync time.Duration
	// NetNS is the path of the node's network namespace, if that is not the
	// process's own.
	NetNS string
}

func (c Config) withDefaults() Config {
	if c.Tunnel.VNI == 0 {
		c.Tunnel.VNI = DefaultVNI
	}
	if c.Tunnel.Port == 0 {
		c.Tunnel.Port = DefaultPort
	}
	if c.Resync == 0 {
		c.Resync = DefaultResync
	}
	return c
}

// Validate names all that is wrong at once.
func (c Config) Validate() error {
	c = c.withDefaults()
	var problems []error
	refuse := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }

	if c.NodeName == "" {
		refuse("node name is missing")
	}
	switch {
	case !c.ClusterCIDR.IsValid():
		refuse("cluster CIDR is missing")
	case !c.ClusterCIDR.Addr().Is4():
		refuse("cluster CIDR %s is not an IPv4 prefix", c.ClusterCIDR)
	case c.ClusterCIDR != c.ClusterCIDR.Masked():
		refuse("cluster CIDR %s has host bits set; is %s meant?", c.ClusterCIDR, c.ClusterCIDR.Masked())
	}
	for name, dir := range map[string]string{"state directory": c.StateDir, "CNI configuration directory": c.CNIConfDir} {
		if !filepath.IsAbs(dir) {
			refuse("%s %q is not an absolute path", name, dir)
		}
	}
	if (c.CNIBinDir == "") != (c.PluginBinary == "") {
		refuse("CNI binary directory and plugin binary go together")
	}
	if c.MTU != 0 && (c.MTU < cni.MinMTU || c.MTU > 65535) {
		refuse("MTU %d is not between %d and 65535", c.MTU, cni.MinMTU)
	}
	if c.Tunnel.VNI < 1 || c.Tunnel.VNI >= 1<<24 {
		refuse("VXLAN network identifier %d is not between 1 and %d", c.Tunnel.VNI, 1<<24-1)
	}
	if c.Tunnel.Port < 1 || c.Tunnel.Port > 65535 {
		refuse("VXLAN port %d is not between 1 and 65535", c.Tunnel.Port)
	}
	if c.Resync < 0 {
		refuse("resync interval %s is negative", c.Resync)
	}
	return errors.Join(problems...)
}
