package policy

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"plasmacloud.io/plasmacloud/internal/network/ipam"
	"plasmacloud.io/plasmacloud/internal/network/linux"
)

const (
	// settle is the pause between two passes: what happens together is looked
	// at together. In a large cluster, where a pass takes long and there is always
	// something new, the pause is longer by some times what the pass took.
	settle     = 20 * time.Millisecond
	restFactor = 3
	longest    = time.Second
	// A pass that failed is repeated after firstRetry, then twice as long, and
	// so on up to lastRetry.
	firstRetry = 250 * time.Millisecond
	lastRetry  = 30 * time.Second
	// lockWait is how long a pass waits for pods that come or go.
	lockWait = 10 * time.Second
	// inspectInterval is how often the table is looked at without a reason.
	inspectInterval = 5 * time.Minute
)

// Controller keeps the policies of one node's pods.
type Controller struct {
	node      string
	dataplane *linux.Dataplane
	store     *ipam.Store
	cluster   *inventory
	log       *slog.Logger

	// work has room for one wake-up: several are as good as one.
	work chan struct{}
	// touched asks the next pass to look at the table.
	touched atomic.Bool

	// What follows belongs to the passes, of which there is one at a time.
	table    *linux.PolicyTable
	warned   string
	policies int
	policed  int
}

// New makes a controller for the pods of a node, whose leases are in stateDir.
func New(node, stateDir string, sources Sources, log *slog.Logger) *Controller {
	c := &Controller{
		node: node, dataplane: linux.New(stateDir), store: ipam.NewStore(stateDir), log: log,
		work: make(chan struct{}, 1),
	}
	c.touched.Store(true)
	c.cluster = newInventory(sources, c.wake, log)
	return c
}

// Touch tells that somebody else wrote to the table.
func (c *Controller) Touch() {
	c.touched.Store(true)
	c.wake()
}

func (c *Controller) wake() {
	select {
	case c.work <- struct{}{}:
	default:
	}
}

// Run keeps the policies until ctx ends, in the network namespace of the calling
// thread. Rules of an earlier run stay until everything is known that new ones
// are made from.
func (c *Controller) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	var background sync.WaitGroup
	defer background.Wait()
	defer cancel()
	for _, one := range c.cluster.all() {
		background.Go(func() { one.controller.RunWithContext(ctx) })
	}
	if !c.cluster.synced(ctx) {
		return
	}
	c.loop(ctx)
}

// loop makes a pass whenever there is a reason to.
func (c *Controller) loop(ctx context.Context) {
	inspect := time.NewTicker(inspectInterval)
	defer inspect.Stop()
	wait := firstRetry
	var retry <-chan time.Time
	for {
		began := time.Now()
		err := c.pass(ctx)
		pause := min(settle+restFactor*time.Since(began), longest)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.touched.Store(true)
			c.log.Error("keep network policies", "error", err, "retry", wait)
			retry = time.After(wait)
			wait = min(2*wait, lastRetry)
		default:
			wait, retry = firstRetry, nil
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		select {
		case <-ctx.Done():
			return
		case <-c.work:
		case <-retry:
		case <-inspect.C:
			c.touched.Store(true)
		}
	}
}

// pass writes the rules that the cluster's state and the leases make. The lock
// keeps pods from coming and going in the meantime: one whose address was closed
// by the plugin is opened by exactly the pass that has written its policies.
func (c *Controller) pass(ctx context.Context) (err error) {
	if c.table == nil {
		if c.table, err = c.dataplane.PolicyTable(); err != nil {
			return err
		}
	}
	waiting, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	session, err := c.store.Lock(waiting)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, session.Close()) }()
	touched := c.touched.Swap(false)
	leases, err := session.Leases()
	if err != nil {
		return err
	}
	began := time.Now()
	leased, unjudged := c.sort(leases)
	cluster := c.cluster.cluster(c.node, leased)
	rules, invalid := Compile(cluster)
	rules.Unjudged = unjudged
	c.warn(invalid)
	compiled := time.Now()
	changed, err := c.table.Sync(ctx, rules, touched)
	if err != nil {
		return err
	}
	if changed {
		c.log.Debug("network policies written", "compiled", compiled.Sub(began), "written", time.Since(compiled))
	}
	c.report(rules)
	return nil
}

// sort finds the addresses of this node's pods. A pod that the API has not told
// of stays closed, as nobody can say which policies it has; what is no pod of
// Kubernetes has none.
func (c *Controller) sort(leases []ipam.Lease) (leased map[string][]netip.Addr, unjudged []netip.Addr) {
	leased = make(map[string][]netip.Addr, len(leases))
	for _, lease := range leases {
		switch {
		case lease.Pod == "":
		case c.cluster.knows(c.node, lease.Pod):
			leased[lease.Pod] = append(leased[lease.Pod], lease.Address)
		default:
			unjudged = append(unjudged, lease.Address)
		}
	}
	return leased, unjudged
}

// warn tells once about policies that make no sense.
func (c *Controller) warn(invalid error) {
	var warning string
	if invalid != nil {
		warning = invalid.Error()
	}
	if warning != c.warned && warning != "" {
		c.log.Warn("some network policies cannot be read and allow less than they were meant to", "reason", warning)
	}
	c.warned = warning
}

// report tells when more or fewer pods are policed.
func (c *Controller) report(rules linux.PolicyRules) {
	pods := map[netip.Addr]bool{}
	policies := map[string]bool{}
	for _, side := range []linux.PolicySide{rules.Ingress, rules.Egress} {
		for addr := range side.Pods {
			pods[addr] = true
		}
		for name := range side.Policies {
			policies[name] = true
		}
	}
	if len(pods) == c.policed && len(policies) == c.policies {
		return
	}
	c.policed, c.policies = len(pods), len(policies)
	c.log.Info("network policies are in force", "policies", c.policies, "pods", c.policed)
}
