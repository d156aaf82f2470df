// Package network is PrismNET, the pod network. It holds no code itself; its
// rooms are:
//
//   - ipam: which pod interface holds which address and which host ports
//   - linux: the dataplane of routed veths, nftables and VXLAN
//   - cni: the plugin the container runtime calls
//   - node: the daemon that keeps a node's routes, rules and CNI configuration
//   - policy: network policies, compiled and kept
//   - command: the command line of the prismnet program
//   - netlab: network namespaces, links and probes for the tests
//
// docs/network.md tells how the pieces work together.
package network
