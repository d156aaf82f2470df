package linux

import (
	"errors"
	"fmt"
	"net"
	"slices"

	"github.com/vishvananda/netlink"
)

// Check compares a pod's interface with what it should be and returns all
// differences.
func (d *Dataplane) Check(a Attachment) error {
	return errors.Join(d.checkHost(a), d.checkPod(a))
}

func (d *Dataplane) checkHost(a Attachment) error {
	name := d.HostInterface(a.Key)
	link, err := netlink.LinkByName(name)
	if err != nil {
		return fmt.Errorf("find interface %s: %w", name, err)
	}
	var problems []error
	if link.Attrs().Flags&net.FlagUp == 0 {
		problems = append(problems, fmt.Errorf("interface %s is down", name))
	}
	route, err := routeTo(a.Address)
	if err != nil {
		return err
	}
	if route == nil || route.LinkIndex != link.Attrs().Index {
		problems = append(problems, fmt.Errorf("route to %s by %s is missing", a.Address, name))
	}
	return errors.Join(problems...)
}

func (d *Dataplane) checkPod(a Attachment) error {
	pod, ns, err := openPod(a.Netns)
	if err != nil {
		return err
	}
	defer pod.Close()
	defer func() { _ = ns.Close() }()

	link, err := pod.LinkByName(a.IfName)
	if err != nil {
		return fmt.Errorf("find interface %s in the pod: %w", a.IfName, err)
	}
	var problems []error
	if link.Attrs().Flags&net.FlagUp == 0 {
		problems = append(problems, fmt.Errorf("interface %s in the pod is down", a.IfName))
	}
	addrs, err := dump(func() ([]netlink.Addr, error) { return pod.AddrList(link, netlink.FAMILY_V4) })
	if err != nil {
		return fmt.Errorf("list addresses in the pod: %w", err)
	}
	if !slices.ContainsFunc(addrs, func(addr netlink.Addr) bool {
		return addr.IPNet.String() == hostNet(a.Address).String()
	}) {
		problems = append(problems, fmt.Errorf("address %s is missing in the pod", a.Address))
	}
	routes, err := dump(func() ([]netlink.Route, error) { return pod.RouteList(link, netlink.FAMILY_V4) })
	if err != nil {
		return fmt.Errorf("list routes in the pod: %w", err)
	}
	for _, want := range podRoutes(link.Attrs().Index) {
		if !slices.ContainsFunc(routes, func(got netlink.Route) bool {
			return sameNet(got.Dst, want.Dst) && got.Gw.Equal(want.Gw)
		}) {
			problems = append(problems, fmt.Errorf("route to %s is missing in the pod", want.Dst))
		}
	}
	return errors.Join(problems...)
}

func sameNet(a, b *net.IPNet) bool {
	p, okP := prefixOf(a)
	q, okQ := prefixOf(b)
	return okP == okQ && p == q
}
