package queuetest

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/task"
)

func everyItemOnce(t *testing.T, implementation Implementation) {
	queue := implementation.Store(t)()
	log := newLog(t)
	start(t, queue, log.around(done), task.Options{Concurrency: 4})
	items := newItems(50)
	add(t, queue, items...)
	seen := map[string]int{}
	for _, call := range log.quiet(len(items), implementation) {
		seen[call.item.Task.Name]++
	}
	for _, item := range items {
		if seen[item.Task.Name] != 1 {
			t.Errorf("%s was handled %d times", item.Task.Name, seen[item.Task.Name])
		}
	}
}

func oneItemPerKey(t *testing.T, implementation Implementation) {
	connect := implementation.Store(t)
	log := newLog(t)
	var mu sync.Mutex
	active := map[string]int{}
	handle := func(_ context.Context, item task.Item) task.Result {
		mu.Lock()
		active[item.Key]++
		if active[item.Key] > 1 {
			t.Errorf("%d items of %s at once", active[item.Key], item.Key)
		}
		mu.Unlock()
		pause(50 * time.Millisecond)
		mu.Lock()
		active[item.Key]--
		mu.Unlock()
		return task.Result{}
	}
	queue := connect()
	for range 2 {
		start(t, connect(), log.around(handle), task.Options{Concurrency: 8})
	}
	const keys, perKey = 4, 4
	for i, item := range newItems(keys * perKey) {
		item.Key = []string{"a", "b", "c", "d"}[i%keys]
		add(t, queue, item)
	}
	log.wait(keys * perKey)
}

func inQueueOnce(t *testing.T, implementation Implementation) {
	queue := implementation.Store(t)()
	item := newItem("same", "key")
	add(t, queue, item, item, item)
	log := newLog(t)
	running, release := make(chan struct{}), make(chan struct{})
	var first sync.Once
	start(t, queue, log.around(func(context.Context, task.Item) task.Result {
		first.Do(func() { close(running); <-release })
		return task.Result{}
	}), task.Options{Concurrency: 4})
	<-running
	add(t, queue, item, item) // its handler reads the record as it goes
	close(release)
	log.quiet(1, implementation)
	add(t, queue, item)
	log.quiet(2, implementation)
}

func priorities(t *testing.T, implementation Implementation) {
	queue := implementation.Store(t)()
	var items []task.Item
	for i, item := range newItems(10) {
		item.Priority = []int32{0, 30, -5, 10, 20}[i%5]
		for n := 0; task.Slot(item.Key, 2) != 0; n++ { // what is in different shards has no order
			item.Key = fmt.Sprintf("%s-%d", item.Task.Name, n)
		}
		items = append(items, item)
	}
	add(t, queue, items...)
	log := newLog(t)
	start(t, queue, log.around(done), task.Options{Concurrency: 1})
	var names []string
	for _, call := range log.wait(len(items)) {
		names = append(names, call.item.Task.Name[len("task-"):])
	}
	want := []string{"001", "006", "004", "009", "003", "008", "000", "005", "002", "007"}
	for i := range want {
		if names[i] != want[i] {
			t.Fatalf("handled in the order %v, not %v", names, want)
		}
	}
}

func concurrency(t *testing.T, implementation Implementation) {
	queue := implementation.Store(t)()
	const limit = 3
	var active, most atomic.Int32
	full := make(chan struct{})
	var once sync.Once
	log := newLog(t)
	start(t, queue, log.around(func(context.Context, task.Item) task.Result {
		now := active.Add(1)
		defer active.Add(-1)
		for {
			if seen := most.Load(); now <= seen || most.CompareAndSwap(seen, now) {
				break
			}
		}
		if now == limit {
			once.Do(func() { close(full) })
		}
		select { // until as many as possible run
		case <-full:
		case <-time.After(patience / 2):
		}
		pause(20 * time.Millisecond)
		return task.Result{}
	}), task.Options{Concurrency: limit})
	add(t, queue, newItems(12)...)
	log.wait(12)
	if most.Load() != limit {
		t.Errorf("%d handlers ran at once, not %d", most.Load(), limit)
	}
}

func manyConsumers(t *testing.T, implementation Implementation) {
	connect := implementation.Store(t)
	items := newItems(60)
	add(t, connect(), items...)
	log := newLog(t)
	const consumers = 3
	var counts [consumers]atomic.Int32
	for i := range consumers {
		start(t, connect(), log.around(func(context.Context, task.Item) task.Result {
			counts[i].Add(1)
			pause(20 * time.Millisecond)
			return task.Result{}
		}), task.Options{Concurrency: 2})
	}
	log.quiet(len(items), implementation)
	for i := range counts {
		if counts[i].Load() == 0 {
			t.Errorf("consumer %d got nothing", i)
		}
	}
}

func shards(t *testing.T, implementation Implementation) {
	connect := implementation.Store(t)
	log := newLog(t)
	for index := range 2 {
		shard := task.Shard{Index: index, Count: 2}
		start(t, connect(), log.around(func(_ context.Context, item task.Item) task.Result {
			if !shard.Owns(item.Key) {
				t.Errorf("shard %d got %s", index, item.Key)
			}
			return task.Result{}
		}), task.Options{Concurrency: 2, Shard: shard})
	}
	add(t, connect(), newItems(20)...)
	owned := 0
	for _, call := range log.quiet(20, implementation) {
		if (task.Shard{Index: 0, Count: 2}).Owns(call.item.Key) {
			owned++
		}
	}
	if owned == 0 || owned == 20 {
		t.Errorf("one shard got everything")
	}
}

func refusal(t *testing.T, implementation Implementation) {
	queue := implementation.Store(t)()
	if err := queue.Add(t.Context(), task.Item{}); err == nil {
		t.Error("an empty item was taken")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := queue.Run(ctx, done, task.Options{Shard: task.Shard{Index: 2, Count: 2}}); err == nil {
		t.Error("a shard that cannot be was run")
	}
}
