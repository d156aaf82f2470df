package linux

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"sigs.k8s.io/knftables"

	"plasmacloud.io/plasmacloud/internal/network/ipam"
)

// The chains and maps of the instance's table. Host ports come after
// kube-proxy's NodePorts (which sit at dstnat itself), so that a Service wins
// where both claim a port.
const (
	chainAntiSpoof   = "anti-spoof"
	chainClampMSS    = "clamp-mss"
	chainEgress      = "egress"
	chainHostPorts   = "host-ports"
	chainFromOutside = "host-ports-prerouting"
	chainFromNode    = "host-ports-output"
	chainReturn      = "host-ports-postrouting"

	mapAnyAddress = "ports-of-any-address"
	mapOneAddress = "ports-of-one-address"
	setHairpin    = "hairpin"

	hostPortPriority = "-90"
)

// Firewall writes the instance's nftables table. It always writes whole chains
// and maps, in one transaction, so that repairing and changing are the same.
type Firewall struct {
	nft       knftables.Interface
	dataplane *Dataplane
}

// Firewall finds nftables on this node; it needs the nft program.
func (d *Dataplane) Firewall() (*Firewall, error) {
	nft, err := knftables.New(knftables.InetFamily, d.Table())
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	return &Firewall{nft: nft, dataplane: d}, nil
}

// SyncHostPorts makes the node's host ports those of the leases.
func (f *Firewall) SyncHostPorts(ctx context.Context, leases []ipam.Lease) error {
	tx := f.nft.NewTransaction()
	tx.Add(&knftables.Table{})
	f.hostPorts(tx, leases)
	return f.run(ctx, tx, "host ports")
}

// Sync writes the whole table for a cluster's pod addresses.
func (f *Firewall) Sync(ctx context.Context, cluster netip.Prefix, leases []ipam.Lease) error {
	tx := f.nft.NewTransaction()
	tx.Add(&knftables.Table{})
	f.antiSpoof(tx)
	f.clampMSS(tx)
	f.egress(tx, cluster)
	f.hostPorts(tx, leases)
	return f.run(ctx, tx, "rules")
}

// Delete removes the table; none there is fine.
func (f *Firewall) Delete(ctx context.Context) error {
	tx := f.nft.NewTransaction()
	// nft gained `destroy` only lately; adding first makes deleting safe.
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	return f.run(ctx, tx, "removal")
}

func (f *Firewall) run(ctx context.Context, tx *knftables.Transaction, what string) error {
	if err := f.nft.Run(ctx, tx); err != nil {
		return fmt.Errorf("apply nftables %s: %w", what, err)
	}
	return nil
}

// antiSpoof lets a pod send from its own address only: the one the node would
// reach through the interface the packet came from. It also keeps pods off the
// node's loopback, which route_localnet opens, and off IPv6, which they have no
// addresses for.
func (f *Firewall) antiSpoof(tx *knftables.Transaction) {
	fromPod := fmt.Sprintf("iifname \"%s*\"", f.dataplane.vethPrefix())
	chain(tx, knftables.Chain{
		Name: chainAntiSpoof, Type: knftables.PtrTo(knftables.FilterType),
		Hook: knftables.PtrTo(knftables.PreroutingHook), Priority: knftables.PtrTo(knftables.RawPriority),
	},
		knftables.Concat(fromPod, "meta nfproto ipv6", "drop"),
		knftables.Concat(fromPod, "ip daddr 127.0.0.0/8", "drop"),
		knftables.Concat(fromPod, "fib saddr . iif oif missing", "drop"),
	)
}

// clampMSS fits TCP connections into the tunnel from their first packet on. A
// pod's interface has the MTU of the underlay, which is right for direct
// routes; other protocols learn the tunnel's from ICMP.
func (f *Firewall) clampMSS(tx *knftables.Transaction) {
	tunnel := fmt.Sprintf("%q", f.dataplane.VXLAN())
	clamp := "tcp flags syn tcp option maxseg size set rt mtu"
	chain(tx, knftables.Chain{
		Name: chainClampMSS, Type: knftables.PtrTo(knftables.FilterType),
		Hook: knftables.PtrTo(knftables.ForwardHook), Priority: knftables.PtrTo(knftables.ManglePriority),
	},
		knftables.Concat("oifname", tunnel, clamp),
		knftables.Concat("iifname", tunnel, clamp),
	)
}

