package netlab

import (
	"fmt"
	"net"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
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
		names := map[int]string{}
		for _, link := range links {
			names[link.Attrs().Index] = link.Attrs().Name
			lines = append(lines, fmt.Sprintf("link %s %s up=%v", link.Attrs().Name, link.Type(), link.Attrs().Flags&net.FlagUp != 0))
		}
		addrs, err := netlink.AddrList(nil, netlink.FAMILY_V4)
		if err != nil {
			return err
		}
		for _, addr := range addrs {
			lines = append(lines, fmt.Sprintf("address %s dev %s", addr.IPNet, names[addr.LinkIndex]))
		}
		routes, err := netlink.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Table: unix.RT_TABLE_UNSPEC}, netlink.RT_FILTER_TABLE)
		if err != nil {
			return err
		}
		for _, route := range routes {
			lines = append(lines, fmt.Sprintf("route %s via %v dev %s src %v type %d table %d mtu %d",
				route.Dst, route.Gw, names[route.LinkIndex], route.Src, route.Type, route.Table, route.MTU))
		}
		rules, err := exec.Command("nft", "list", "ruleset").CombinedOutput()
		lines = append(lines, strings.Split(string(rules), "\n")...)
		return err
	})
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// Difference shows what is in one snapshot only; empty if they are the same.
func Difference(before, after string) string {
	was, is := strings.Split(before, "\n"), strings.Split(after, "\n")
	var lines []string
	for _, line := range was {
		if i := slices.Index(is, line); i >= 0 {
			is = slices.Delete(is, i, i+1)
		} else {
			lines = append(lines, "- "+line)
		}
	}
	for _, line := range is {
		lines = append(lines, "+ "+line)
	}
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

// Events begins to listen for changes of interfaces, addresses and routes. The
// returned function counts them until none came for a while.
func (n *Namespace) Events() (count func(quiet time.Duration) int) {
	n.t.Helper()
	var socket *nl.NetlinkSocket
	n.Do(func() (err error) {
		socket, err = nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE)
		return err
	})
	n.t.Cleanup(socket.Close)
	return func(quiet time.Duration) int {
		if err := socket.SetReceiveTimeout(&unix.Timeval{Usec: quiet.Microseconds()}); err != nil {
			n.t.Fatal(err)
		}
		for seen := 0; ; seen++ {
			if _, _, err := socket.Receive(); err != nil {
				return seen
			}
		}
	}
}
