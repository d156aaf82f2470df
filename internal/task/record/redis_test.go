package record_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/task"
	"plasmacloud.io/plasmacloud/internal/task/redis"
	"plasmacloud.io/plasmacloud/internal/task/redis/redistest"
)

// ledger is what the steps do: it finds out when something is done twice.
type ledger struct {
	t *testing.T

	mu     sync.Mutex
	active map[string]string // the step that runs, by resource
	runs   map[string]int    // by task and step
}

func (l *ledger) steps() []task.Step {
	var steps []task.Step
	for _, name := range []string{"a", "b", "c"} {
		steps = append(steps, step(name, func(_ context.Context, scope *task.Scope) error {
			resource, what := scope.Object.GetName(), scope.Task.Name+" "+name
			l.mu.Lock()
			if other := l.active[resource]; other != "" {
				l.t.Errorf("%s: %s and %s at once", resource, what, other)
			}
			l.active[resource] = what
			l.runs[what]++
			l.mu.Unlock()
			time.Sleep(300 * time.Millisecond)
			l.mu.Lock()
			delete(l.active, resource)
			l.mu.Unlock()
			return nil
		}))
	}
	return steps
}

// refill does what the controller of tasks does: whatever is unfinished is in the queue.
func (r *room) refill(ctx context.Context, adder task.Adder) {
	for ctx.Err() == nil {
		var tasks v1alpha1.TaskList
		if err := r.List(ctx, &tasks, client.InNamespace(r.namespace)); err == nil {
			for i := range tasks.Items {
				if t := &tasks.Items[i]; !t.Status.Phase.Finished() {
					_ = adder.Add(ctx, t) // Redis may be away; the next time will do
				}
			}
		}
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// forget makes Redis give away what is being handled, as it does when it was away for longer than its leases last.
func forget(t *testing.T, server *redistest.Server) {
	t.Helper()
	c := server.Client()
	defer c.Close()
	ctx := t.Context()
	locks, err := c.Keys(ctx, "plasmacloud:lock:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, lock := range locks {
		c.Del(ctx, lock)
	}
	leases, err := c.Keys(ctx, "asynq:{*}:lease").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, lease := range leases {
		for _, id := range c.ZRange(ctx, lease, 0, -1).Val() {
			c.ZAddXX(ctx, lease, goredis.Z{Score: 1, Member: id})
		}
	}
}

func TestRedisMayBeStoppedLostOrEmptied(t *testing.T) {
	r := newRoom(t)
	server := redistest.New(t)
	l := &ledger{t: t, active: map[string]string{}, runs: map[string]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, name := range []string{"first", "second"} {
		queue, err := redis.New(redis.Config{Address: server.Address, Password: server.Password}, slog.New(slog.DiscardHandler))
		r.must(err)
		w := r.worker(l.steps(), named(name, 3*time.Second))
		running.Go(func() {
			if err := queue.Run(ctx, w.Handle, task.Options{Concurrency: 3}); err != nil {
				t.Error(err)
			}
		})
		running.Go(func() { r.refill(ctx, task.Adder{Queue: queue}) })
		defer queue.Close()
	}

	var tasks []*v1alpha1.Task
	for round, trouble := range []func(){
		func() { server.Stop(); time.Sleep(time.Second); server.Start(t) },
		func() { server.Stop(); server.Lose(t); server.Start(t) },
		func() { server.Flush(t) },
		func() { forget(t, server) },
		func() { server.Flush(t); time.Sleep(200 * time.Millisecond); server.Flush(t) },
	} {
		for i := range 4 {
			cluster := r.cluster(fmt.Sprintf("r%d-%d", round, i))
			tasks = append(tasks, r.task(cluster, v1alpha1.OperationCreate))
			if i == 0 { // two tasks of one resource
				tasks = append(tasks, r.task(cluster, v1alpha1.OperationRepair))
			}
		}
		time.Sleep(700 * time.Millisecond) // some are under way, some wait
		trouble()
	}
	r.await(tasks...)
	cancel()
	running.Wait()
	for _, done := range tasks {
		for _, name := range []string{"a", "b", "c"} {
			if runs := l.runs[done.Name+" "+name]; runs != 1 {
				t.Errorf("step %s of %s was done %d times", name, done.Name, runs)
			}
		}
	}
}

// Two workers, each of one shard of two: every task is done by the worker of its shard, and every step once, although
// both of them queue all tasks again and again.
func TestShardsDivideTheTasks(t *testing.T) {
	r := newRoom(t)
	server := redistest.New(t)
	l := &ledger{t: t, active: map[string]string{}, runs: map[string]int{}}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	const shards = 2
	for index := range shards {
		queue, err := redis.New(redis.Config{Address: server.Address, Password: server.Password, Partitions: shards}, slog.New(slog.DiscardHandler))
		r.must(err)
		defer queue.Close()
		w := r.worker(l.steps(), named(fmt.Sprint("worker-", index), 3*time.Second))
		running.Go(func() {
			if err := queue.Run(ctx, w.Handle, task.Options{Concurrency: 4, Shard: task.Shard{Index: index, Count: shards}}); err != nil {
				t.Error(err)
			}
		})
		running.Go(func() { r.refill(ctx, task.Adder{Queue: queue}) })
	}
	var tasks []*v1alpha1.Task
	for i := range 16 {
		tasks = append(tasks, r.task(r.cluster(fmt.Sprint("s", i)), v1alpha1.OperationCreate))
	}
	r.await(tasks...)
	cancel()
	running.Wait()
	did := map[string]int{}
	for _, done := range tasks {
		did[done.Status.Worker]++
		if owner := fmt.Sprint("worker-", task.Slot(task.KeyOf(done), shards)); done.Status.Worker != owner {
			t.Errorf("%s was done by %s, and belongs to %s", done.Name, done.Status.Worker, owner)
		}
		for _, name := range []string{"a", "b", "c"} {
			if runs := l.runs[done.Name+" "+name]; runs != 1 {
				t.Errorf("step %s of %s was done %d times", name, done.Name, runs)
			}
		}
	}
	if len(did) != shards {
		t.Errorf("the tasks were done by %v", did)
	}
}