// egress hides pods behind the node's address from everything but pods.
func (f *Firewall) egress(tx *knftables.Transaction, cluster netip.Prefix) {
	fromPod := fmt.Sprintf("ip saddr %s", cluster)
	chain(tx, knftables.Chain{
		Name: chainEgress, Type: knftables.PtrTo(knftables.NATType),
		Hook: knftables.PtrTo(knftables.PostroutingHook), Priority: knftables.PtrTo(knftables.SNATPriority),
	},
		knftables.Concat(fromPod, "ip daddr", cluster.String(), "return"),
		knftables.Concat(fromPod, "ip daddr 224.0.0.0/4", "return"),
		knftables.Concat(fromPod, "masquerade fully-random"),
	)
}

func (f *Firewall) hostPorts(tx *knftables.Transaction, leases []ipam.Lease) {
	const target = ": ipv4_addr . inet_service"
	for _, m := range []knftables.Map{
		{Name: mapOneAddress, Type: "ipv4_addr . inet_proto . inet_service " + target},
		{Name: mapAnyAddress, Type: "inet_proto . inet_service " + target},
	} {
		tx.Add(&m)
		tx.Flush(&m)
	}
	hairpin := knftables.Set{Name: setHairpin, Type: "ipv4_addr . ipv4_addr"}
	tx.Add(&hairpin)
	tx.Flush(&hairpin)
	for _, lease := range leases {
		addHostPorts(tx, lease)
	}

	chain(tx, knftables.Chain{Name: chainHostPorts},
		"dnat ip to ip daddr . meta l4proto . th dport map @"+mapOneAddress,
		"dnat ip to meta l4proto . th dport map @"+mapAnyAddress,
	)
	for name, hook := range map[string]knftables.BaseChainHook{
		chainFromOutside: knftables.PreroutingHook,
		chainFromNode:    knftables.OutputHook,
	} {
		chain(tx, knftables.Chain{
			Name: name, Type: knftables.PtrTo(knftables.NATType), Hook: &hook,
			Priority: knftables.PtrTo(knftables.BaseChainPriority(hostPortPriority)),
		}, "fib daddr type local jump "+chainHostPorts)
	}
	// A pod cannot answer 127.0.0.1, and would answer itself without the node
	// noticing: both must seem to come from the node.
	chain(tx, knftables.Chain{
		Name: chainReturn, Type: knftables.PtrTo(knftables.NATType),
		Hook: knftables.PtrTo(knftables.PostroutingHook), Priority: knftables.PtrTo(knftables.SNATPriority),
	},
		fmt.Sprintf("oifname \"%s*\" ip saddr 127.0.0.0/8 masquerade", f.dataplane.vethPrefix()),
		fmt.Sprintf("ip saddr . ip daddr @%s masquerade", setHairpin),
	)
}

func addHostPorts(tx *knftables.Transaction, lease ipam.Lease) {
	if len(lease.HostPorts) == 0 {
		return
	}
	addr := lease.Address.String()
	tx.Add(&knftables.Element{Set: setHairpin, Key: []string{addr, addr}})
	for _, port := range lease.HostPorts {
		tx.Add(hostPortElement(addr, port))
	}
}

func hostPortElement(podAddr string, port ipam.HostPort) *knftables.Element {
	element := &knftables.Element{
		Map:   mapAnyAddress,
		Key:   []string{port.Protocol, fmt.Sprint(port.HostPort)},
		Value: []string{podAddr, fmt.Sprint(port.ContainerPort)},
	}
	if port.HostIP.IsValid() {
		element.Map = mapOneAddress
		element.Key = append([]string{port.HostIP.String()}, element.Key...)
	}
	return element
}

// CheckHostPorts compares the node's host ports with a lease.
func (f *Firewall) CheckHostPorts(ctx context.Context, lease ipam.Lease) error {
	for _, port := range lease.HostPorts {
		want := hostPortElement(lease.Address.String(), port)
		elements, err := f.nft.ListElements(ctx, "map", want.Map)
		if err != nil && !knftables.IsNotFound(err) {
			return fmt.Errorf("list host ports: %w", err)
		}
		if !slices.ContainsFunc(elements, func(got *knftables.Element) bool {
			return slices.Equal(got.Key, want.Key) && slices.Equal(got.Value, want.Value)
		}) {
			return fmt.Errorf("host port %s is missing", port)
		}
	}
	return nil
}

// chain replaces the content of a chain.
func chain(tx *knftables.Transaction, c knftables.Chain, rules ...string) {
	tx.Add(&c)
	tx.Flush(&c)
	for _, rule := range rules {
		tx.Add(&knftables.Rule{Chain: c.Name, Rule: rule})
	}
}
