// Package fake is a machine driver that keeps its machines in memory. They come up and go after a while, fail when they
// are told to, and are limited in number, as machines are elsewhere. It is for tests of what uses machines.
package fake

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/machine"
)

// Config is how the machines behave.
type Config struct {
	// BootTime is how long a machine is Pending, DeleteTime how long it is Deleting.
	BootTime, DeleteTime time.Duration
	// Capacity is how many machines there can be at once; any number where it is zero.
	Capacity int
}

// Driver is a machine.Driver.
type Driver struct {
	clock  clock.PassiveClock
	config Config

	mu       sync.Mutex
	machines map[machine.Key]*entry
	failures map[machine.Key]string
	made     int // counts machines, for their IDs and addresses
}

type entry struct {
	spec    machine.Spec
	id      string
	address string
	ready   time.Time // when it runs
	gone    time.Time // when its deletion ends; zero before that begins
	failed  string
}

var _ machine.Driver = (*Driver)(nil)

// New returns a driver without machines.
func New(clk clock.PassiveClock, config Config) *Driver {
	return &Driver{clock: clk, config: config, machines: map[machine.Key]*entry{}, failures: map[machine.Key]string{}}
}

// FailNext lets the next machine of that key fail instead of running.
func (d *Driver) FailNext(key machine.Key, message string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failures[key] = message
}

// Create implements machine.Driver.
func (d *Driver) Create(ctx context.Context, spec machine.Spec) (*machine.Machine, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bury()
	if e := d.machines[spec.Key]; e != nil {
		if !e.gone.IsZero() {
			return nil, fmt.Errorf("create machine %s: %w: the old one is being deleted", spec.Key, machine.ErrConflict)
		}
		if !equality.Semantic.DeepEqual(e.spec, spec) {
			return nil, fmt.Errorf("create machine %s: %w", spec.Key, machine.ErrConflict)
		}
		return d.show(e), nil
	}
	if d.config.Capacity > 0 && len(d.machines) >= d.config.Capacity {
		return nil, fmt.Errorf("create machine %s: %w: there are %d machines", spec.Key, machine.ErrNoCapacity, len(d.machines))
	}
	d.made++
	e := &entry{
		spec: spec, id: fmt.Sprintf("fake-%06d", d.made), address: address(d.made),
		ready: d.clock.Now().Add(d.config.BootTime), failed: d.failures[spec.Key],
	}
	delete(d.failures, spec.Key)
	d.machines[spec.Key] = e
	return d.show(e), nil
}

// address returns the n-th private address; nobody answers there.
func address(n int) string {
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}).String()
}

// Get implements machine.Driver.
func (d *Driver) Get(ctx context.Context, key machine.Key) (*machine.Machine, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bury()
	e := d.machines[key]
	if e == nil {
		return nil, fmt.Errorf("get machine %s: %w", key, machine.ErrNotFound)
	}
	return d.show(e), nil
}

// List implements machine.Driver.
func (d *Driver) List(ctx context.Context, filter machine.Filter) ([]machine.Machine, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.bury()
	var machines []machine.Machine
	for key, e := range d.machines {
		if filter.Matches(key) {
			machines = append(machines, *d.show(e))
		}
	}
	slices.SortFunc(machines, func(a, b machine.Machine) int { return a.Key.Compare(b.Key) })
	return machines, nil
}

// Delete implements machine.Driver.
func (d *Driver) Delete(ctx context.Context, key machine.Key) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if e := d.machines[key]; e != nil && e.gone.IsZero() {
		e.gone = d.clock.Now().Add(d.config.DeleteTime)
	}
	return nil
}

// bury forgets machines whose deletion has ended.
func (d *Driver) bury() {
	for key, e := range d.machines {
		if !e.gone.IsZero() && !d.clock.Now().Before(e.gone) {
			delete(d.machines, key)
		}
	}
}

func (d *Driver) show(e *entry) *machine.Machine {
	m := &machine.Machine{Key: e.spec.Key, ID: e.id}
	switch {
	case !e.gone.IsZero():
		m.State, m.Address = machine.StateDeleting, e.address
	case d.clock.Now().Before(e.ready):
		m.State, m.Message = machine.StatePending, "it boots"
	case e.failed != "":
		m.State, m.Message = machine.StateFailed, e.failed
	default:
		m.State, m.Address = machine.StateRunning, e.address
	}
	return m
}
