package cni

import (
	"encoding/json"
	"fmt"
	"net/netip"
)

// ConflistName is the network configuration's file name in the runtime's
// configuration directory. The runtime takes the first by name.
const ConflistName = "10-prismnet.conflist"

// Network is what the node daemon decides about the node's pod network.
type Network struct {
	StateDir string
	PodCIDR  netip.Prefix
	NodeIP   netip.Addr
	MTU      int
	// Policies says that somebody on the node enforces network policies, for whom
	// new pods have to wait.
	Policies bool
}

// Conflist renders the network configuration that Config reads.
func (n Network) Conflist() ([]byte, error) {
	type plugin struct {
		Type         string          `json:"type"`
		StateDir     string          `json:"stateDir"`
		PodCIDR      netip.Prefix    `json:"podCIDR"`
		NodeIP       netip.Addr      `json:"nodeIP,omitzero"`
		MTU          int             `json:"mtu"`
		Policies     bool            `json:"policies,omitempty"`
		Capabilities map[string]bool `json:"capabilities"`
	}
	data, err := json.MarshalIndent(map[string]any{
		"cniVersion": "1.0.0",
		"name":       Type,
		"plugins": []plugin{{
			Type: Type, StateDir: n.StateDir, PodCIDR: n.PodCIDR, NodeIP: n.NodeIP, MTU: n.MTU, Policies: n.Policies,
			Capabilities: map[string]bool{"portMappings": true},
		}},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("render network configuration: %w", err)
	}
	return append(data, '\n'), nil
}
