package linux

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/knftables"
)

// Sync brings the table to the rules in one transaction, writing only what is
// new. With inspect it looks at what is there first: where somebody deleted the
// table, where a process before this one wrote it, or where the plugin closed
// addresses in the meantime. The caller holds the lock on the leases that the
// rules were made from. It tells whether there was anything to write.
func (t *PolicyTable) Sync(ctx context.Context, rules PolicyRules, inspect bool) (bool, error) {
	wanted := renderPolicies(rules)
	tx := t.nft.NewTransaction()
	present := t.applied
	t.applied = nil // unless all goes well
	if present == nil || inspect {
		found, err := t.inspect(ctx)
		if err != nil {
			return false, err
		}
		if present == nil || !found.whole(present) {
			policySkeleton(tx)
			found.clear(tx, wanted)
			present = &policyContent{}
		}
		present.unjudged = found.unjudged
	}
	present.change(tx, wanted)
	if tx.NumOperations() > 0 {
		if err := t.nft.Run(ctx, tx); err != nil {
			return false, fmt.Errorf("apply network policies: %w", err)
		}
	}
	t.applied = wanted
	return tx.NumOperations() > 0, nil
}

// policyInventory is what a look at the table found.
type policyInventory struct {
	chains, sets, maps []string
	unjudged           []string
}

func (t *PolicyTable) inspect(ctx context.Context) (policyInventory, error) {
	var found policyInventory
	objects, err := t.nft.ListAll(ctx)
	if knftables.IsNotFound(err) {
		return found, nil
	}
	if err != nil {
		return found, fmt.Errorf("list network policies: %w", err)
	}
	found.chains, found.sets, found.maps = objects["chain"], objects["set"], objects["map"]
	if !slices.Contains(found.sets, setUnjudged) {
		return found, nil
	}
	elements, err := t.nft.ListElements(ctx, "set", setUnjudged)
	if err != nil && !knftables.IsNotFound(err) {
		return found, fmt.Errorf("list closed pods: %w", err)
	}
	for _, element := range elements {
		found.unjudged = append(found.unjudged, element.Key[0])
	}
	return found, nil
}

// whole tells whether all chains are there that were written.
func (f policyInventory) whole(written *policyContent) bool {
	for name := range written.chains {
		if !slices.Contains(f.chains, name) {
			return false
		}
	}
	return slices.Contains(f.chains, chainPolicyForwardIn)
}

// clear empties the table of everything that changes, and removes what is not
// wanted any more. All of it happens in the transaction that writes it anew.
func (f policyInventory) clear(tx *knftables.Transaction, wanted *policyContent) {
	for _, name := range f.maps {
		tx.Flush(&knftables.Map{Name: name})
	}
	stale := slices.DeleteFunc(slices.Clone(f.chains), func(name string) bool {
		_, stays := wanted.chains[name]
		return stays || !isPolicyChain(name)
	})
	for _, name := range f.chains {
		if isPolicyChain(name) {
			tx.Flush(&knftables.Chain{Name: name})
		}
	}
	for _, name := range stale {
		tx.Delete(&knftables.Chain{Name: name})
	}
	for _, name := range f.sets {
		if name == setUnjudged {
			continue
		}
		tx.Flush(&knftables.Set{Name: name})
		if _, stays := wanted.holders[name]; !stays {
			tx.Delete(&knftables.Set{Name: name})
		}
	}
}

func isPolicyChain(name string) bool {
	return strings.HasPrefix(name, chainEgressSide+"-po") || strings.HasPrefix(name, chainIngressSide+"-po")
}

// change writes the difference between what is there and what is wanted: first
// what can be referred to, then who refers to it, then what nobody refers to any
// more.
func (c *policyContent) change(tx *knftables.Transaction, wanted *policyContent) {
	for name, holder := range wanted.holders {
		if _, exists := c.holders[name]; !exists {
			tx.Add(holder.object(name))
		}
	}
	for name, chain := range wanted.chains {
		if _, exists := c.chains[name]; !exists || !slices.Equal(c.chains[name].rules, chain.rules) {
			tx.Add(&knftables.Chain{Name: name})
		}
	}
	for name, chain := range wanted.chains {
		before, exists := c.chains[name]
		if exists && slices.Equal(before.rules, chain.rules) {
			continue
		}
		if exists {
			tx.Flush(&knftables.Chain{Name: name})
		}
		for _, rule := range chain.rules {
			comment := chain.comment[:min(len(chain.comment), maxComment)]
			tx.Add(&knftables.Rule{Chain: name, Rule: rule, Comment: &comment})
		}
	}
	for name, holder := range wanted.holders {
		c.holders[name].change(tx, name, holder)
	}
	c.judge(tx, wanted)
	for name := range c.chains {
		if _, stays := wanted.chains[name]; !stays {
			tx.Flush(&knftables.Chain{Name: name})
		}
	}
	for name := range c.chains {
		if _, stays := wanted.chains[name]; !stays {
			tx.Delete(&knftables.Chain{Name: name})
		}
	}
	for name, holder := range c.holders {
		if _, stays := wanted.holders[name]; !stays {
			tx.Delete(holder.object(name))
		}
	}
}

func (h policyHolder) change(tx *knftables.Transaction, name string, wanted policyHolder) {
	for key, value := range h.elements {
		if now, stays := wanted.elements[key]; !stays || now != value {
			tx.Delete(h.element(name, key))
		}
	}
	for key, value := range wanted.elements {
		if before, exists := h.elements[key]; !exists || before != value {
			tx.Add(wanted.element(name, key))
		}
	}
}

// judge leaves those addresses closed that nobody knows the policies of.
func (c *policyContent) judge(tx *knftables.Transaction, wanted *policyContent) {
	for _, addr := range wanted.unjudged {
		if !slices.Contains(c.unjudged, addr) {
			tx.Add(&knftables.Element{Set: setUnjudged, Key: []string{addr}})
		}
	}
	for _, addr := range c.unjudged {
		if !slices.Contains(wanted.unjudged, addr) {
			tx.Delete(&knftables.Element{Set: setUnjudged, Key: []string{addr}})
		}
	}
}
