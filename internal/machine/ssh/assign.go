package ssh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"plasmacloud.io/plasmacloud/internal/machine"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// errGone is a host that the account no longer has.
var errGone = errors.New("the host is no longer in the account's inventory")

// assign gives a machine a host that is free, and was not tried before. machine.ErrNoCapacity: there is none.
func (d *Driver) assign(ctx context.Context, l *lease, tried map[string]error) (*lease, error) {
	hosts, err := d.Inventory.Hosts(ctx, l.Account)
	if err != nil {
		return nil, err
	}
	tenancies, err := d.tenancies(ctx)
	if err != nil {
		return nil, err
	}
	host, err := d.take(ctx, l, hosts, tenancies, tried)
	if err != nil {
		return nil, err
	}
	found, err := d.changeLease(ctx, l.Spec.Key, l.ID, func(l *lease) {
		if l.Host == "" {
			l.Host, l.Address, l.Message = host.ID(), host.Access.Address, "the host is verified"
		}
	})
	switch {
	case errors.Is(err, machine.ErrNotFound): // it was deleted at the same time
		return nil, errors.Join(err, d.release(ctx, host.ID(), l.ID, nil))
	case err == nil && found.Host != host.ID(): // somebody else has found it a host at the same time
		return found, d.release(ctx, host.ID(), l.ID, nil)
	}
	return found, err
}

// take makes a machine the holder of one of the hosts.
func (d *Driver) take(ctx context.Context, l *lease, hosts []Host, tenancies map[string]*tenancy, tried map[string]error) (Host, error) {
	var free []Host
	taken := 0
	for _, host := range hosts {
		t := tenancies[host.ID()]
		switch {
		case t != nil && t.HolderID == l.ID && tried[host.ID()] == nil:
			return host, nil // it was found before a crash
		case t != nil && t.HolderID != "" && d.holds(ctx, t):
			taken++
		case tried[host.ID()] == nil && (d.Fits == nil || d.Fits(l.Spec, host)):
			free = append(free, host)
		}
	}
	problem := func(h Host) time.Time {
		if t := tenancies[h.ID()]; t != nil {
			return t.ProblemAt
		}
		return time.Time{}
	}
	slices.SortStableFunc(free, func(a, b Host) int { return problem(a).Compare(problem(b)) })
	for _, host := range free {
		t := tenancies[host.ID()]
		if t == nil {
			t = &tenancy{Host: host.ID()}
		}
		t.Holder, t.HolderID = l.Spec.Key, l.ID
		err := d.putTenancy(ctx, t)
		if err == nil {
			return host, nil
		}
		if !errors.Is(err, ErrStale) {
			return Host{}, err
		}
		taken++
	}
	return Host{}, fmt.Errorf("%w: of the %d hosts of account %s, %d are leased%s",
		machine.ErrNoCapacity, len(hosts), l.Account.Name, taken, listed(tried))
}

// holds tells whether the machine still exists that has a host. Its record is written before it gets one, and removed
// after that was given back; so without a record, a process died in between.
func (d *Driver) holds(ctx context.Context, t *tenancy) bool {
	l, err := d.getLease(ctx, t.Holder)
	return err == nil && l.ID == t.HolderID || err != nil && !errors.Is(err, machine.ErrNotFound)
}

// listed are the problems of hosts, for people.
func listed(tried map[string]error) string {
	var text strings.Builder
	for _, err := range tried {
		text.WriteString("; " + err.Error())
	}
	return text.String()
}

func (d *Driver) tenancies(ctx context.Context) (map[string]*tenancy, error) {
	records, err := d.records.List(ctx, KindHost)
	if err != nil {
		return nil, err
	}
	tenancies := map[string]*tenancy{}
	for _, record := range records {
		t := &tenancy{version: record.Version}
		if err := json.Unmarshal(record.Content, t); err != nil {
			return nil, fmt.Errorf("read record %s: %w", record.Name, err)
		}
		tenancies[t.Host] = t
	}
	return tenancies, nil
}

// release makes a host free that a machine has, and notes why it could not be used, where that is so.
func (d *Driver) release(ctx context.Context, host, id string, problem error) error {
	return d.changeTenancy(ctx, host, func(t *tenancy) bool {
		if t.HolderID != id {
			return false
		}
		t.Holder, t.HolderID = machine.Key{}, ""
		t.Problem, t.ProblemAt = "", time.Time{}
		if problem != nil {
			t.Problem, t.ProblemAt = problem.Error(), d.Clock.Now()
		}
		return true
	})
}

// forget makes all hosts free that a machine has, and then removes its record.
func (d *Driver) forget(ctx context.Context, l *lease) error {
	tenancies, err := d.tenancies(ctx)
	if err != nil {
		return err
	}
	for host, t := range tenancies {
		if t.HolderID != l.ID {
			continue
		}
		if err := d.release(ctx, host, l.ID, nil); err != nil {
			return err
		}
	}
	for {
		err := d.removeLease(ctx, l)
		if !errors.Is(err, ErrStale) {
			return err
		}
		now, err := d.getLease(ctx, l.Spec.Key)
		if errors.Is(err, machine.ErrNotFound) || err == nil && now.ID != l.ID {
			return nil
		}
		if err != nil {
			return err
		}
		l = now
	}
}

// hostOf is the host that a machine has; errGone where the account no longer has it.
func (d *Driver) hostOf(ctx context.Context, l *lease) (Host, error) {
	hosts, err := d.Inventory.Hosts(ctx, l.Account)
	if err != nil {
		return Host{}, err
	}
	for _, host := range hosts {
		if host.ID() == l.Host {
			return host, nil
		}
	}
	return Host{}, fmt.Errorf("host %s: %w", l.Host, errGone)
}

// client returns a host to work on. Where keys are trusted at first use, what was seen then is pinned.
func (d *Driver) client(ctx context.Context, host Host) (*remote.Client, error) {
	access, err := d.pinned(ctx, host.Access, host.TrustOnFirstUse)
	if err != nil {
		return nil, err
	}
	return d.Pool.Client(access), nil
}

func (d *Driver) pinned(ctx context.Context, access remote.Host, trust bool) (remote.Host, error) {
	id := identify(access)
	if access.Bastion != nil {
		bastion, err := d.pinned(ctx, *access.Bastion, trust)
		if err != nil {
			return access, err
		}
		access.Bastion = &bastion
	}
	if access.HostKey != "" || !trust {
		return access, nil
	}
	t, err := d.getTenancy(ctx, id)
	if err != nil {
		return access, err
	}
	access.HostKey = t.HostKey
	access.Trust = func(ctx context.Context, key string) error { return d.pin(ctx, id, key) }
	return access, nil
}

// pin writes the key of a host down, unless another is written there already.
func (d *Driver) pin(ctx context.Context, host, key string) error {
	var other bool
	err := d.changeTenancy(ctx, host, func(t *tenancy) bool {
		other = t.HostKey != "" && t.HostKey != key
		if t.HostKey != "" {
			return false
		}
		t.HostKey = key
		return true
	})
	if err == nil && other {
		return fmt.Errorf("%w: another was seen at the first contact", remote.ErrHostKeyChanged)
	}
	return err
}
