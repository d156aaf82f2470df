package record_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/task"
	"plasmacloud.io/plasmacloud/internal/task/memory"
	"plasmacloud.io/plasmacloud/internal/task/record"
)

// named is a worker of that name with short leases.
func named(name string, lease time.Duration) func(*task.Config) {
	return func(c *task.Config) { c.Identity, c.LeaseDuration = name, lease }
}

func TestAResourceIsWorkedOnByOneWorkerAtATime(t *testing.T) {
	r := newRoom(t)
	var active atomic.Int32
	running, release := make(chan struct{}), make(chan struct{})
	steps := []task.Step{step("a", func(context.Context, *task.Scope) error {
		if active.Add(1) > 1 {
			t.Error("two at once")
		}
		defer active.Add(-1)
		running <- struct{}{}
		<-release
		return nil
	})}
	cluster := r.cluster("dev")
	one, two := r.task(cluster, v1alpha1.OperationCreate), r.task(cluster, v1alpha1.OperationRepair)
	first := r.worker(steps, named("first", 3*time.Second))
	second := r.worker(steps, named("second", 3*time.Second))
	results := make(chan task.Result, 1)
	go func() { results <- first.Handle(t.Context(), task.ItemOf(one)) }()
	<-running

	// A queue that has lost its memory delivers the task again, to the same worker and to another, and another task of
	// the same resource. Nobody begins, also after the lease was prolonged a few times.
	deadline := time.Now().Add(5 * time.Second)
	for time.Now().Before(deadline) {
		for _, w := range []*task.Worker{first, second} {
			for _, item := range []task.Item{task.ItemOf(one), task.ItemOf(two)} {
				if result := w.Handle(t.Context(), item); !result.Retry || result.After <= 0 {
					t.Fatalf("%+v", result)
				}
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	close(release)
	if result := <-results; result.Retry {
		t.Errorf("%+v", result)
	}
	go func() { <-running }()
	if done := r.handle(second, two); done.Status.Phase != v1alpha1.TaskSucceeded {
		t.Errorf("%+v", done.Status)
	}
	var leases coordinationv1.LeaseList
	r.must(r.List(t.Context(), &leases, client.InNamespace(r.namespace)))
	if len(leases.Items) != 0 {
		t.Errorf("leases are left: %v", leases.Items)
	}
}

// unprolonged is a record whose leases cannot be prolonged: the worker is cut off from the API.
type unprolonged struct{ task.Record }

type unprolongedLease struct{ task.Lease }

func (u unprolonged) Acquire(ctx context.Context, t *v1alpha1.Task, holder string, duration time.Duration) (task.Lease, error) {
	lease, err := u.Record.Acquire(ctx, t, holder, duration)
	return unprolongedLease{lease}, err
}

func (unprolongedLease) Renew(context.Context) error { return errors.New("the API is away") }

func TestAWorkerThatIsCutOffStopsBeforeAnotherTakesOver(t *testing.T) {
	r := newRoom(t)
	const lease = 2 * time.Second
	var stopped, takenOver atomic.Int64
	steps := []task.Step{step("a", func(ctx context.Context, scope *task.Scope) error {
		if scope.Attempt > 1 {
			takenOver.Store(time.Now().UnixNano())
			return nil
		}
		<-ctx.Done()
		stopped.Store(time.Now().UnixNano())
		if !errors.Is(context.Cause(ctx), task.ErrLost) {
			t.Errorf("the step was stopped by %v", context.Cause(ctx))
		}
		return ctx.Err()
	})}
	interrupted := r.task(r.cluster("dev"), v1alpha1.OperationCreate)
	cutOff := r.worker(steps, named("first", lease), func(c *task.Config) { c.Record = unprolonged{r.record} })
	results := make(chan task.Result, 1)
	go func() { results <- cutOff.Handle(t.Context(), task.ItemOf(interrupted)) }()
	// It does not give its lease back: nobody hears from it again.
	fence := interrupted.Status.Fence
	for fence == 0 {
		r.reload(interrupted)
		fence = interrupted.Status.Fence
	}
	done := r.handle(r.worker(steps, named("second", lease)), interrupted)
	if result := <-results; !result.Retry {
		t.Errorf("%+v", result)
	}
	if stopped.Load() == 0 || takenOver.Load() < stopped.Load() {
		t.Error("another worker took over before the first had stopped")
	}
	if done.Status.Phase != v1alpha1.TaskSucceeded || done.Status.Worker != "second" || done.Status.Fence <= fence {
		t.Errorf("%+v", done.Status)
	}
}

func TestWhatAReplacedWorkerWritesIsRefused(t *testing.T) {
	r := newRoom(t)
	replaced := r.task(r.cluster("dev"), v1alpha1.OperationCreate)
	running, release := make(chan struct{}), make(chan struct{})
	steps := []task.Step{step("a", func(_ context.Context, scope *task.Scope) error {
		if scope.Attempt == 1 {
			close(running)
			<-release // deaf to its context
			scope.SetOutput("from", "the replaced worker")
		}
		return nil
	}), step("b", nil)}
	results := make(chan task.Result, 1)
	deaf := r.worker(steps, named("first", time.Second), func(c *task.Config) { c.Record = unprolonged{r.record} })
	go func() { results <- deaf.Handle(t.Context(), task.ItemOf(replaced)) }()
	<-running
	done := r.handle(r.worker(steps, named("second", time.Second)), replaced)
	close(release)
	if result := <-results; !result.Retry {
		t.Errorf("%+v", result)
	}
	r.reload(done)
	if done.Status.Worker != "second" || done.Status.Outputs["from"] != "" || done.Status.Phase != v1alpha1.TaskSucceeded {
		t.Errorf("%+v", done.Status)
	}
}

func TestAWorkerThatTakesADeadOnesPlaceDoesNotWait(t *testing.T) {
	r := newRoom(t)
	unfinished := r.task(r.cluster("dev"), v1alpha1.OperationCreate)
	if _, err := r.record.Acquire(t.Context(), unfinished, "worker-1", time.Hour); err != nil {
		t.Fatal(err)
	}
	held := (*task.HeldError)(nil)
	if _, err := r.record.Acquire(t.Context(), unfinished, "worker-2", time.Hour); !errors.As(err, &held) || held.Holder != "worker-1" {
		t.Fatal(err)
	}
	if result := r.worker([]task.Step{step("a", nil)}).Handle(t.Context(), task.ItemOf(unfinished)); result.Retry {
		t.Errorf("%+v", result)
	}
}

func TestATaskThatIsDeletedIsForgotten(t *testing.T) {
	r := newRoom(t)
	deleted := r.task(r.cluster("dev"), v1alpha1.OperationCreate)
	w := r.worker([]task.Step{step("a", func(context.Context, *task.Scope) error { return r.Delete(t.Context(), deleted) }),
		step("b", func(context.Context, *task.Scope) error { t.Error("it was not forgotten"); return nil })})
	for range 2 {
		if result := w.Handle(t.Context(), task.ItemOf(deleted)); result.Retry {
			t.Errorf("%+v", result)
		}
	}
}

func TestOthersMayChangeATaskMeanwhile(t *testing.T) {
	r := newRoom(t)
	labelled := r.task(r.cluster("dev"), v1alpha1.OperationCreate)
	w := r.worker([]task.Step{step("a", func(context.Context, *task.Scope) error {
		r.reload(labelled)
		labelled.Labels = map[string]string{"by": "others"}
		return r.Update(t.Context(), labelled)
	}), step("b", nil)})
	if done := r.handle(w, labelled); done.Status.Phase != v1alpha1.TaskSucceeded || done.Labels["by"] != "others" {
		t.Errorf("%+v", done)
	}
}

// stale is a client whose cache is behind: it knows a task as it was long ago, and no clusters.
type stale struct {
	client.Client
	task *v1alpha1.Task
}

func (s stale) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if t, ok := object.(*v1alpha1.Task); ok && s.task.Name == key.Name {
		s.task.DeepCopyInto(t)
		return nil
	}
	return s.Client.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name + "-not-there"}, object, options...)
}

