// Package queuetest is the conformance suite of task queues: what task.Queue promises, as tests. Every implementation
// calls Run from a test of its own.
package queuetest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"plasmacloud.io/plasmacloud/internal/task"
)

// Implementation is what the suite tests.
type Implementation struct {
	// Store makes a fresh, empty store and returns a function that connects to it. What connects later shares the
	// items. A store can be divided into two shards.
	Store func(t *testing.T) (connect func() task.Queue)
	// Unit is a delay that the implementation tells from none. Lateness is how much later than it was asked to be an
	// item may come on a busy machine.
	Unit, Lateness time.Duration
}

// patience is how long the suite waits for what should have happened.
const patience = time.Minute

// Run tests an implementation.
func Run(t *testing.T, implementation Implementation) {
	for name, test := range map[string]func(*testing.T, Implementation){
		"every item is handled once":                       everyItemOnce,
		"one item per key at a time":                       oneItemPerKey,
		"an item is in the queue once":                     inQueueOnce,
		"higher classes first, then first come":            priorities,
		"an item waits for its time and holds up nobody":   notBefore,
		"adding an item that waits hastens it":             hasten,
		"a retry waits as long as the handler says":        retryAfter,
		"a retry without a delay waits longer each time":   retryBackoff,
		"a panic is a retry":                               panicRetries,
		"a handler's context ends at the deadline":         deadlineEndsContext,
		"an item comes at its deadline at the latest":      deadlineBeatsDelay,
		"an item comes even after its deadline":            deadlinePassed,
		"no more handlers at once than asked for":          concurrency,
		"shutdown waits for handlers and loses nothing":    shutdown,
		"a handler that does not return is not waited for": shutdownGrace,
		"consumers share the items":                        manyConsumers,
		"shards keep apart":                                shards,
		"what is no item is refused":                       refusal,
		"a queue tells how deep it is":                     depths,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, implementation)
		})
	}
}

// newItem makes up a task.
func newItem(name, key string) task.Item {
	return task.Item{Task: types.NamespacedName{Namespace: "test", Name: name}, UID: types.UID("uid-" + name), Key: key}
}

// newItems makes up n tasks, each with a key of its own.
func newItems(n int) []task.Item {
	items := make([]task.Item, n)
	for i := range items {
		items[i] = newItem(fmt.Sprintf("task-%03d", i), fmt.Sprintf("key-%03d", i))
	}
	return items
}

func add(t *testing.T, queue task.Queue, items ...task.Item) {
	t.Helper()
	for _, item := range items {
		if err := queue.Add(t.Context(), item); err != nil {
			t.Fatal(err)
		}
	}
}

// call is one call of a handler.
type call struct {
	item  task.Item
	began time.Time
	ended time.Time
}

// log remembers the calls of handlers.
type log struct {
	t *testing.T

	mu      sync.Mutex
	calls   []call
	changed chan struct{}
}

func newLog(t *testing.T) *log {
	return &log{t: t, changed: make(chan struct{})}
}

// around makes a handler one that is remembered.
func (l *log) around(handle task.Handler) task.Handler {
	return func(ctx context.Context, item task.Item) task.Result {
		began := time.Now()
		defer func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.calls = append(l.calls, call{item: item, began: began, ended: time.Now()})
			close(l.changed)
			l.changed = make(chan struct{})
		}()
		return handle(ctx, item)
	}
}

// pause lets time pass in which something might happen that should not, or that takes time in real life.
func pause(d time.Duration) { <-time.After(d) }

// done is a handler that has nothing to do.
func done(context.Context, task.Item) task.Result { return task.Result{} }

// wait returns the calls, in the order in which they ended, when there are n.
func (l *log) wait(n int) []call {
	l.t.Helper()
	timeout := time.After(patience)
	for {
		l.mu.Lock()
		calls, changed := append([]call(nil), l.calls...), l.changed
		l.mu.Unlock()
		if len(calls) >= n {
			return calls
		}
		select {
		case <-changed:
		case <-timeout:
			l.t.Fatalf("%d calls were expected, there were %d", n, len(calls))
		}
	}
}

// quiet returns the calls after a while in which nothing more should have happened.
func (l *log) quiet(n int, implementation Implementation) []call {
	l.t.Helper()
	l.wait(n)
	pause(2*implementation.Unit + 200*time.Millisecond)
	calls := l.wait(n)
	if len(calls) != n {
		l.t.Fatalf("%d calls were expected, there were %d: %v", n, len(calls), calls)
	}
	return calls
}

// start runs a queue until the test ends, or the returned function is called.
func start(t *testing.T, queue task.Queue, handle task.Handler, options task.Options) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- queue.Run(ctx, handle, options) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("Run: %v", err)
				}
			case <-time.After(patience):
				t.Error("Run did not return")
			}
		})
	}
	t.Cleanup(stop)
	return stop
}
