package linux

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"plasmacloud.io/plasmacloud/internal/network/ipam"
)

// Keep decides whether a lease stays.
type Keep func(ipam.Lease) (bool, error)

// survey is what has to go.
type survey struct {
	dropped []ipam.Lease
	orphans []netlink.Link
}

// HasGarbage looks without the lock whether Collect would find anything. Only
// Collect, with the lock, can be sure.
func (d *Dataplane) HasGarbage(store *ipam.Store, keep Keep) (bool, error) {
	s, err := d.survey(store.Leases, keep)
	return len(s.dropped)+len(s.orphans) > 0, err
}

// Collect removes the leases that are not kept, and interfaces, host ports and
// addresses that no kept lease speaks for. It returns the leases it removed.
func (d *Dataplane) Collect(ctx context.Context, session *ipam.Session, keep Keep) ([]ipam.Lease, error) {
	s, err := d.survey(session.Leases, keep)
	if err != nil {
		return nil, err
	}
	for _, link := range s.orphans {
		if err := deleteExisting(link); err != nil {
			return nil, err
		}
	}
	return s.dropped, d.Release(ctx, session, s.dropped...)
}

// Release ends leases: their host ports first, so that a caller who dies on the
// way finds the leases again and goes on.
func (d *Dataplane) Release(ctx context.Context, session *ipam.Session, leases ...ipam.Lease) error {
	if slices.ContainsFunc(leases, hasHostPorts) {
		all, err := session.Leases()
		if err != nil {
			return err
		}
		remaining := slices.DeleteFunc(all, func(lease ipam.Lease) bool {
			return slices.ContainsFunc(leases, func(l ipam.Lease) bool { return l.Address == lease.Address })
		})
		firewall, err := d.Firewall()
		if err != nil {
			return err
		}
		if err := firewall.SyncHostPorts(ctx, remaining); err != nil {
			return err
		}
	}
	var problems []error
	for _, lease := range leases {
		problems = append(problems, d.ForgetFlows(lease), session.Release(lease))
	}
	return errors.Join(problems...)
}

func hasHostPorts(lease ipam.Lease) bool { return len(lease.HostPorts) > 0 }

// survey lists interfaces before leases: a lease is written before its
// interface is made and removed after it, so an interface without a lease is
// an orphan even while others attach pods.
func (d *Dataplane) survey(leases func() ([]ipam.Lease, error), keep Keep) (survey, error) {
	links, err := d.podLinks()
	if err != nil {
		return survey{}, err
	}
	all, err := leases()
	if err != nil {
		return survey{}, err
	}
	var s survey
	used := make(map[string]bool, len(all))
	for _, lease := range all {
		stays, err := keep(lease)
		if err != nil {
			return survey{}, err
		}
		if !stays {
			s.dropped = append(s.dropped, lease)
			continue
		}
		used[d.HostInterface(lease.Key)] = true
	}
	for _, link := range links {
		if !used[link.Attrs().Name] {
			s.orphans = append(s.orphans, link)
		}
	}
	return s, nil
}

// podLinks lists the node's ends of all pods' interfaces.
func (d *Dataplane) podLinks() ([]netlink.Link, error) {
	links, err := dump(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list interfaces: %w", err)
	}
	return slices.DeleteFunc(links, func(link netlink.Link) bool {
		return !strings.HasPrefix(link.Attrs().Name, d.vethPrefix())
	}), nil
}
