package queuetest

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/task"
)

// between fails the test unless the time lies between the two, give or take the implementation's lateness.
func (i Implementation) between(t *testing.T, what string, got, earliest, latest time.Time) {
	t.Helper()
	if got.Before(earliest) {
		t.Errorf("%s came %s too early", what, earliest.Sub(got))
	}
	if limit := latest.Add(i.Lateness); got.After(limit) {
		t.Errorf("%s came %s too late", what, got.Sub(limit))
	}
}

func notBefore(t *testing.T, implementation Implementation) {
	queue := implementation.Store(t)()
	log := newLog(t)
	start(t, queue, log.around(done), task.Options{Concurrency: 1})
	later, now := newItem("later", "a"), newItem("now", "b")
	later.NotBefore = time.Now().Add(3*implementation.Unit + implementation.Unit/2)
	add(t, queue, later, now)
	calls := log.wait(2)
	if calls[0].item.Task.Name != "now" {
		t.Error("an item that waits for its time held up another")
	}
	implementation.between(t, "the item", calls[1].began, later.NotBefore, later.NotBefore)
}

func hasten(t *testing.T, implementation Implementation) {
	queue := implementation.Store(t)()
	item := newItem("patient", "a")
	item.NotBefore = time.Now().Add(time.Hour)
	add(t, queue, item)
	log := newLog(t)
	start(t, queue, log.around(done), task.Options{})
	later := item
	later.NotBefore = time.Now().Add(30 * time.Minute)
	add(t, queue, later)
	log.quiet(0, implementation)
	item.NotBefore = time.Time{}
	add(t, queue, item)
	log.quiet(1, implementation)
}

func retryAfter(t *testing.T, implementation Implementation) {
	queue := implementation.Store(t)()
	delay := implementation.Unit + implementation.Unit/2
	log := newLog(t)
	var calls atomic.Int32
	start(t, queue, log.around(func(context.Context, task.Item) task.Result {
		return task.Result{Retry: calls.Add(1) < 3, After: delay}
	}), task.Options{})
	add(t, queue, newItem("a", "a"))
	seen := log.quiet(3, implementation)
	for i := 1; i < 3; i++ {
		due := seen[i-1].ended.Add(delay)
		implementation.between(t, "a retry", seen[i].began, due.Add(-time.Millisecond), due)
	}
}

func retryBackoff(t *testing.T, implementation Implementation) {
	queue := implementation.Store(t)()
	backoff := task.Backoff{First: implementation.Unit, Max: 3 * implementation.Unit}
	log := newLog(t)
	var calls atomic.Int32
	start(t, queue, log.around(func(context.Context, task.Item) task.Result {
		return task.Result{Retry: calls.Add(1) < 4}
	}), task.Options{Backoff: backoff})
	add(t, queue, newItem("a", "a"))
	seen := log.quiet(4, implementation)
	for i, nominal := range []time.Duration{backoff.First, 2 * backoff.First, backoff.Max} {
		ended := seen[i].ended
		implementation.between(t, "a retry", seen[i+1].began, ended.Add(nominal-time.Millisecond), ended.Add(nominal*3/2))
	}
}

func panicRetries(t *testing.T, implementation Implementation) {
	queue := implementation.Store(t)()
	log := newLog(t)
	var calls atomic.Int32
	start(t, queue, log.around(func(context.Context, task.Item) task.Result {
		if calls.Add(1) == 1 {
			panic("on purpose")
		}
		return task.Result{}
	}), task.Options{Backoff: task.Backoff{First: implementation.Unit, Max: implementation.Unit}})
	add(t, queue, newItem("a", "a"))
	log.quiet(2, implementation)
}

func deadlineEndsContext(t *testing.T, implementation Implementation) {
	queue := implementation.Store(t)()
	item := newItem("a", "a")
	// Later than the item comes on a busy machine, so that the deadline is met in the handler.
	item.Deadline = time.Now().Add(implementation.Lateness + 2*implementation.Unit)
	log := newLog(t)
	start(t, queue, log.around(func(ctx context.Context, _ task.Item) task.Result {
		select {
		case <-ctx.Done():
			if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
				t.Errorf("the context ended with %v", ctx.Err())
			}
		case <-time.After(patience):
			t.Error("the context did not end")
		}
		return task.Result{}
	}), task.Options{})
	add(t, queue, item)
	implementation.between(t, "the end", log.quiet(1, implementation)[0].ended, item.Deadline, item.Deadline)
}

func deadlineBeatsDelay(t *testing.T, implementation Implementation) {
	queue := implementation.Store(t)()
	item, retried := newItem("added", "a"), newItem("retried", "b")
	item.NotBefore = time.Now().Add(time.Hour)
	item.Deadline = time.Now().Add(2 * implementation.Unit)
	retried.Deadline = item.Deadline
	log := newLog(t)
	start(t, queue, log.around(func(_ context.Context, item task.Item) task.Result {
		return task.Result{Retry: time.Now().Before(item.Deadline), After: time.Hour}
	}), task.Options{Concurrency: 2})
	add(t, queue, item, retried)
	last := map[string]time.Time{}
	for _, call := range log.wait(3) {
		last[call.item.Task.Name] = call.began
	}
	for name, began := range last {
		implementation.between(t, name, began, item.Deadline, item.Deadline)
	}
}

func deadlinePassed(t *testing.T, implementation Implementation) {
	queue := implementation.Store(t)()
	item := newItem("a", "a")
	item.NotBefore, item.Deadline = time.Now().Add(time.Hour), time.Now().Add(-time.Hour)
	log := newLog(t)
	var calls atomic.Int32
	start(t, queue, log.around(func(ctx context.Context, _ task.Item) task.Result {
		if !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("the context has not ended: %v", ctx.Err())
		}
		return task.Result{Retry: calls.Add(1) == 1, After: implementation.Unit} // it could not be written down
	}), task.Options{})
	add(t, queue, item)
	seen := log.quiet(2, implementation)
	due := seen[0].ended.Add(implementation.Unit)
	implementation.between(t, "the retry", seen[1].began, due.Add(-time.Millisecond), due)
}
