// Package ssh is the machine driver whose machines are hosts that exist already and answer SSH: those of an account's
// inventory. A machine is a lease of a host. It is verified before it is handed out, and cleaned before another gets it.
//
// Who has which host is written down twice: in records that all processes share, where no two can take the same host,
// and on the host itself, where other installations that know of it can see it, and where every command looks first.
package ssh

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/machine"
	remote "plasmacloud.io/plasmacloud/internal/ssh"
)

// Cleaner removes from a host what was made on it since it was leased, beyond what the driver knows of, such as what
// kubeadm did. It may be called again after an error, or for a host on which there is nothing. It returns nil only where
// it has seen that all is gone.
type Cleaner interface {
	Clean(ctx context.Context, host *remote.Client) error
}

// Config is what a driver works with.
type Config struct {
	Inventory Inventory
	Records   Records
	Pool      *remote.Pool
	// Cleaner may be nil.
	Cleaner Cleaner
	Clock   clock.PassiveClock
	Log     *slog.Logger
	// Architectures that there are programs for, such as amd64; any where it is empty.
	Architectures []string
	// Fits tells whether a host is one that the description asks for; every host is, where it is nil.
	Fits func(spec machine.Spec, host Host) bool
	// Heartbeat is how often a process that works on a machine says so (10 s). One that was silent six times as long is
	// taken for dead, and another takes over.
	Heartbeat time.Duration
	// PrepareTimeout and CleanTimeout bound one attempt (5 and 10 min).
	PrepareTimeout, CleanTimeout time.Duration
	// Retry is the wait before a host is cleaned again that could not be (10 s); it doubles with each, to 64 times.
	Retry time.Duration
}

// Driver is a machine.Driver. Its machines' addresses are those of the inventory, without the port, or the hosts' own where
// the inventory has their names; Reach is how to work on them.
type Driver struct {
	Config
	records Records
	id      string // of this process
	done    chan struct{}
	workers sync.WaitGroup

	mu     sync.Mutex
	busy   map[machine.Key]bool
	closed bool
}

var _ machine.Driver = (*Driver)(nil)

// New returns a driver. Close ends what it does in the background.
func New(config Config) *Driver {
	config.Heartbeat = cmp.Or(config.Heartbeat, 10*time.Second)
	config.PrepareTimeout = cmp.Or(config.PrepareTimeout, 5*time.Minute)
	config.CleanTimeout = cmp.Or(config.CleanTimeout, 10*time.Minute)
	config.Retry = cmp.Or(config.Retry, 10*time.Second)
	return &Driver{Config: config, records: config.Records, id: rand.Text(), done: make(chan struct{}), busy: map[machine.Key]bool{}}
}

// Close ends the work on machines, and waits for that. What is unfinished is taken up by another driver on the same
// records.
func (d *Driver) Close() {
	d.mu.Lock()
	if !d.closed {
		d.closed = true
		close(d.done)
	}
	d.mu.Unlock()
	d.workers.Wait()
}

// Create implements machine.Driver. Where no host is free, nothing of the machine is left.
func (d *Driver) Create(ctx context.Context, spec machine.Spec) (*machine.Machine, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	err := spec.Validate()
	if err == nil {
		err = validFiles(spec)
	}
	var l *lease
	if err == nil {
		l, err = d.create(ctx, spec)
	}
	if err != nil {
		return nil, fmt.Errorf("create machine %s: %w", spec.Key, err)
	}
	d.kick(l)
	return show(l), nil
}

// create writes the machine down, and finds it a host.
func (d *Driver) create(ctx context.Context, spec machine.Spec) (*lease, error) {
	l, err := d.getLease(ctx, spec.Key)
	if errors.Is(err, machine.ErrNotFound) {
		account, accountErr := d.Inventory.AccountOf(ctx, spec.Key)
		if accountErr != nil {
			return nil, accountErr
		}
		l = &lease{
			Spec: spec, ID: rand.Text(), Account: account, State: machine.StatePending, Message: "a host is looked for",
			Worker: d.id, Renewed: d.Clock.Now(),
		}
		if err = d.putLease(ctx, l); err == nil {
			return d.find(ctx, l)
		}
		if errors.Is(err, ErrStale) {
			l, err = d.getLease(ctx, spec.Key) // somebody who creates the same machine was first
		}
	}
	switch {
	case err != nil:
		return nil, err
	case l.State == machine.StateDeleting:
		return nil, fmt.Errorf("%w: the old one is being deleted", machine.ErrConflict)
	case !equality.Semantic.DeepEqual(l.Spec, spec):
		return nil, machine.ErrConflict
	}
	return l, nil
}

// find finds a new machine its first host.
func (d *Driver) find(ctx context.Context, l *lease) (*lease, error) {
	found, err := d.assign(ctx, l, nil)
	if err == nil {
		return found, nil
	}
	// Also where ctx has ended: who asked does not know that there is something to delete.
	undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.Heartbeat)
	defer cancel()
	if problem := d.forget(undo, l); problem != nil {
		return nil, errors.Join(err, problem)
	}
	return nil, err
}

// Get implements machine.Driver.
func (d *Driver) Get(ctx context.Context, key machine.Key) (*machine.Machine, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	l, err := d.getLease(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("get machine %s: %w", key, err)
	}
	d.kick(l)
	return show(l), nil
}

// List implements machine.Driver.
func (d *Driver) List(ctx context.Context, filter machine.Filter) ([]machine.Machine, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	records, err := d.records.List(ctx, KindMachine)
	if err != nil {
		return nil, fmt.Errorf("list machines: %w", err)
	}
	var machines []machine.Machine
	for _, record := range records {
		l, err := readLease(record)
		if err != nil {
			return nil, fmt.Errorf("list machines: %w", err)
		}
		if filter.Matches(l.Spec.Key) {
			d.kick(l)
			machines = append(machines, *show(l))
		}
	}
	slices.SortFunc(machines, func(a, b machine.Machine) int { return a.Key.Compare(b.Key) })
	return machines, nil
}

// Delete implements machine.Driver. The host is free for others when it has been cleaned. One that cannot be reached
// keeps its machine from going until it answers, or is no longer in the inventory.
func (d *Driver) Delete(ctx context.Context, key machine.Key) error {
	l, err := d.getLease(ctx, key)
	if err == nil && l.State != machine.StateDeleting {
		l, err = d.changeLease(ctx, key, l.ID, func(l *lease) {
			l.State, l.Message, l.RetryAt, l.Failures = machine.StateDeleting, "", time.Time{}, 0
		})
	}
	if errors.Is(err, machine.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete machine %s: %w", key, err)
	}
	d.kick(l)
	return nil
}

// Reach returns a running machine's host to work on. Its commands run only as long as the host is that machine.
func (d *Driver) Reach(ctx context.Context, key machine.Key) (*remote.Client, error) {
	l, err := d.getLease(ctx, key)
	if err == nil && l.State != machine.StateRunning {
		err = fmt.Errorf("it is %s: %s", l.State, l.Message)
	}
	var host Host
	if err == nil {
		host, err = d.hostOf(ctx, l)
	}
	var client *remote.Client
	if err == nil {
		client, err = d.client(ctx, host)
	}
	if err != nil {
		return nil, fmt.Errorf("reach machine %s: %w", key, err)
	}
	return client.Guarded(claimFile, l.ID), nil
}

func show(l *lease) *machine.Machine {
	m := &machine.Machine{Key: l.Spec.Key, ID: l.ID, State: l.State, Message: l.Message}
	if l.State == machine.StateRunning || l.State == machine.StateDeleting {
		m.Address = l.Address
	}
	return m
}
