package machine

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/bootstrap"
	"plasmacloud.io/plasmacloud/internal/hostsetup"
)

// Job is a machine that is to become a node, by what is done on it over SSH.
type Job struct {
	Cluster *v1alpha1.Cluster
	Machine *v1alpha1.Machine
	Host    hostsetup.Host
	// Join is how machines join the cluster, and Token the machine's own: id.secret. As long as the token is empty the
	// cluster cannot be joined yet, and the machine is only prepared for it.
	Join  bootstrap.Join
	Token string
	// Prepared is set where that was done before, by this process.
	Prepared bool
}

// Joiner makes machines nodes. It may be asked again, for the same machine, and goes on where it ended.
type Joiner interface {
	Join(ctx context.Context, job Job, progress func(message string)) error
}

// Setup has machines made nodes, in the background.
type Setup interface {
	// Ensure begins with a machine unless that was done, and tells how far it is. It returns soon.
	Ensure(job Job) Progress
	// End stops what is done with a machine, which is never set up again, and tells whether it has stopped.
	End(machine types.UID) bool
	// Notify calls changed with every machine whose setup has ended, or may begin again.
	Notify(changed func(machine types.NamespacedName))
}

// Progress is how far the setup of a machine is.
type Progress struct {
	// Message is for people.
	Message string
	// Done: what could be done was done.
	Done bool
	// Err is why the last attempt failed. There will be another.
	Err error
}

// BackgroundConfig is how many machines are set up at once (16), for how long (30 min), and how long is waited after a
// failure: first 5 s, then twice as long each time, at most 2 min.
type BackgroundConfig struct {
	Limit               int
	Timeout             time.Duration
	FirstWait, LastWait time.Duration
}

// Background is a Setup.
type Background struct {
	joiner Joiner
	clock  clock.Clock
	config BackgroundConfig
	slots  chan struct{}
	done   chan struct{} // is closed by Close
	works  sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	changed  []func(types.NamespacedName)
	machines map[types.UID]*work
}

var _ Setup = (*Background)(nil)

// work is what is known of the setup of one machine.
type work struct {
	cancel   context.CancelFunc // nil while nothing is done
	ended    bool               // for good
	message  string
	prepared bool
	joined   bool
	failures int
	err      error
	retryAt  time.Time
}

// NewBackground returns a Setup that works until Close is called.
func NewBackground(joiner Joiner, clk clock.Clock, config BackgroundConfig) *Background {
	config.Limit = cmp.Or(config.Limit, 16)
	config.Timeout = cmp.Or(config.Timeout, 30*time.Minute)
	config.FirstWait = cmp.Or(config.FirstWait, 5*time.Second)
	config.LastWait = cmp.Or(config.LastWait, 2*time.Minute)
	return &Background{
		joiner: joiner, clock: clk, config: config, slots: make(chan struct{}, config.Limit), done: make(chan struct{}),
		machines: map[types.UID]*work{},
	}
}

// Close stops all work, and waits for that.
func (b *Background) Close() {
	b.mu.Lock()
	if !b.closed {
		b.closed = true
		close(b.done)
	}
	for _, w := range b.machines {
		if w.cancel != nil {
			w.cancel()
		}
	}
	b.mu.Unlock()
	b.works.Wait()
}

// Notify implements Setup.
func (b *Background) Notify(changed func(types.NamespacedName)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changed = append(b.changed, changed)
}

func (b *Background) tell(machine types.NamespacedName) {
	b.mu.Lock()
	listeners := b.changed
	b.mu.Unlock()
	for _, changed := range listeners {
		changed(machine)
	}
}

// Ensure implements Setup.
func (b *Background) Ensure(job Job) Progress {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.machines[job.Machine.UID]
	if w == nil {
		w = &work{}
		b.machines[job.Machine.UID] = w
	}
	done := w.joined || w.prepared && job.Token == ""
	if w.cancel == nil && !w.ended && !done && !b.clock.Now().Before(w.retryAt) && !b.closed {
		b.begin(w, job)
	}
	return Progress{Message: w.message, Done: done, Err: w.err}
}

// begin starts work. The lock is held.
func (b *Background) begin(w *work, job Job) {
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	if w.err == nil {
		w.message = "it waits for its turn to be set up"
	}
	job.Cluster, job.Machine, job.Prepared = job.Cluster.DeepCopy(), job.Machine.DeepCopy(), w.prepared
	b.works.Go(func() {
		defer cancel()
		name := types.NamespacedName{Namespace: job.Machine.Namespace, Name: job.Machine.Name}
		wait := b.finish(ctx, w, job, b.do(ctx, w, job))
		b.tell(name)
		if wait == 0 {
			return
		}
		timer := b.clock.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C():
			b.tell(name)
		case <-b.done:
		}
	})
}

// do sets a machine up, when it is its turn.
func (b *Background) do(ctx context.Context, w *work, job Job) error {
	select {
	case b.slots <- struct{}{}:
		defer func() { <-b.slots }()
	case <-ctx.Done():
		return ctx.Err()
	}
	limited, cancel := context.WithTimeout(ctx, b.config.Timeout)
	defer cancel()
	return b.joiner.Join(limited, job, func(message string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		w.message = message
	})
}

// finish notes how an attempt ended, and returns how long to wait before the next.
func (b *Background) finish(ctx context.Context, w *work, job Job, err error) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	w.cancel = nil
	switch {
	case err == nil:
		w.prepared, w.joined = true, job.Token != ""
		w.err, w.failures, w.retryAt = nil, 0, time.Time{}
		if w.message = "it is prepared"; w.joined {
			w.message = "it was told to join"
		}
		return 0
	case ctx.Err() != nil:
		w.err = nil
		return 0
	}
	if errors.Is(err, hostsetup.ErrPreflight) {
		w.prepared = false
	}
	wait := min(b.config.FirstWait<<min(w.failures, 10), b.config.LastWait)
	w.err, w.retryAt = err, b.clock.Now().Add(wait)
	w.failures++
	return wait
}

// End implements Setup.
func (b *Background) End(machine types.UID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	w := b.machines[machine]
	switch {
	case w == nil:
		return true
	case w.cancel != nil:
		w.ended = true
		w.cancel()
		return false
	default:
		delete(b.machines, machine)
		return true
	}
}
