package ssh

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"plasmacloud.io/plasmacloud/internal/machine"
)

// Occupancy is who has a host of an inventory.
type Occupancy struct {
	Host Host
	// Holder is the machine that has it; empty where it is free.
	Holder machine.Key
	// HostKey is the public key that the host has to show, or has shown at the first contact.
	HostKey string
	// Problem is why it could not be used the last time.
	Problem string
}

// Occupancy tells who has the hosts of an account, in the order of its inventory. What was left lying on the way is taken
// up again: a machine whose owner was forced to forget it still has to give its host back.
func (d *Driver) Occupancy(ctx context.Context, account types.NamespacedName) ([]Occupancy, error) {
	hosts, err := d.Inventory.Hosts(ctx, account)
	if err != nil {
		return nil, err
	}
	if _, err := d.List(ctx, machine.Filter{}); err != nil {
		return nil, err
	}
	tenancies, err := d.tenancies(ctx)
	if err != nil {
		return nil, fmt.Errorf("look who has the hosts of account %s: %w", account.Name, err)
	}
	occupied := make([]Occupancy, 0, len(hosts))
	for _, host := range hosts {
		o := Occupancy{Host: host, HostKey: host.Access.HostKey}
		if t := tenancies[host.ID()]; t != nil {
			o.Holder, o.Problem = t.Holder, t.Problem
			if o.HostKey == "" {
				o.HostKey = t.HostKey
			}
		}
		occupied = append(occupied, o)
	}
	return occupied, nil
}
