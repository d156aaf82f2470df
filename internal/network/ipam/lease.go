// Package ipam hands out what pod interfaces of one node must not share: the
// addresses of the node's pod CIDR and the node's host ports. Every holding is
// a lease, one small JSON file named after its address. The files are the only
// record; the dataplane is built from them and rebuilt from them when it was
// damaged.
package ipam

import (
	"fmt"
	"net/netip"
	"slices"
)

// Key names the holder of a lease as the CNI specification does.
type Key struct {
	ContainerID string `json:"containerID"`
	IfName      string `json:"ifName"`
}

// Lease is what one pod interface holds. A lease whose file cannot be read has
// a zero Key: its address stays reserved until the dataplane says it is unused.
type Lease struct {
	Key
	Address netip.Addr `json:"address"`
	// Netns is the path of the pod's network namespace. Once it is gone, so is
	// the pod, whether or not the runtime managed to say so.
	Netns string `json:"netns"`
	// Pod is "namespace/name" where the runtime told it; for people only.
	Pod       string     `json:"pod,omitempty"`
	HostPorts []HostPort `json:"hostPorts,omitempty"`
}

// Holder names the lease's owner to people.
func (l Lease) Holder() string {
	switch {
	case l.Pod != "":
		return "pod " + l.Pod
	case l.ContainerID != "":
		return "container " + l.ContainerID
	default:
		return "an unreadable lease"
	}
}

func (l Lease) equal(o Lease) bool {
	return l.Key == o.Key && l.Address == o.Address && l.Netns == o.Netns && l.Pod == o.Pod &&
		slices.Equal(l.HostPorts, o.HostPorts)
}

// HostPort leads a port of the node to a port of the pod.
type HostPort struct {
	// Protocol is tcp, udp or sctp.
	Protocol string `json:"protocol"`
	// HostIP is the node's address the port is taken on; zero means all of them.
	HostIP        netip.Addr `json:"hostIP,omitzero"`
	HostPort      uint16     `json:"hostPort"`
	ContainerPort uint16     `json:"containerPort"`
}

// Overlaps tells whether both want the same port of the same address.
func (p HostPort) Overlaps(o HostPort) bool {
	return p.Protocol == o.Protocol && p.HostPort == o.HostPort &&
		(!p.HostIP.IsValid() || !o.HostIP.IsValid() || p.HostIP == o.HostIP)
}

func (p HostPort) String() string {
	if !p.HostIP.IsValid() {
		return fmt.Sprintf("%d/%s", p.HostPort, p.Protocol)
	}
	return fmt.Sprintf("%s:%d/%s", p.HostIP, p.HostPort, p.Protocol)
}