func TestACacheThatIsBehindDoesNoHarm(t *testing.T) {
	r := newRoom(t)
	runs := 0
	steps := []task.Step{step("a", func(context.Context, *task.Scope) error { runs++; return nil })}
	fresh := r.task(r.cluster("dev"), v1alpha1.OperationCreate)
	behind := record.New(stale{Client: r.Client, task: fresh.DeepCopy()}, r.Client, clock.RealClock{})
	w := r.worker(steps, func(c *task.Config) { c.Record = behind })
	for range 2 { // when it is delivered again, the cache says still that nothing was done
		if result := w.Handle(t.Context(), task.ItemOf(fresh)); result.Retry {
			t.Fatalf("%+v", result)
		}
	}
	if runs != 1 {
		t.Errorf("the step ran %d times", runs)
	}
}

func TestAnAPIThatIsAwayForAWhileCostsNoWork(t *testing.T) {
	r := newRoom(t)
	runs := 0
	away := errors.New("the API is away")
	w := r.worker([]task.Step{step("a", func(context.Context, *task.Scope) error {
		runs++
		r.record.fail.Store(&away)
		time.AfterFunc(time.Second, func() { r.record.fail.Store(nil) })
		return nil
	}), step("b", nil)})
	if done := r.handle(w, r.task(r.cluster("dev"), v1alpha1.OperationCreate)); done.Status.Phase != v1alpha1.TaskSucceeded || runs != 1 {
		t.Errorf("after %d runs: %+v", runs, done.Status)
	}
}

