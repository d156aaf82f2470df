package record_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/task"
	"plasmacloud.io/plasmacloud/internal/task/record"
)

// victimEnv makes the test binary a worker that is killed; it holds the order.
const victimEnv = "TASK_VICTIM"

// order tells a victim what to do and when to die.
type order struct {
	Kubeconfig string
	Item       task.Item
	Dir        string // where the steps leave their traces
	DieAt      int32  // the number of the point; never where it is 0
}

// reaper kills its own process, with a signal that cannot be caught, at a point given by its number. Points are before
// and after every request to the API, and at the beginning, in the middle and at the end of every step.
type reaper struct {
	dieAt int32
	seen  atomic.Int32
}

func (r *reaper) point() {
	if r.seen.Add(1) == r.dieAt {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {} // it takes a moment
	}
}

// victim is the whole program of a worker.
func victim() {
	var o order
	if err := json.Unmarshal([]byte(os.Getenv(victimEnv)), &o); err != nil {
		panic(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		panic(err)
	}
	c, err := newClient(config)
	if err != nil {
		panic(err)
	}
	r := &reaper{dieAt: o.DieAt}
	w, err := task.NewWorker(task.Config{
		Record:  deadly{record.New(c, c, clock.RealClock{}), r},
		Planner: plan(tracedSteps(o.Dir, r.point)), Identity: "victim", Version: "v1",
		Clock: clock.RealClock{}, Log: slog.New(slog.DiscardHandler), LeaseDuration: 2 * time.Second,
	})
	if err != nil {
		panic(err)
	}
	if result := w.Handle(context.Background(), o.Item); result.Retry {
		panic("the victim could not finish")
	}
}

// deadly is a record around whose requests a process may die.
type deadly struct {
	task.Record
	reaper *reaper
}

func (d deadly) Task(ctx context.Context, name types.NamespacedName) (*v1alpha1.Task, error) {
	d.reaper.point()
	defer d.reaper.point()
	return d.Record.Task(ctx, name)
}

func (d deadly) Object(ctx context.Context, t *v1alpha1.Task) (task.Object, error) {
	d.reaper.point()
	defer d.reaper.point()
	return d.Record.Object(ctx, t)
}

func (d deadly) WriteStatus(ctx context.Context, t *v1alpha1.Task) (*v1alpha1.Task, error) {
	d.reaper.point()
	defer d.reaper.point()
	return d.Record.WriteStatus(ctx, t)
}

func (d deadly) Acquire(ctx context.Context, t *v1alpha1.Task, holder string, duration time.Duration) (task.Lease, error) {
	d.reaper.point()
	defer d.reaper.point()
	lease, err := d.Record.Acquire(ctx, t, holder, duration)
	return deadlyLease{lease, d.reaper}, err
}

type deadlyLease struct {
	task.Lease
	reaper *reaper
}

func (d deadlyLease) Release(ctx context.Context) error {
	d.reaper.point()
	defer d.reaper.point()
	return d.Lease.Release(ctx)
}

var tracedNames = []string{"a", "b", "c"}

// tracedSteps are steps that each make one thing, a file, find it again when they are run again, and leave a trace.
func tracedSteps(dir string, point func()) []task.Step {
	var steps []task.Step
	for _, name := range tracedNames {
		steps = append(steps, step(name, func(_ context.Context, scope *task.Scope) error {
			trace(dir, "begin "+name)
			point()
			file, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err != nil && !errors.Is(err, os.ErrExist) {
				return err
			}
			file.Close()
			point()
			scope.SetOutput(name, "made")
			trace(dir, "end "+name)
			point()
			return nil
		}))
	}
	return steps
}

func trace(dir, line string) {
	file, err := os.OpenFile(filepath.Join(dir, "trace"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	defer file.Close()
	fmt.Fprintln(file, line)
}

// sacrifice runs a victim and tells whether it died as ordered. If not, it has finished the task.
func (r *room) sacrifice(o order) (died bool) {
	r.Helper()
	content, err := json.Marshal(o)
	r.must(err)
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), victimEnv+"="+string(content))
	output, err := command.CombinedOutput()
	if err == nil {
		return false
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == syscall.SIGKILL {
			return true
		}
	}
	r.Fatalf("%v: %s", err, output)
	return false
}

func TestAWorkerMayBeKilledAtAnyPoint(t *testing.T) {
	kubeconfig := api.Kubeconfig(t)
	const atOnce = 3
	var points atomic.Int32
	for lane := range atOnce {
		t.Run(fmt.Sprint("lane ", lane), func(t *testing.T) {
			t.Parallel()
			r := newRoom(t)
			finished := false // a victim has come to the end
			for point := int32(lane + 1); !finished; point += atOnce {
				cluster := r.cluster(fmt.Sprint("point-", point))
				killed := r.task(cluster, v1alpha1.OperationCreate)
				dir := t.TempDir()
				if !r.sacrifice(order{Kubeconfig: kubeconfig, Item: task.ItemOf(killed), Dir: dir, DieAt: point}) {
					finished = true
				} else {
					points.Add(1)
				}
				// Its successor has its name, and need not wait.
				w := r.worker(tracedSteps(dir, func() {}), named("victim", 2*time.Second))
				r.checkResumed(r.handle(w, killed), dir, point)
			}
		})
	}
	t.Cleanup(func() {
		// A request that a busy machine made it repeat is two more.
		if n := points.Load(); n < 29 && !t.Failed() {
			t.Errorf("there were %d points", n)
		}
	})
}

// checkResumed checks that every step was done, in order, and none more than once without need.
func (r *room) checkResumed(done *v1alpha1.Task, dir string, point int32) {
	r.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "trace"))
	r.must(err)
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	begun, last := map[string]int{}, ""
	for _, line := range lines {
		if name, ok := strings.CutPrefix(line, "begin "); ok {
			if begun[name]++; name < last {
				r.Errorf("point %d: step %s was run after step %s", point, name, last)
			}
			last = name
		}
	}
	again := 0
	for i, name := range tracedNames {
		again += begun[name] - 1
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil || begun[name] == 0 {
			r.Errorf("point %d: step %s was not done: %v", point, name, err)
		}
		step := done.Status.Steps[i]
		if step.Phase != v1alpha1.TaskSucceeded || step.Attempts < int32(begun[name]) || done.Status.Outputs[name] != "made" {
			r.Errorf("point %d: step %s is recorded as %+v", point, name, step)
		}
	}
	if again > 1 {
		r.Errorf("point %d: %d steps were done again: %v", point, again, lines)
	}
	if done.Status.Phase != v1alpha1.TaskSucceeded || done.Status.Progress != "3/3" {
		r.Errorf("point %d: %+v", point, done.Status)
	}
}

func TestAnotherWorkerTakesOverFromOneThatWasKilled(t *testing.T) {
	r := newRoom(t)
	killed := r.task(r.cluster("dev"), v1alpha1.OperationCreate)
	dir := t.TempDir()
	const inTheMiddleOfB = 19
	if !r.sacrifice(order{Kubeconfig: api.Kubeconfig(t), Item: task.ItemOf(killed), Dir: dir, DieAt: inTheMiddleOfB}) {
		t.Fatal("the victim lives")
	}
	r.reload(killed)
	if killed.Status.Worker != "victim" || killed.Status.Phase != v1alpha1.TaskRunning || killed.Status.Step != "b" {
		t.Fatalf("%+v", killed.Status)
	}
	began := time.Now()
	done := r.handle(r.worker(tracedSteps(dir, func() {}), named("other", 2*time.Second)), killed)
	r.checkResumed(done, dir, inTheMiddleOfB)
	if done.Status.Worker != "other" {
		t.Errorf("%+v", done.Status)
	}
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
}
