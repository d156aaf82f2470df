package linux

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// EnsureHost gives the node what every pod relies on: forwarding, and the
// gateway's address.
func (d *Dataplane) EnsureHost() error {
	if err := setSysctl("net/ipv4/ip_forward", "1"); err != nil {
		return err
	}
	// Setting what is set already would be an event to all who watch, the node
	// daemon included.
	ready, err := d.HostReady()
	if err != nil || ready {
		return err
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find loopback interface: %w", err)
	}
	if err := netlink.AddrReplace(lo, gatewayAddr()); err != nil {
		return fmt.Errorf("set gateway address: %w", err)
	}
	return nil
}

// HostReady tells whether the node has the gateway's address.
func (d *Dataplane) HostReady() (bool, error) {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return false, fmt.Errorf("find loopback interface: %w", err)
	}
	return hasAddress(lo, gatewayAddr())
}

// gatewayAddr is of link scope so that the kernel never takes it for the source
// of the node's own packets.
func gatewayAddr() *netlink.Addr {
	return &netlink.Addr{IPNet: hostNet(Gateway()), Scope: unix.RT_SCOPE_LINK}
}

func removeGateway() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find loopback interface: %w", err)
	}
	err = netlink.AddrDel(lo, gatewayAddr())
	if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
		return fmt.Errorf("remove gateway address: %w", err)
	}
	return nil
}

func hasAddress(link netlink.Link, want *netlink.Addr) (bool, error) {
	addrs, err := dump(func() ([]netlink.Addr, error) { return netlink.AddrList(link, netlink.FAMILY_V4) })
	if err != nil {
		return false, fmt.Errorf("list addresses of %s: %w", link.Attrs().Name, err)
	}
	for _, addr := range addrs {
		if addr.IPNet.String() == want.IPNet.String() {
			return true, nil
		}
	}
	return false, nil
}

// setSysctl writes only what differs: where /proc/sys is read-only, a value
// that is right already is no error.
func setSysctl(name, value string) error {
	path := filepath.Join("/proc/sys", name)
	current, err := os.ReadFile(path)
	if err == nil && strings.TrimSpace(string(current)) == value {
		return nil
	}
	if err := os.WriteFile(path, []byte(value), 0); err != nil {
		return fmt.Errorf("set sysctl %s=%s: %w", name, value, err)
	}
	return nil
}

// disableIPv6 keeps the kernel from giving an interface link-local addresses
// and from soliciting routers on it. A kernel without IPv6 is fine.
func disableIPv6(ifName string) error {
	err := setSysctl("net/ipv6/conf/"+ifName+"/disable_ipv6", "1")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// deleteLink deletes an interface; none of that name is fine.
func deleteLink(name string) error {
	link, err := netlink.LinkByName(name)
	if isLinkNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find interface %s: %w", name, err)
	}
	return deleteExisting(link)
}

func deleteExisting(link netlink.Link) error {
	err := netlink.LinkDel(link)
	if err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("delete interface %s: %w", link.Attrs().Name, err)
	}
	return nil
}

func isLinkNotFound(err error) bool {
	var notFound netlink.LinkNotFoundError
	return errors.As(err, &notFound)
}
