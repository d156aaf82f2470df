package node

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"plasmacloud.io/plasmacloud/internal/network/cni"
	"plasmacloud.io/plasmacloud/internal/network/ipam"
	"plasmacloud.io/plasmacloud/internal/network/linux"
	"plasmacloud.io/plasmacloud/internal/network/policy"
)

const (
	// settle is the pause between two passes: what happens together is looked
	// at together.
	settle = 20 * time.Millisecond
	// A pass that failed is repeated after firstRetry, then twice as long, and
	// so on up to lastRetry.
	firstRetry = 250 * time.Millisecond
	lastRetry  = 30 * time.Second
	// lockWait is how long a pass waits for pods that come or go.
	lockWait = 10 * time.Second
)

// Daemon keeps one node.
type Daemon struct {
	config    Config
	log       *slog.Logger
	roster    *roster
	dataplane *linux.Dataplane
	store     *ipam.Store
	// policies is nil where NetworkPolicy objects are not to be enforced.
	policies *policy.Controller

	// work has room for one wake-up: several are as good as one.
	work chan struct{}
	// rulesStale asks the next pass to write the firewall.
	rulesStale atomic.Bool

	// What follows belongs to the passes, of which there is one at a time.
	firewall  *linux.Firewall
	exemption *linux.ForwardExemption
	unpoliced *linux.PolicyTable
	record    record
	warned    string
	reached   []linux.Peer
}

// New makes a daemon; nothing happens before Run. Without sources of policies it
// enforces none.
func New(config Config, nodes Nodes, policies *policy.Sources, log *slog.Logger) (*Daemon, error) {
	if err := config.Validate(); err != nil {
		return nil, fmt.Errorf("configure pod network: %w", err)
	}
	config = config.withDefaults()
	d := &Daemon{
		config: config, log: log,
		dataplane: linux.New(config.StateDir), store: ipam.NewStore(config.StateDir),
		work: make(chan struct{}, 1), record: loadRecord(config.StateDir),
	}
	d.roster = newRoster(nodes, d.wake, d.log)
	if policies != nil {
		d.policies = policy.New(config.NodeName, config.StateDir, *policies, log)
	}
	d.rulesStale.Store(true)
	return d, nil
}

// Run keeps the node until ctx ends. It fails only if it cannot begin.
func (d *Daemon) Run(ctx context.Context) error {
	if err := d.prepare(); err != nil {
		return fmt.Errorf("start pod network: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel()

	background.Go(func() { d.roster.run(ctx) })
	background.Go(func() { d.keepWatching(ctx, d.dataplane.WatchRoutes, d.wake) })
	background.Go(func() {
		d.keepWatching(ctx, d.dataplane.WatchFirewall, func() {
			d.rulesStale.Store(true)
			d.wake()
		})
	})
	if d.policies != nil {
		background.Go(func() { d.keepWatching(ctx, d.dataplane.WatchPolicies, d.policies.Touch) })
		background.Go(func() {
			if err := linux.InNamespace(d.config.NetNS, func() error {
				d.policies.Run(ctx)
				return nil
			}); err != nil {
				d.log.Error("network policies are not enforced", "error", err)
			}
		})
	}
	return linux.InNamespace(d.config.NetNS, func() error {
		d.loop(ctx)
		return nil
	})
}

func (d *Daemon) prepare() error {
	for dir, mode := range map[string]os.FileMode{d.config.StateDir: 0o700, d.config.CNIConfDir: 0o755} {
		if err := os.MkdirAll(dir, mode); err != nil {
			return err
		}
	}
	if d.config.CNIBinDir == "" {
		return nil
	}
	return installPlugin(d.config.PluginBinary, filepath.Join(d.config.CNIBinDir, cni.Type))
}

// wake asks for a pass.
func (d *Daemon) wake() {
	select {
	case d.work <- struct{}{}:
	default:
	}
}

// keepWatching holds a watch on the kernel, which begins with a wake-up: what
// happened while there was no watch is found by the pass that follows.
func (d *Daemon) keepWatching(ctx context.Context, watch func(context.Context, func()) error, notify func()) {
	for ctx.Err() == nil {
		err := linux.InNamespace(d.config.NetNS, func() error { return watch(ctx, notify) })
		if ctx.Err() != nil {
			return
		}
		d.log.Warn("lost watch on the kernel", "error", err)
		select {
		case <-ctx.Done():
		case <-time.After(firstRetry):
		}
	}
}

// loop makes a pass whenever there is a reason to.
func (d *Daemon) loop(ctx context.Context) {
	resync := time.NewTicker(d.config.Resync)
	defer resync.Stop()
	wait := firstRetry
	var retry <-chan time.Time
	for {
		err := d.pass(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			d.log.Error("keep pod network", "error", err, "retry", wait)
			retry = time.After(wait)
			wait = min(2*wait, lastRetry)
		default:
			wait, retry = firstRetry, nil
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(settle):
		}
		select {
		case <-ctx.Done():
			return
		case <-d.work:
		case <-retry:
		case <-resync.C:
			d.rulesStale.Store(true)
		}
	}
}
