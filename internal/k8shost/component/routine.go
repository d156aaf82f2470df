package component

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// Routine is a part that runs inside the launcher: a controller, a renewal loop, the node's network.
type Routine struct {
	name  string
	log   *slog.Logger
	setup func(ctx context.Context) error
	run   func(ctx context.Context) error

	cancel context.CancelFunc
	wait   sync.WaitGroup
}

// NewRoutine returns a part whose readiness is the success of setup, and whose work is run: called again, with
// backoff, should it fail. Either may be nil.
func NewRoutine(name string, log *slog.Logger, setup, run func(ctx context.Context) error) *Routine {
	return &Routine{name: name, log: log.With("component", name), setup: setup, run: run}
}

// Name implements Component.
func (r *Routine) Name() string { return r.name }

// Init implements Component; a routine has nothing to prepare before its turn.
func (r *Routine) Init(context.Context) error { return nil }

// Start implements Component. The work begins once Ready has set it up.
func (r *Routine) Start(context.Context) error { return nil }

// Ready implements Component.
func (r *Routine) Ready(ctx context.Context) error {
	if r.setup != nil {
		if err := r.setup(ctx); err != nil {
			return err
		}
	}
	if r.run == nil {
		return nil
	}
	// The work outlives the start-up's context: only Stop ends it.
	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel = cancel
	r.wait.Go(func() { r.keepRunning(runCtx) })
	return nil
}

func (r *Routine) keepRunning(ctx context.Context) {
	delays := newBackoff()
	for {
		began := time.Now()
		err := r.guarded(ctx)
		if ctx.Err() != nil {
			return
		}
		delay := delays.next(time.Since(began))
		r.log.Error("component ended; starting it again", "error", err, "delay", delay)
		select {
		case <-ctx.Done():
			return
		case <-time.After(delay):
		}
	}
}

// guarded turns a panic into an error, so that one routine's mistake does not end the node.
func (r *Routine) guarded(ctx context.Context) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return r.run(ctx)
}

// Stop implements Component.
func (r *Routine) Stop(context.Context) error {
	if r.cancel != nil {
		r.cancel()
		r.wait.Wait()
	}
	return nil
}
