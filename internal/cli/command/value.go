package command

import (
	"net/netip"

	"plasmacloud.io/plasmacloud/internal/cli/exit"
)

// CIDR checks a range of addresses that a flag was given.
func CIDR(flag, text string) (string, error) {
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return "", exit.Usagef("--%s: %q is no range of addresses; it looks like 10.0.0.0/16", flag, text)
	}
	if prefix != prefix.Masked() {
		return "", exit.Usagef("--%s: %s has bits of a host set; did you mean %s?", flag, text, prefix.Masked())
	}
	return text, nil
}

// OneOf checks a word that a flag was given, in whatever case.
func OneOf(flag, text string, allowed ...string) (string, error) {
	var word string
	if err := (&choice{target: &word, allowed: allowed}).Set(text); err != nil {
		return "", exit.Usagef("--%s: %w", flag, err)
	}
	return word, nil
}
