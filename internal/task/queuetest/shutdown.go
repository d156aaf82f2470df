package queuetest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/task"
)

// shutdown ends a Run while handlers are at work: some finish, some ask to be called again, others never began.
func shutdown(t *testing.T, implementation Implementation) {
	connect := implementation.Store(t)
	items := newItems(12)
	add(t, connect(), items...)
	log := newLog(t)
	busy := make(chan struct{}, len(items))
	var interrupted sync.Map
	var finishing atomic.Int32
	stop := start(t, connect(), log.around(func(ctx context.Context, item task.Item) task.Result {
		busy <- struct{}{}
		<-ctx.Done()
		pause(100 * time.Millisecond) // finishing takes its time
		if finishing.Add(1)%2 == 0 {
			interrupted.Store(item.Task.Name, true)
			return task.Result{Retry: true, After: time.Millisecond}
		}
		return task.Result{}
	}), task.Options{Concurrency: 4})
	for range 4 {
		<-busy
	}
	stop()
	before := log.wait(0)
	if len(before) != 4 {
		t.Fatalf("Run returned when %d of 4 handlers had", len(before))
	}
	start(t, connect(), log.around(done), task.Options{Concurrency: 4})
	seen := map[string]int{}
	for _, call := range log.quiet(len(items)+2, implementation) {
		seen[call.item.Task.Name]++
	}
	for _, item := range items {
		want := 1
		if _, ok := interrupted.Load(item.Task.Name); ok {
			want = 2
		}
		if seen[item.Task.Name] != want {
			t.Errorf("%s was handled %d times, not %d", item.Task.Name, seen[item.Task.Name], want)
		}
	}
}

// shutdownGrace ends a Run whose handler does not care. The item is handled again when the handler is gone.
func shutdownGrace(t *testing.T, implementation Implementation) {
	connect := implementation.Store(t)
	add(t, connect(), newItem("stuck", "key"))
	running, release := make(chan struct{}), make(chan struct{})
	var active, calls atomic.Int32
	handle := func(context.Context, task.Item) task.Result {
		if active.Add(1) > 1 {
			t.Error("handled twice at once")
		}
		defer active.Add(-1)
		if calls.Add(1) == 1 {
			close(running)
			<-release
			return task.Result{Retry: true, After: time.Millisecond}
		}
		return task.Result{}
	}
	log := newLog(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ended := make(chan error, 1)
	grace := 200 * time.Millisecond
	go func() { ended <- connect().Run(ctx, log.around(handle), task.Options{Grace: grace}) }()
	<-running
	cancel()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("Run returned as if all was well")
		}
	case <-time.After(patience):
		t.Fatal("Run did not return")
	}
	start(t, connect(), log.around(handle), task.Options{})
	pause(implementation.Unit)
	close(release)
	log.quiet(2, implementation)
}
