package ssh

import (
	"context"
	"errors"
	"fmt"
	"time"

	"plasmacloud.io/plasmacloud/internal/machine"
)

// abandoned is after how many heartbeats that were left out a worker is taken for dead.
const abandoned = 6

// kick has a machine worked on in the background, where there is something to do. Nobody waits for it: whoever asks for
// the machine sees how far it is, and kicks again what was left lying.
func (d *Driver) kick(l *lease) {
	key := l.Spec.Key
	if !d.due(l) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || d.busy[key] {
		return
	}
	d.busy[key] = true
	d.workers.Go(func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			select {
			case <-d.done:
				cancel()
			case <-ctx.Done():
			}
		}()
		defer func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			delete(d.busy, key)
		}()
		d.work(ctx, key)
	})
}

// due tells whether there is something to do that nobody else does.
func (d *Driver) due(l *lease) bool {
	now := d.Clock.Now()
	switch {
	case l.State != machine.StatePending && l.State != machine.StateDeleting, l.RetryAt.After(now):
		return false
	default:
		return l.Worker == "" || l.Worker == d.id || now.Sub(l.Renewed) > abandoned*d.Heartbeat
	}
}

// work works on a machine until there is nothing more to do.
func (d *Driver) work(ctx context.Context, key machine.Key) {
	log := d.Log.With("machine", key.String())
	for ctx.Err() == nil {
		l, err := d.getLease(ctx, key)
		if err == nil && !d.due(l) {
			return
		}
		if err == nil {
			l.Worker, l.Renewed = d.id, d.Clock.Now()
			err = d.putLease(ctx, l)
		}
		switch {
		case errors.Is(err, machine.ErrNotFound):
			return
		case errors.Is(err, ErrStale):
			continue
		case err == nil:
			err = d.attend(ctx, l)
		}
		if err != nil && ctx.Err() == nil {
			log.Warn("work on a machine was interrupted", "error", err)
			return // who asks for it next begins again
		}
	}
}

// errOvertaken ends work on a machine whose state has changed, or that another process works on.
var errOvertaken = errors.New("the machine is to be dealt with otherwise")

// attend does what a machine's state asks for, and says that it does, for as long as that takes.
func (d *Driver) attend(ctx context.Context, l *lease) error {
	timeout, do := d.PrepareTimeout, d.prepare
	if l.State == machine.StateDeleting {
		timeout, do = d.CleanTimeout, d.retire
	}
	working, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limited, stop := context.WithTimeout(working, timeout)
	defer stop()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.beat(working, l, cancel)
	}()
	err := do(limited, l)
	cancel(nil)
	<-ended
	if errors.Is(context.Cause(working), errOvertaken) {
		return nil // the next round sees what is to be done now
	}
	if ctx.Err() != nil {
		d.yield(ctx, l)
	}
	return err
}

// yield lets another process take over at once what this one has no time to finish.
func (d *Driver) yield(ctx context.Context, l *lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, err := d.changeLease(ctx, l.Spec.Key, l.ID, func(now *lease) {
		if now.Worker == d.id {
			now.Worker = ""
		}
	})
	if err != nil && !errors.Is(err, machine.ErrNotFound) {
		d.Log.Warn("another process will wait before it takes over", "machine", l.Spec.Key.String(), "error", err)
	}
}

// beat renews the worker's claim on a machine.
func (d *Driver) beat(ctx context.Context, l *lease, cancel context.CancelCauseFunc) {
	ticker := time.NewTicker(d.Heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now, err := d.changeLease(ctx, l.Spec.Key, l.ID, func(now *lease) {
			if now.Worker == d.id {
				now.Renewed = d.Clock.Now()
			}
		})
		if errors.Is(err, machine.ErrNotFound) || err == nil && (now.Worker != d.id || now.State != l.State) {
			cancel(errOvertaken)
			return
		}
	}
}

// prepare finds a machine a host that is good for it, and makes it ready.
func (d *Driver) prepare(ctx context.Context, l *lease) error {
	tried := map[string]error{}
	for {
		if l.Host == "" {
			found, err := d.assign(ctx, l, tried)
			if errors.Is(err, machine.ErrNoCapacity) {
				return d.settle(ctx, l, machine.StateFailed, err.Error())
			}
			if err != nil {
				return err
			}
			l = found
		}
		host, err := d.hostOf(ctx, l)
		if err == nil {
			l, err = d.ready(ctx, l, host)
		}
		switch {
		case err == nil:
			return d.settle(ctx, l, machine.StateRunning, "")
		case errors.Is(context.Cause(ctx), errOvertaken), errors.Is(err, errOvertaken):
			return nil
		case errors.Is(context.Cause(ctx), context.Canceled):
			return ctx.Err()
		case l.Claimed || ctx.Err() != nil:
			// What was begun on a host has to be cleaned, which is for Delete.
			return d.settle(context.WithoutCancel(ctx), l, machine.StateFailed, err.Error())
		}
		d.Log.Warn("a host cannot be used", "machine", l.Spec.Key.String(), "host", l.Host, "error", err)
		tried[l.Host] = err
		if l, err = d.abandon(ctx, l, err); err != nil {
			return err
		}
	}
}

// abandon gives back a host that is of no use, so that another can be tried.
func (d *Driver) abandon(ctx context.Context, l *lease, problem error) (*lease, error) {
	if err := d.release(ctx, l.Host, l.ID, problem); err != nil {
		return nil, err
	}
	return d.changeLease(ctx, l.Spec.Key, l.ID, func(l *lease) {
		l.Host, l.Address, l.Message = "", "", "another host is looked for: "+problem.Error()
	})
}

// settle writes down how the preparation ended, unless the machine is being deleted by now.
func (d *Driver) settle(ctx context.Context, l *lease, state machine.State, message string) error {
	_, err := d.changeLease(ctx, l.Spec.Key, l.ID, func(l *lease) {
		if l.State == machine.StatePending {
			l.State, l.Message = state, message
		}
		l.Worker = ""
	})
	return err
}

// retire cleans a machine's host, and frees it.
func (d *Driver) retire(ctx context.Context, l *lease) error {
	err := d.restore(ctx, l)
	if errors.Is(err, errGone) {
		d.Log.Warn("a host left the inventory while it was leased, and was not cleaned", "machine", l.Spec.Key.String(), "host", l.Host)
		err = nil
	}
	if err == nil {
		return d.forget(ctx, l)
	}
	if errors.Is(context.Cause(ctx), errOvertaken) || errors.Is(context.Cause(ctx), context.Canceled) {
		return err
	}
	d.Log.Warn("a host cannot be cleaned", "machine", l.Spec.Key.String(), "host", l.Host, "error", err)
	_, problem := d.changeLease(context.WithoutCancel(ctx), l.Spec.Key, l.ID, func(l *lease) {
		l.Message = fmt.Sprintf("the host cannot be cleaned: %v; if it is gone for good, remove it from the account", err)
		l.RetryAt = d.Clock.Now().Add(d.Retry << min(l.Failures, 6))
		l.Failures++
		l.Worker = ""
	})
	return problem
}
