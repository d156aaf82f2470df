// Package memory is a task queue inside of one process. It needs nothing and forgets everything when the process ends,
// which is no loss: the record is elsewhere. It suits an installation whose workers all run in one process, or in
// several of which each has a shard to itself.
package memory

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/task"
)

// Queue is a task.Queue in memory.
type Queue struct {
	clock clock.WithTicker
	log   *slog.Logger

	mu      sync.Mutex
	closed  bool
	added   uint64 // counts entries, to tell which waits longest
	entries map[types.UID]*entry
	delayed delayedHeap         // waiting for their time
	ready   readyHeap           // may be handled now
	blocked map[string][]*entry // ready, but their key is being handled
	running map[string]bool     // keys that are being handled
	changed chan struct{}       // closed, and made anew, when something may have become possible
}

var _ task.Queue = (*Queue)(nil)

// New returns an empty queue.
func New(clk clock.WithTicker, log *slog.Logger) *Queue {
	return &Queue{
		clock:   clk,
		log:     log,
		entries: map[types.UID]*entry{},
		blocked: map[string][]*entry{},
		running: map[string]bool{},
		changed: make(chan struct{}),
	}
}

// Add implements task.Queue.
func (q *Queue) Add(_ context.Context, item task.Item) error {
	if err := item.Validate(); err != nil {
		return err
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errors.New("queue task: the queue is closed")
	}
	if e := q.entries[item.UID]; e != nil {
		if now := q.clock.Now(); e.place == inDelayed && !item.Due().After(now) {
			e.due = now
			heap.Fix(&q.delayed, e.index)
			q.wake()
		}
		return nil
	}
	q.added++
	e := &entry{item: item, due: item.Due(), order: q.added}
	q.entries[item.UID] = e
	heap.Push(&q.delayed, e)
	q.wake()
	return nil
}

// Run implements task.Queue.
func (q *Queue) Run(ctx context.Context, handle task.Handler, options task.Options) error {
	options, err := options.Complete()
	if err != nil {
		return err
	}
	var workers sync.WaitGroup
	for range options.Concurrency {
		workers.Go(func() {
			for {
				e := q.take(ctx, options.Shard)
				if e == nil {
					return
				}
				q.settle(e, q.call(ctx, handle, e.item), options.Backoff)
			}
		})
	}
	ended := make(chan struct{})
	go func() { workers.Wait(); close(ended) }()
	<-ctx.Done()
	grace := q.clock.NewTimer(options.Grace)
	defer grace.Stop()
	select {
	case <-ended:
		return nil
	case <-grace.C():
		return fmt.Errorf("stop queue: a handler did not return within %s", options.Grace)
	}
}

// Depths tells how many items there are.
func (q *Queue) Depths(context.Context) ([]task.Depth, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	states := map[place]task.DepthState{
		inDelayed: task.DepthDelayed, inReady: task.DepthReady, inBlocked: task.DepthReady, inHandler: task.DepthRunning,
	}
	counts := map[task.Depth]int{}
	for _, e := range q.entries {
		counts[task.Depth{Queue: e.item.Class().String(), State: states[e.place]}]++
	}
	var depths []task.Depth
	for class := task.MinClass; class <= task.MaxClass; class++ {
		for _, state := range []task.DepthState{task.DepthReady, task.DepthDelayed, task.DepthRunning} {
			depth := task.Depth{Queue: class.String(), State: state}
			depth.Items = counts[depth]
			depths = append(depths, depth)
		}
	}
	return depths, nil
}

// Close implements task.Queue.
func (q *Queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	return nil
}

func (q *Queue) call(ctx context.Context, handle task.Handler, item task.Item) (result task.Result) {
	if !item.Deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, item.Deadline)
		defer cancel()
	}
	defer func() {
		if reason := recover(); reason != nil {
			q.log.Error("handler panicked", "task", item.Task, "reason", reason, "stack", string(debug.Stack()))
			result = task.Result{Retry: true}
		}
	}()
	return handle(ctx, item)
}

// take waits for an item of the shard, and marks its key as being handled. It returns nil when ctx has ended.
func (q *Queue) take(ctx context.Context, shard task.Shard) *entry {
	for ctx.Err() == nil {
		e, changed, next := q.tryTake(shard)
		if e != nil {
			return e
		}
		var due <-chan time.Time
		stop := func() {}
		if !next.IsZero() {
			timer := q.clock.NewTimer(next.Sub(q.clock.Now()))
			due, stop = timer.C(), func() { timer.Stop() }
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-due:
		}
		stop()
	}
	return nil
}

// tryTake returns an item that can be handled now. If there is none, it returns what to wait for: a change, or the time
// when the next item is due.
func (q *Queue) tryTake(shard task.Shard) (*entry, <-chan struct{}, time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := q.clock.Now()
	for len(q.delayed) > 0 && !q.delayed[0].due.After(now) {
		e, _ := heap.Pop(&q.delayed).(*entry)
		heap.Push(&q.ready, e)
	}
	var foreign []*entry
	defer func() {
		for _, e := range foreign {
			heap.Push(&q.ready, e)
		}
	}()
	for len(q.ready) > 0 {
		e, _ := heap.Pop(&q.ready).(*entry)
		switch {
		case !shard.Owns(e.item.Key):
			foreign = append(foreign, e)
		case q.running[e.item.Key]:
			e.place = inBlocked
			q.blocked[e.item.Key] = append(q.blocked[e.item.Key], e)
		default:
			e.place = inHandler
			q.running[e.item.Key] = true
			return e, nil, time.Time{}
		}
	}
	var next time.Time
	if len(q.delayed) > 0 {
		next = q.delayed[0].due
	}
	return nil, q.changed, next
}

// settle puts away an item that was handled, and lets the others of its key go on.
func (q *Queue) settle(e *entry, result task.Result, backoff task.Backoff) {
	q.mu.Lock()
	defer q.mu.Unlock()
	key := e.item.Key
	delete(q.running, key)
	for _, other := range q.blocked[key] {
		heap.Push(&q.ready, other)
	}
	delete(q.blocked, key)
	if result.Retry {
		after := result.After
		if after <= 0 {
			e.failures++
			after = backoff.Delay(e.failures)
		}
		e.due = e.item.RetryDue(q.clock.Now(), after)
		heap.Push(&q.delayed, e)
	} else {
		delete(q.entries, e.item.UID)
	}
	q.wake()
}

// wake lets all who wait look again. The lock is held.
func (q *Queue) wake() {
	close(q.changed)
	q.changed = make(chan struct{})
}
