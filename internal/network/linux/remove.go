package linux

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/google/nftables"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Remove takes everything away that the instance ever made in the kernel; pods
// that still run lose their network. Direct routes are found by the CIDRs of
// the clusters that the node was part of. Forwarding stays on, as others may
// have come to need it.
func (d *Dataplane) Remove(ctx context.Context, clusters ...netip.Prefix) error {
	problems := []error{d.removeRules(ctx), d.removeLinks()}
	for _, cluster := range clusters {
		problems = append(problems, removeRoutes(cluster))
	}
	return errors.Join(append(problems, d.removeLastGateway())...)
}

func (d *Dataplane) removeRules(ctx context.Context) error {
	firewall, err := d.Firewall()
	if err != nil {
		return err
	}
	exemption, err := d.ForwardExemption()
	if err != nil {
		return err
	}
	policies, err := d.PolicyTable()
	if err != nil {
		return err
	}
	return errors.Join(firewall.Delete(ctx), exemption.Delete(ctx), policies.Delete(ctx))
}

func (d *Dataplane) removeLinks() error {
	links, err := d.podLinks()
	if err != nil {
		return err
	}
	problems := []error{deleteLink(d.VXLAN())}
	for _, link := range links {
		problems = append(problems, deleteExisting(link))
	}
	return errors.Join(problems...)
}

func removeRoutes(cluster netip.Prefix) error {
	if !cluster.IsValid() {
		return nil
	}
	routes, err := ownRoutes(cluster)
	if err != nil {
		return err
	}
	var problems []error
	for _, route := range routes {
		if err := netlink.RouteDel(&route); err != nil && !errors.Is(err, unix.ESRCH) {
			problems = append(problems, fmt.Errorf("delete route to %s: %w", route.Dst, err))
		}
	}
	return errors.Join(problems...)
}

// removeLastGateway leaves the gateway's address to other instances on this
// node, which show by their tables.
func (d *Dataplane) removeLastGateway() error {
	conn, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	tables, err := conn.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return fmt.Errorf("list nftables tables: %w", err)
	}
	for _, table := range tables {
		if strings.HasPrefix(table.Name, tablePrefix) && table.Name != d.Table() {
			return nil
		}
	}
	return removeGateway()
}
