package linux_test

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	"plasmacloud.io/plasmacloud/internal/network/linux"
	"plasmacloud.io/plasmacloud/internal/network/netlab"
)

// crowd is the rules of a node with pods and policies in a cluster of peers.
func crowd(pods, policies, peers int) linux.PolicyRules {
	rules := linux.PolicyRules{
		Ingress: linux.PolicySide{Pods: map[netip.Addr][]string{}, Policies: map[string][]linux.PolicyRule{}},
		Egress:  linux.PolicySide{Pods: map[netip.Addr][]string{}, Policies: map[string][]linux.PolicyRule{}},
		Pods:    map[string][]netip.Addr{}, Ports: map[string][]linux.PodPort{},
	}
	addr := netip.MustParseAddr("10.42.0.0")
	for i := range pods {
		addr = addr.Next()
		policy := fmt.Sprintf("space/policy-%d", i%policies)
		rules.Ingress.Pods[addr] = []string{policy, "space/all"}
		rules.Egress.Pods[addr] = []string{policy}
		rules.Ports[policy] = append(rules.Ports[policy], linux.PodPort{Address: addr, Protocol: "tcp", Port: 80})
	}
	rules.Ingress.Policies["space/all"] = []linux.PolicyRule{{Block: netip.MustParsePrefix("0.0.0.0/0"), Except: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12")}}}
	for i := range policies {
		policy := fmt.Sprintf("space/policy-%d", i)
		rules.Ingress.Policies[policy] = []linux.PolicyRule{{Set: policy, NamedPorts: policy, Ports: []linux.PortRange{
			linux.AllPorts("udp"), {Protocol: "tcp", First: 80, Last: 80}, {Protocol: "tcp", First: 100, Last: 200}, {Protocol: "sctp", First: 9, Last: 9},
		}}}
		rules.Pods[policy], rules.Ports[policy] = nil, append([]linux.PodPort(nil), rules.Ports[policy]...)
		rules.Egress.Policies[policy] = []linux.PolicyRule{{}, {Block: netip.MustParsePrefix("192.168.0.0/16")}}
		for j := range peers {
			rules.Pods[policy] = append(rules.Pods[policy], netip.AddrFrom4([4]byte{10, 43, byte(j >> 8), byte(j)}))
		}
	}
	return rules
}

func openTable(t testing.TB, node *netlab.Namespace) (dataplane *linux.Dataplane, table *linux.PolicyTable) {
	t.Helper()
	dataplane = linux.New(t.TempDir())
	node.Do(func() (err error) {
		table, err = dataplane.PolicyTable()
		return err
	})
	return dataplane, table
}

func sync(t testing.TB, node *netlab.Namespace, table *linux.PolicyTable, rules linux.PolicyRules, inspect bool) (changed bool) {
	t.Helper()
	node.Do(func() (err error) {
		changed, err = table.Sync(t.Context(), rules, inspect)
		return err
	})
	return changed
}

// Whatever was there before, and however the table was written, it ends up the
// same.
func TestPolicyTableFollowsItsRules(t *testing.T) {
	node := netlab.New(t)
	dataplane, table := openTable(t, node)
	states := []linux.PolicyRules{crowd(3, 2, 5), crowd(0, 1, 0), crowd(7, 3, 2), {}, crowd(2, 2, 9), crowd(2, 2, 8)}
	states[2].Unjudged = []netip.Addr{netip.MustParseAddr("10.42.0.99"), netip.MustParseAddr("10.42.0.98")}
	states[4].Unjudged = states[2].Unjudged[:1]
	for round := range 2 {
		for i, rules := range states {
			sync(t, node, table, rules, false)
			if sync(t, node, table, rules, false) || sync(t, node, table, rules, true) {
				t.Errorf("round %d: state %d is written twice", round, i)
			}
			step := node.Snapshot()
			fresh, err := dataplane.PolicyTable()
			if err != nil {
				t.Fatal(err)
			}
			sync(t, node, fresh, rules, false)
			if diff := netlab.Difference(step, node.Snapshot()); diff != "" {
				t.Errorf("round %d: state %d looks different if written at once:\n%s", round, i, diff)
			}
		}
	}
	node.Do(func() error { return table.Delete(t.Context()) })
	node.Do(func() error { return table.Delete(t.Context()) })
	if rules := node.Snapshot(); strings.Contains(rules, "prismpolicy") {
		t.Errorf("Delete leaves:\n%s", rules)
	}
}

func TestPolicyTableIsRepaired(t *testing.T) {
	node := netlab.New(t)
	dataplane, table := openTable(t, node)
	rules := crowd(3, 2, 5)
	sync(t, node, table, rules, false)
	whole := node.Snapshot()
	name := dataplane.PolicyTableName()
	for what, damage := range map[string][]string{
		"all":            {"flush", "ruleset"},
		"the table":      {"delete", "table", "inet", name},
		"an element":     {"add", "element", "inet", name, "unjudged", "{ 10.9.9.9 }"},
		"an other chain": {"add", "chain", "inet", name, "ingress-policy-mine"},
	} {
		node.Do(func() error { return exec.Command("nft", damage...).Run() })
		// A chain too many does no harm, and is found by the next process.
		if what == "an other chain" {
			_, table = openTableAgain(t, dataplane)
		}
		sync(t, node, table, rules, true)
		if diff := netlab.Difference(whole, node.Snapshot()); diff != "" {
			t.Errorf("after damage to %s:\n%s", what, diff)
		}
	}
	// A change that meets damage which nobody told of fails, and the next attempt
	// starts anew.
	node.Do(func() error { return exec.Command("nft", "flush", "ruleset").Run() })
	if err := node.Try(func() error {
		_, err := table.Sync(t.Context(), crowd(2, 1, 4), false)
		return err
	}); err == nil {
		t.Error("a table that is not there was changed")
	}
	sync(t, node, table, rules, false)
	if diff := netlab.Difference(whole, node.Snapshot()); diff != "" {
		t.Errorf("after a failure:\n%s", diff)
	}
}

func openTableAgain(t testing.TB, dataplane *linux.Dataplane) (*linux.Dataplane, *linux.PolicyTable) {
	t.Helper()
	table, err := dataplane.PolicyTable()
	if err != nil {
		t.Fatal(err)
	}
	return dataplane, table
}

func TestQuarantineNeedsNoTable(t *testing.T) {
	node := netlab.New(t)
	dataplane, table := openTable(t, node)
	for range 2 {
		for _, addr := range []string{"10.42.0.7", "10.42.0.8"} {
			node.Do(func() error { return dataplane.Quarantine(t.Context(), netip.MustParseAddr(addr)) })
		}
	}
	rules := node.Snapshot()
	if strings.Count(rules, "elements = { 10.42.0.7, 10.42.0.8 }") != 1 || strings.Count(rules, "jump ingress") != 1 {
		t.Errorf("rules are\n%s", rules)
	}
	sync(t, node, table, linux.PolicyRules{}, true)
	if rules := node.Snapshot(); strings.Contains(rules, "10.42.0.7") {
		t.Errorf("rules are\n%s", rules)
	}
}

// A node of a hundred pods in a cluster of two thousand.
func BenchmarkPolicySync(b *testing.B) {
	node := netlab.New(b)
	_, table := openTable(b, node)
	rules := crowd(100, 20, 2000)
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			node.Do(func() error { return table.Delete(b.Context()) })
			sync(b, node, table, rules, false)
		}
	})
	more := crowd(101, 20, 2000)
	b.Run("one pod", func(b *testing.B) {
		for b.Loop() {
			sync(b, node, table, more, false)
			more, rules = rules, more
		}
	})
	b.Run("nothing", func(b *testing.B) {
		for b.Loop() {
			sync(b, node, table, rules, false)
		}
	})
}
