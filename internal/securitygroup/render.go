package securitygroup

import (
	"fmt"
	"net/netip"
	"strings"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// table is what the ruleset is in. Tables whose names begin so are ours, also to whoever gives a machine back.
const table = "plasmacloud-sg"

// Render returns a policy as a file for nft, which replaces, in one transaction, whatever there was of a policy before.
func Render(policy Policy) ([]byte, error) {
	chain, err := policy.machine()
	if err != nil {
		return nil, fmt.Errorf("render security group %s: %w", policy.Group.Name, err)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "# Security group %s. It is written by PlasmaCloud, over whatever is changed here.\n", printable(policy.Group.Name))
	// Deleting is an error where there is nothing, so there has to be something.
	fmt.Fprintf(&text, "table inet %[1]s {}\ndelete table inet %[1]s\ntable inet %[1]s {\n", table)
	// It comes before the translation of addresses (-100): ports are still those that the sender wrote.
	writeChain(&text, "inbound", []string{
		"type filter hook prerouting priority -150; policy accept;",
		"ct state established,related accept",
		`iifname "lo" accept`,
		"fib daddr type { local, broadcast, anycast, multicast } jump machine",
	})
	writeChain(&text, "machine", chain)
	text.WriteString("}\n")
	return []byte(text.String()), nil
}

func writeChain(text *strings.Builder, name string, lines []string) {
	fmt.Fprintf(text, "\tchain %s {\n\t\t%s\n\t}\n", name, strings.Join(lines, "\n\t\t"))
}

// machine are the rules for what is sent to the machine.
func (p Policy) machine() ([]string, error) {
	ssh, err := p.sshPorts()
	if err != nil {
		return nil, err
	}
	pods, err := p.prefixes()
	if err != nil {
		return nil, err
	}
	internal, err := understand(p.Internal)
	if err != nil {
		return nil, fmt.Errorf("internal %w", err)
	}
	group, err := understand(p.Group.Rules)
	if err != nil {
		return nil, err
	}
	lines := []string{
		`icmpv6 type { nd-router-solicit, nd-router-advert, nd-neighbor-solicit, nd-neighbor-advert, mld-listener-query } accept comment "neighbours"`,
		`meta nfproto ipv4 udp sport 67 udp dport 68 accept comment "DHCP"`,
		`meta nfproto ipv6 udp dport 546 accept comment "DHCP"`,
	}
	for _, ports := range ssh {
		lines = append(lines, rule{protocol: v1alpha1.ProtocolTCP, ports: ports, comment: "SSH"}.statement())
	}
	for _, prefix := range pods {
		// From where the machine would answer to: a sender elsewhere who claims to be a pod is not one.
		lines = append(lines, fmt.Sprintf(`%s fib saddr . iif oif exists accept comment "pods"`, from(prefix)))
	}
	for _, r := range append(internal, group...) {
		if r.protocol != v1alpha1.ProtocolARP { // which is not IP, and always let in
			lines = append(lines, r.statement())
		}
	}
	return append(lines, "counter drop"), nil
}

// statement is the rule in the language of nft. What is written into it are numbers, addresses and a comment without
// quotes.
func (r rule) statement() string {
	var words []string
	if r.source.IsValid() {
		words = append(words, from(r.source))
	}
	switch r.protocol {
	case v1alpha1.ProtocolTCP:
		words = append(words, "tcp dport", r.ports.String())
	case v1alpha1.ProtocolUDP:
		words = append(words, "udp dport", r.ports.String())
	case v1alpha1.ProtocolICMP:
		words = append(words, "meta l4proto { icmp, ipv6-icmp }")
	}
	words = append(words, "accept")
	if r.comment != "" {
		words = append(words, fmt.Sprintf("comment %q", r.comment))
	}
	return strings.Join(words, " ")
}

func from(source netip.Prefix) string {
	family, name := "ipv4", "ip"
	if source.Addr().Is6() {
		family, name = "ipv6", "ip6"
	}
	if source.Bits() == 0 {
		return "meta nfproto " + family
	}
	return fmt.Sprintf("%s saddr %s", name, source)
}
