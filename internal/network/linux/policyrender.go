package linux

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/knftables"
)

// maxComment is what nft takes.
const maxComment = 127

// policyContent is the changing part of the policy table, in nft's words.
type policyContent struct {
	// holders are sets and maps by name.
	holders map[string]policyHolder
	chains  map[string]policyChain
	// unjudged are closed addresses. The plugin adds to them.
	unjudged []string
}

// policyHolder is a set, or a map where its elements have values.
type policyHolder struct {
	kind     string
	isMap    bool
	elements map[string]string
}

type policyChain struct {
	rules   []string
	comment string
}

func (h policyHolder) object(name string) knftables.Object {
	if h.isMap {
		return &knftables.Map{Name: name, Type: h.kind}
	}
	return &knftables.Set{Name: name, Type: h.kind}
}

func (h policyHolder) element(name, key string) *knftables.Element {
	element := &knftables.Element{Key: strings.Split(key, " . ")}
	if h.isMap {
		element.Map, element.Value = name, []string{h.elements[key]}
	} else {
		element.Set = name
	}
	return element
}

// renderPolicies turns rules into what the table holds; pods with the same
// policies share a chain.
func renderPolicies(rules PolicyRules) *policyContent {
	content := &policyContent{
		holders: map[string]policyHolder{setSelf: {kind: typePair, elements: map[string]string{}}},
		chains:  map[string]policyChain{},
	}
	for _, addr := range rules.Unjudged {
		content.unjudged = append(content.unjudged, addr.String())
	}
	for name, addrs := range rules.Pods {
		elements := make(map[string]string, len(addrs))
		for _, addr := range addrs {
			elements[addr.String()] = ""
		}
		content.holders[podSet(name)] = policyHolder{kind: typeAddress, elements: elements}
	}
	for name, ports := range rules.Ports {
		elements := make(map[string]string, len(ports))
		for _, port := range ports {
			elements[fmt.Sprintf("%s . %s . %d", port.Address, port.Protocol, port.Port)] = ""
		}
		content.holders[portSet(name)] = policyHolder{kind: typePort, elements: elements}
	}
	content.side(rules.Egress, chainEgressSide, mapEgress, "ip daddr")
	content.side(rules.Ingress, chainIngressSide, mapIngress, "ip saddr")
	return content
}

func podSet(name string) string  { return "pods-" + digest(name) }
func portSet(name string) string { return "ports-" + digest(name) }

func (c *policyContent) side(side PolicySide, prefix, pods, peer string) {
	policyChainName := func(policy string) string { return prefix + "-policy-" + digest(policy) }
	for name, rules := range side.Policies {
		var lines []string
		for _, rule := range rules {
			lines = append(lines, rule.render(peer)...)
		}
		c.chains[policyChainName(name)] = policyChain{rules: lines, comment: name}
	}
	verdicts := make(map[string]string, len(side.Pods))
	for addr, policies := range side.Pods {
		policies = slices.Sorted(slices.Values(policies))
		name := prefix + "-pods-" + digest(strings.Join(policies, "\n"))
		verdicts[addr.String()] = "goto " + name
		c.holders[setSelf].elements[addr.String()+" . "+addr.String()] = ""
		if _, done := c.chains[name]; done {
			continue
		}
		var lines []string
		for _, policy := range policies {
			lines = append(lines, "jump "+policyChainName(policy))
		}
		c.chains[name] = policyChain{rules: append(lines, "counter drop"), comment: strings.Join(policies, " ")}
	}
	c.holders[pods] = policyHolder{kind: typeVerdict, isMap: true, elements: verdicts}
}

// render writes one line for each way in which ports are matched.
func (r PolicyRule) render(peer string) []string {
	who := r.renderPeer(peer)
	if len(r.Ports) == 0 && r.NamedPorts == "" {
		return []string{knftables.Concat(who, "accept")}
	}
	var lines []string
	numbers := map[string][]string{}
	for _, port := range r.Ports {
		switch {
		case port == AllPorts(port.Protocol):
			lines = append(lines, knftables.Concat(who, "meta l4proto", port.Protocol, "accept"))
		case port.First == port.Last:
			numbers[port.Protocol] = append(numbers[port.Protocol], fmt.Sprint(port.First))
		default:
			numbers[port.Protocol] = append(numbers[port.Protocol], fmt.Sprintf("%d-%d", port.First, port.Last))
		}
	}
	for _, protocol := range slices.Sorted(maps.Keys(numbers)) {
		lines = append(lines, knftables.Concat(who, protocol, "dport {", strings.Join(numbers[protocol], ", "), "} accept"))
	}
	if r.NamedPorts != "" {
		lines = append(lines, knftables.Concat(who, "ip daddr . meta l4proto . th dport @"+portSet(r.NamedPorts), "accept"))
	}
	return lines
}

func (r PolicyRule) renderPeer(peer string) string {
	switch {
	case r.Set != "":
		return knftables.Concat(peer, "@"+podSet(r.Set))
	case !r.Block.IsValid():
		return ""
	case len(r.Except) == 0:
		return knftables.Concat(peer, r.Block.String())
	default:
		return knftables.Concat(peer, r.Block.String(), peer, "!= {", joinPrefixes(r.Except), "}")
	}
}

func joinPrefixes(prefixes []netip.Prefix) string {
	texts := make([]string, len(prefixes))
	for i, prefix := range prefixes {
		texts[i] = prefix.String()
	}
	return strings.Join(texts, ", ")
}
