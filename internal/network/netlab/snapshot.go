package netlab

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Snapshot describes interfaces, addresses, routes and firewall rules of the
// namespace, for comparing.
func (n *Namespace) Snapshot() string {
	n.t.Helper()
	var lines []string
	n.Do(func() error {
		links, err := netlink.LinkList()
		if err != nil {
			return err
		}
		for _, link := range links {
			lines = append(lines, fmt.Sprintf("link %s %s", link.Attrs().Name, link.Type()))
		}
		addrs, err := netlink.AddrList(nil, netlink.FAMILY_V4)
		if err != nil {
			return err
		}
		for _, addr := range addrs {
			lines = append(lines, fmt.Sprintf("address %s", addr.IPNet))
		}
		routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		if err != nil {
			return err
		}
		for _, route := range routes {
			lines = append(lines, fmt.Sprintf("route %s", route))
		}
		rules, err := exec.Command("nft", "list", "ruleset").CombinedOutput()
		lines = append(lines, strings.Split(string(rules), "\n")...)
		return err
	})
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Nft loads nftables rules.
func (n *Namespace) Nft(rules string) {
	n.t.Helper()
	n.Do(func() error {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader(rules)
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("nft: %w: %s", err, output)
		}
		return nil
	})
}
