// Package cni is the `prismnet` plugin, which the container runtime runs once
// for each pod operation. It orders the steps of ADD, DEL, CHECK, GC and STATUS
// and speaks the specification's JSON and error codes; what the steps do is in
// ipam and linux.
//
// ADD writes the pod's lease before it touches the kernel and DEL removes it
// last. A plugin that is killed anywhere in between therefore leaves a lease,
// and the next ADD or DEL, or the node daemon, finishes from there.
package cni

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"plasmacloud.io/plasmacloud/internal/network/ipam"
)

const (
	// Type is the plugin's name in network configurations, and its file name.
	Type = "prismnet"

	// MinMTU is what IPv4 hosts must be able to receive.
	MinMTU = 576
	maxMTU = 65535
)

// Config is the plugin's part of a network configuration.
type Config struct {
	types.PluginConf
	// StateDir holds the node's leases.
	StateDir string `json:"stateDir"`
	// PodCIDR is the node's; pods get their addresses from it.
	PodCIDR string `json:"podCIDR"`
	// MTU of the pods' interfaces.
	MTU int `json:"mtu"`
	// NodeIP is the source address of the node's own packets to pods; optional.
	NodeIP string `json:"nodeIP,omitempty"`
	// Policies closes pods until the node daemon has written their policies.
	Policies bool `json:"policies,omitempty"`

	RuntimeConfig struct {
		PortMappings []PortMapping `json:"portMappings,omitempty"`
	} `json:"runtimeConfig,omitzero"`
}

// PortMapping is an entry of the capability `portMappings`.
type PortMapping struct {
	HostPort      int    `json:"hostPort"`
	ContainerPort int    `json:"containerPort"`
	Protocol      string `json:"protocol"`
	HostIP        string `json:"hostIP,omitempty"`
}

// parseConfig decodes a configuration and checks what every command needs; DEL
// must work with a configuration whose other fields are beyond use.
func parseConfig(data []byte) (*Config, error) {
	config := &Config{}
	if err := json.Unmarshal(data, config); err != nil {
		return nil, types.NewError(types.ErrDecodingFailure, "decode network configuration", err.Error())
	}
	if !filepath.IsAbs(config.StateDir) {
		return nil, invalid("stateDir", fmt.Errorf("%q is not an absolute path", config.StateDir))
	}
	return config, nil
}

// network checks and returns what ADD and CHECK need besides.
func (c *Config) network() (Network, error) {
	n := Network{StateDir: c.StateDir, MTU: c.MTU}
	var err error
	if n.PodCIDR, err = netip.ParsePrefix(c.PodCIDR); err != nil {
		return n, invalid("podCIDR", err)
	}
	if !n.PodCIDR.Addr().Is4() {
		return n, invalid("podCIDR", fmt.Errorf("%s is not an IPv4 prefix", n.PodCIDR))
	}
	if n.PodCIDR.Bits() > 30 {
		return n, invalid("podCIDR", fmt.Errorf("%s has no addresses for pods", n.PodCIDR))
	}
	if c.MTU < MinMTU || c.MTU > maxMTU {
		return n, invalid("mtu", fmt.Errorf("%d is not between %d and %d", c.MTU, MinMTU, maxMTU))
	}
	if c.NodeIP == "" {
		return n, nil
	}
	if n.NodeIP, err = netip.ParseAddr(c.NodeIP); err != nil {
		return n, invalid("nodeIP", err)
	}
	if !n.NodeIP.Is4() {
		return n, invalid("nodeIP", fmt.Errorf("%s is not an IPv4 address", n.NodeIP))
	}
	return n, nil
}

// hostPorts translates the port mappings. Containers often declare ports that
// are not mapped (hostPort 0), and on dual-stack nodes the mappings of the
// other address family; both are passed over.
func (c *Config) hostPorts() ([]ipam.HostPort, error) {
	var ports []ipam.HostPort
	for _, m := range c.RuntimeConfig.PortMappings {
		if m.HostPort == 0 {
			continue
		}
		port, applies, err := m.hostPort()
		if err != nil {
			return nil, invalid("runtimeConfig.portMappings", err)
		}
		if !applies || slices.Contains(ports, port) {
			continue
		}
		if i := slices.IndexFunc(ports, port.Overlaps); i >= 0 {
			return nil, invalid("runtimeConfig.portMappings", fmt.Errorf("host port %s is mapped twice", port))
		}
		ports = append(ports, port)
	}
	return ports, nil
}

func (m PortMapping) hostPort() (port ipam.HostPort, applies bool, err error) {
	for name, number := range map[string]int{"hostPort": m.HostPort, "containerPort": m.ContainerPort} {
		if number < 1 || number > 65535 {
			return port, false, fmt.Errorf("%s %d is not between 1 and 65535", name, number)
		}
	}
	port.HostPort, port.ContainerPort = uint16(m.HostPort), uint16(m.ContainerPort)
	port.Protocol = strings.ToLower(m.Protocol)
	if port.Protocol == "" {
		port.Protocol = "tcp"
	}
	if !slices.Contains([]string{"tcp", "udp", "sctp"}, port.Protocol) {
		return port, false, fmt.Errorf("protocol %q is none of tcp, udp, sctp", m.Protocol)
	}
	if m.HostIP == "" {
		return port, true, nil
	}
	addr, err := netip.ParseAddr(m.HostIP)
	if err != nil {
		return port, false, fmt.Errorf("hostIP: %w", err)
	}
	if addr = addr.Unmap(); !addr.Is4() {
		return port, false, nil
	}
	if !addr.IsUnspecified() {
		port.HostIP = addr
	}
	return port, true, nil
}

func invalid(field string, err error) error {
	return types.NewError(types.ErrInvalidNetworkConfig, "invalid network configuration", fmt.Sprintf("%s: %v", field, err))
}
