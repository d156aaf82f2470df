package linux

import (
	"context"
	"fmt"
	"net/netip"
	"strings"

	"sigs.k8s.io/knftables"
)

// foreignChain is where Docker, ufw and hand-written iptables rules decide about
// forwarding, mostly with a policy of drop. A verdict of ours in a table of ours
// cannot overrule theirs, so pods need two rules in that very chain.
const foreignChain = "FORWARD"

// ForwardExemption keeps pods' packets out of the reach of the host's own
// `ip filter FORWARD` chain, where there is one.
type ForwardExemption struct {
	nft knftables.Interface
	tag string
}

// ForwardExemption finds nftables on this node; it needs the nft program.
func (d *Dataplane) ForwardExemption() (*ForwardExemption, error) {
	nft, err := knftables.New(knftables.IPv4Family, "filter")
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	return &ForwardExemption{nft: nft, tag: d.Table()}, nil
}

// Sync exempts packets from and to the cluster's pods.
func (e *ForwardExemption) Sync(ctx context.Context, cluster netip.Prefix) error {
	return e.replace(ctx, []string{
		fmt.Sprintf("ip saddr %s accept", cluster),
		fmt.Sprintf("ip daddr %s accept", cluster),
	})
}

// Delete removes the exemption.
func (e *ForwardExemption) Delete(ctx context.Context) error {
	return e.replace(ctx, nil)
}

// replace puts rules, and none of our older ones, at the head of the chain.
func (e *ForwardExemption) replace(ctx context.Context, rules []string) error {
	present, err := e.nft.ListRules(ctx, foreignChain)
	if knftables.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list rules of %s: %w", foreignChain, err)
	}
	missing := make(map[string]bool, len(rules))
	for _, rule := range rules {
		missing[e.tag+": "+rule] = true
	}
	tx := e.nft.NewTransaction()
	for _, rule := range present {
		if rule.Comment == nil || !strings.HasPrefix(*rule.Comment, e.tag+": ") {
			continue
		}
		if missing[*rule.Comment] {
			delete(missing, *rule.Comment)
			continue
		}
		tx.Delete(rule)
	}
	for _, rule := range rules {
		if comment := e.tag + ": " + rule; missing[comment] {
			tx.Insert(&knftables.Rule{Chain: foreignChain, Rule: rule, Comment: &comment})
		}
	}
	if tx.NumOperations() == 0 {
		return nil
	}
	if err := e.nft.Run(ctx, tx); err != nil {
		return fmt.Errorf("exempt pods from %s: %w", foreignChain, err)
	}
	return nil
}
