package linux

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// WatchRoutes calls changed when the watch begins and whenever interfaces,
// addresses or routes changed that the node's routes may depend on, or a pod's
// interface went away. It returns when ctx ends or the watch breaks.
func (d *Dataplane) WatchRoutes(ctx context.Context, changed func()) error {
	groups := []uint{unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV4_ROUTE}
	return watch(ctx, unix.NETLINK_ROUTE, groups, changed, d.concernsRoutes)
}

// WatchFirewall calls lost when the watch begins and whenever the instance's
// table was deleted, as `nft flush ruleset` does.
func (d *Dataplane) WatchFirewall(ctx context.Context, lost func()) error {
	return watch(ctx, unix.NETLINK_NETFILTER, []uint{unix.NFNLGRP_NFTABLES}, lost, d.deletesTable)
}

func watch(ctx context.Context, protocol int, groups []uint, notify func(), concerns func(syscall.NetlinkMessage) bool) error {
	socket, err := nl.Subscribe(protocol, groups...)
	if err != nil {
		return fmt.Errorf("subscribe to kernel events: %w", err)
	}
	stop := context.AfterFunc(ctx, socket.Close)
	defer func() {
		if stop() {
			socket.Close()
		}
	}()
	notify()
	for {
		messages, _, err := socket.Receive()
		switch {
		case errors.Is(err, unix.ENOBUFS):
			// Events were lost, and with them what they would have told.
			notify()
			continue
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, os.ErrClosed) || ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return fmt.Errorf("receive kernel events: %w", err)
		}
		for _, message := range messages {
			if concerns(message) {
				notify()
				break
			}
		}
	}
}

// concernsRoutes leaves out what the plugin and this package do all day: it
// would only wake the daemon to find everything as it should be.
func (d *Dataplane) concernsRoutes(m syscall.NetlinkMessage) bool {
	switch m.Header.Type {
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		link, err := netlink.LinkDeserialize((*unix.NlMsghdr)(&m.Header), m.Data)
		return err != nil || m.Header.Type == unix.RTM_DELLINK ||
			!strings.HasPrefix(link.Attrs().Name, d.vethPrefix()) || goesDown(m)
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		return true
	case unix.RTM_NEWROUTE, unix.RTM_DELROUTE:
		if len(m.Data) < unix.SizeofRtMsg {
			return true
		}
		route := nl.DeserializeRtMsg(m.Data)
		switch route.Protocol {
		case unix.RTPROT_KERNEL:
			return false
		case routeProtocol:
			return m.Header.Type == unix.RTM_DELROUTE
		default:
			return true
		}
	}
	return false
}

// goesDown tells the event of an interface that was set down from that of a new
// one, which is not up yet: of a new one everything has changed.
func goesDown(m syscall.NetlinkMessage) bool {
	const everything = ^uint32(0)
	info := nl.DeserializeIfInfomsg(m.Data)
	return info.Change != everything && info.Change&unix.IFF_UP != 0 && info.Flags&unix.IFF_UP == 0
}

func (d *Dataplane) deletesTable(m syscall.NetlinkMessage) bool {
	return m.Header.Type == unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_DELTABLE && namesTable(m, d.Table())
}
