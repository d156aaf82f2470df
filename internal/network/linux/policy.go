package linux

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
	"sigs.k8s.io/knftables"
)

// PolicyRules is what a node enforces about its own pods. Pods that are in
// neither side are open, others' pods are not the node's business.
type PolicyRules struct {
	Ingress, Egress PolicySide
	// Pods are sets of addresses, and Ports sets of pods' ports, that rules name.
	Pods  map[string][]netip.Addr
	Ports map[string][]PodPort
	// Unjudged are addresses of pods that nobody knows the policies of; nothing
	// passes from or to them.
	Unjudged []netip.Addr
}

// PolicySide is one direction, seen from the pod.
type PolicySide struct {
	// Pods names the policies of each pod. What none of them allows is dropped.
	Pods map[netip.Addr][]string
	// Policies are lists of what is allowed.
	Policies map[string][]PolicyRule
}

// PolicyRule allows some peers some ports. Peers are a set, or a block without
// its exceptions, or anybody where neither is given.
type PolicyRule struct {
	Set    string
	Block  netip.Prefix
	Except []netip.Prefix // disjoint
	// Ports and NamedPorts, the name of a set, are what the destination listens
	// on; where neither is given, all protocols and ports.
	Ports      []PortRange
	NamedPorts string
}

// PortRange is some ports of tcp, udp or sctp, disjoint from others of a rule.
type PortRange struct {
	Protocol    string
	First, Last uint16
}

// AllPorts is every port of a protocol.
func AllPorts(protocol string) PortRange { return PortRange{Protocol: protocol, Last: 65535} }

// PodPort is a port of one pod.
type PodPort struct {
	Address  netip.Addr
	Protocol string
	Port     uint16
}

// The parts of the policy table that are always there. Each side has a map that
// leads from a pod's address to the chain of its policies. A verdict of accept
// ends one base chain only, so a packet from one policed pod to another has to
// pass both sides.
const (
	policyPrefix = "prismpolicy-"

	chainPolicyForwardOut = "egress-forward"
	chainPolicyInput      = "egress-input"
	chainPolicyForwardIn  = "ingress-forward"
	chainEgressSide       = "egress"
	chainIngressSide      = "ingress"

	setUnjudged = "unjudged"
	setSelf     = "self"
	mapEgress   = "egress-of"
	mapIngress  = "ingress-of"

	// After filters of others at the usual priority, egress before ingress.
	egressPriority  = "5"
	ingressPriority = "6"

	typeAddress = "ipv4_addr"
	typePair    = "ipv4_addr . ipv4_addr"
	typeVerdict = "ipv4_addr : verdict"
	typePort    = "ipv4_addr . inet_proto . inet_service"
)

// PolicyTableName is the name of the instance's table of network policies.
func (d *Dataplane) PolicyTableName() string { return policyPrefix + d.id }

// PolicyTable writes the instance's network policies, in a table of their own
// so that nothing else is touched by how often they change.
type PolicyTable struct {
	nft knftables.Interface
	// applied is what the table holds, as far as this process wrote it.
	applied *policyContent
}

// PolicyTable finds nftables on this node; it needs the nft program.
func (d *Dataplane) PolicyTable() (*PolicyTable, error) {
	nft, err := knftables.New(knftables.InetFamily, d.PolicyTableName())
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	return &PolicyTable{nft: nft}, nil
}

// Quarantine closes a new pod's address until its policies are written.
func (d *Dataplane) Quarantine(ctx context.Context, addr netip.Addr) error {
	err := d.closeAddress(addr)
	if !errors.Is(err, unix.ENOENT) {
		return err
	}
	// After a reboot the first pod may come before the node daemon.
	table, err := d.PolicyTable()
	if err != nil {
		return err
	}
	tx := table.nft.NewTransaction()
	policySkeleton(tx)
	tx.Add(&knftables.Element{Set: setUnjudged, Key: []string{addr.String()}})
	if err := table.nft.Run(ctx, tx); err != nil {
		return fmt.Errorf("close the pod's address: %w", err)
	}
	return nil
}

// closeAddress speaks to the kernel itself: every pod has to wait for it, and
// running nft takes ten times as long.
func (d *Dataplane) closeAddress(addr netip.Addr) error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	set := &nftables.Set{
		Table: &nftables.Table{Family: nftables.TableFamilyINet, Name: d.PolicyTableName()},
		Name:  setUnjudged, KeyType: nftables.TypeIPAddr,
	}
	if err := conn.SetAddElements(set, []nftables.SetElement{{Key: addr.AsSlice()}}); err != nil {
		return fmt.Errorf("close the pod's address: %w", err)
	}
	if err := conn.Flush(); err != nil {
		return fmt.Errorf("close the pod's address: %w", err)
	}
	return nil
}