func TestShutdownLetsAStepFinishAndStopsAtTheBoundary(t *testing.T) {
	r := newRoom(t)
	stopping := r.task(r.cluster("dev"), v1alpha1.OperationCreate)
	ctx, cancel := context.WithCancel(t.Context())
	runs := map[string]int{}
	w := r.worker([]task.Step{
		step("a", func(ctx context.Context, _ *task.Scope) error {
			runs["a"]++
			cancel()
			select {
			case <-ctx.Done():
				t.Error("the step was not given its grace")
			case <-time.After(500 * time.Millisecond):
			}
			return nil
		}),
		step("b", func(context.Context, *task.Scope) error { runs["b"]++; return nil }),
	})
	if result := w.Handle(ctx, task.ItemOf(stopping)); !result.Retry || runs["b"] != 0 {
		t.Fatalf("%+v after %v", result, runs)
	}
	r.reload(stopping)
	if got := summary(stopping.Status); got != "Running 1/2 a=Succeeded/1 b=Pending/0" {
		t.Error(got)
	}
	if done := r.handle(w, stopping); done.Status.Phase != v1alpha1.TaskSucceeded || runs["a"] != 1 {
		t.Errorf("%v: %+v", runs, done.Status)
	}
}

func TestShutdownInterruptsAStepThatTakesTooLong(t *testing.T) {
	r := newRoom(t)
	slow := r.task(r.cluster("dev"), v1alpha1.OperationCreate)
	ctx, cancel := context.WithCancel(t.Context())
	w := r.worker([]task.Step{step("slow", func(ctx context.Context, scope *task.Scope) error {
		if scope.Attempt == 1 {
			cancel()
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	})}, func(c *task.Config) { c.Grace = 200 * time.Millisecond })
	if result := w.Handle(ctx, task.ItemOf(slow)); !result.Retry {
		t.Fatalf("%+v", result)
	}
	r.reload(slow)
	if got := summary(slow.Status); got != "Running 1/1 slow=Pending/1" || slow.Status.Error != "" || slow.Status.RetryAt != nil {
		t.Errorf("%s %+v", got, slow.Status)
	}
	if done := r.handle(w, slow); done.Status.Phase != v1alpha1.TaskSucceeded {
		t.Errorf("%+v", done.Status)
	}
}

func TestAWorkerBehindAQueue(t *testing.T) {
	r := newRoom(t)
	queue := memory.New(clock.RealClock{}, slog.New(slog.DiscardHandler))
	adder := task.Adder{Queue: queue}
	w := r.worker([]task.Step{step("a", nil), step("flaky", func(_ context.Context, scope *task.Scope) error {
		if scope.Attempt == 1 {
			return errors.New("no luck")
		}
		return nil
	})})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- queue.Run(ctx, w.Handle, task.Options{Concurrency: 4}) }()
	var tasks []*v1alpha1.Task
	for _, name := range []string{"one", "two", "three"} {
		tasks = append(tasks, r.task(r.cluster(name), v1alpha1.OperationCreate))
		r.must(adder.Add(t.Context(), tasks[len(tasks)-1]))
	}
	r.await(tasks...)
	cancel()
	r.must(<-ended)
}

// await waits until tasks have succeeded.
func (r *room) await(tasks ...*v1alpha1.Task) {
	r.Helper()
	deadline := time.Now().Add(3 * time.Minute)
	for _, waited := range tasks {
		for r.reload(waited); waited.Status.Phase != v1alpha1.TaskSucceeded; r.reload(waited) {
			if waited.Status.Phase.Finished() || time.Now().After(deadline) {
				r.Fatalf("%s: %+v", waited.Name, waited.Status)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
}