// Delete removes the table; none there is fine.
func (t *PolicyTable) Delete(ctx context.Context) error {
	t.applied = nil
	// Asking first spares all who watch the news of a table that comes and goes.
	if _, err := t.nft.List(ctx, "chain"); knftables.IsNotFound(err) {
		return nil
	}
	tx := t.nft.NewTransaction()
	tx.Add(&knftables.Table{})
	tx.Delete(&knftables.Table{})
	if err := t.nft.Run(ctx, tx); err != nil {
		return fmt.Errorf("remove network policies: %w", err)
	}
	return nil
}

// policySkeleton adds what is always there. It may be repeated.
func policySkeleton(tx *knftables.Transaction) {
	tx.Add(&knftables.Table{})
	tx.Add(&knftables.Set{Name: setUnjudged, Type: typeAddress})
	tx.Add(&knftables.Set{Name: setSelf, Type: typePair})
	tx.Add(&knftables.Map{Name: mapEgress, Type: typeVerdict})
	tx.Add(&knftables.Map{Name: mapIngress, Type: typeVerdict})
	for _, side := range []struct{ chain, address, pods string }{
		{chainEgressSide, "ip saddr", mapEgress}, {chainIngressSide, "ip daddr", mapIngress},
	} {
		chain(tx, knftables.Chain{Name: side.chain},
			"ct state established,related accept",
			knftables.Concat(side.address, "@"+setUnjudged, "drop"),
			// No policy keeps a pod from itself, by way of a Service say.
			"ip saddr . ip daddr @"+setSelf+" accept",
			knftables.Concat(side.address, "vmap @"+side.pods),
		)
	}
	// What the node itself sends to its pods passes none of these hooks, and
	// what pods send to the node is part of their egress.
	for _, base := range []struct {
		name, side, priority string
		hook                 knftables.BaseChainHook
	}{
		{chainPolicyForwardOut, chainEgressSide, egressPriority, knftables.ForwardHook},
		{chainPolicyInput, chainEgressSide, egressPriority, knftables.InputHook},
		{chainPolicyForwardIn, chainIngressSide, ingressPriority, knftables.ForwardHook},
	} {
		chain(tx, knftables.Chain{
			Name: base.name, Type: knftables.PtrTo(knftables.FilterType), Hook: &base.hook,
			Priority: knftables.PtrTo(knftables.BaseChainPriority(base.priority)),
		}, "jump "+base.side)
	}
}

// WatchPolicies calls changed when the watch begins and whenever the table was
// deleted or the plugin closed a new pod's address.
func (d *Dataplane) WatchPolicies(ctx context.Context, changed func()) error {
	return watch(ctx, unix.NETLINK_NETFILTER, []uint{unix.NFNLGRP_NFTABLES}, changed, d.concernsPolicies)
}

func (d *Dataplane) concernsPolicies(m syscall.NetlinkMessage) bool {
	switch m.Header.Type {
	case unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_DELTABLE:
		return namesTable(m, d.PolicyTableName())
	case unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_NEWSETELEM:
		table, err := nftAttribute(m, unix.NFTA_SET_ELEM_LIST_TABLE)
		if err != nil {
			return true
		}
		set, err := nftAttribute(m, unix.NFTA_SET_ELEM_LIST_SET)
		return err != nil || table == d.PolicyTableName() && set == setUnjudged
	}
	return false
}

// namesTable tells whether a message about a table is about this one; one that
// cannot be read might be.
func namesTable(m syscall.NetlinkMessage, table string) bool {
	name, err := nftAttribute(m, unix.NFTA_TABLE_NAME)
	return err != nil || name == table
}

// nftAttribute reads a name out of a message of nftables.
func nftAttribute(m syscall.NetlinkMessage, kind uint16) (string, error) {
	if len(m.Data) < nl.SizeofNfgenmsg {
		return "", errors.New("message is short")
	}
	attrs, err := nl.ParseRouteAttr(m.Data[nl.SizeofNfgenmsg:])
	if err != nil {
		return "", fmt.Errorf("read message: %w", err)
	}
	for _, attr := range attrs {
		if attr.Attr.Type == kind {
			return unix.ByteSliceToString(attr.Value), nil
		}
	}
	return "", errors.New("message lacks a name")
}
