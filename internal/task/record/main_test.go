package record_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/task"
	"plasmacloud.io/plasmacloud/internal/task/record"
	"plasmacloud.io/plasmacloud/internal/testapi"
)

var api *testapi.Server

func TestMain(m *testing.M) {
	if os.Getenv(victimEnv) != "" {
		victim()
		return
	}
	os.Exit(testapi.Main(m, &api))
}

func newClient(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		return nil, err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return client.New(config, client.Options{Scheme: scheme})
}

// room is a namespace with a cluster in it, and what is needed to work on that.
type room struct {
	*testing.T
	client.Client
	namespace string
	record    *watched
}

func newRoom(t *testing.T) *room {
	t.Helper()
	c, err := newClient(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	r := &room{T: t, Client: c, namespace: api.Namespace(t)}
	r.record = &watched{Record: record.New(c, c, clock.RealClock{})}
	return r
}

// cluster makes a cluster.
func (r *room) cluster(name string) *v1alpha1.Cluster {
	r.Helper()
	cluster := &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name, Finalizers: []string{v1alpha1.Finalizer}},
		Spec:       v1alpha1.ClusterSpec{Type: v1alpha1.ClusterFake},
	}
	r.must(r.Create(r.Context(), cluster))
	return cluster
}

// task makes a task that brings a cluster to the generation that it has now.
func (r *room) task(cluster *v1alpha1.Cluster, operation v1alpha1.Operation, change ...func(*v1alpha1.Task)) *v1alpha1.Task {
	r.Helper()
	t := &v1alpha1.Task{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, GenerateName: cluster.Name + "-"},
		Spec: v1alpha1.TaskSpec{
			Resource:  v1alpha1.ResourceReference{Kind: "Cluster", Name: cluster.Name, UID: string(cluster.UID)},
			Operation: operation, Generation: cluster.Generation,
		},
	}
	for _, f := range change {
		f(t)
	}
	r.must(r.Create(r.Context(), t))
	return t
}

// edit changes the spec of a cluster, so that there is a newer generation.
func (r *room) edit(cluster *v1alpha1.Cluster) {
	r.Helper()
	r.reload(cluster)
	cluster.Spec.DeletionProtection = !cluster.Spec.DeletionProtection
	r.must(r.Update(r.Context(), cluster))
}

func (r *room) reload(object client.Object) {
	r.Helper()
	r.must(r.Get(context.Background(), client.ObjectKeyFromObject(object), object))
}

func (r *room) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// worker makes a worker; the steps are those of every operation.
func (r *room) worker(steps []task.Step, change ...func(*task.Config)) *task.Worker {
	r.Helper()
	config := task.Config{
		Record:   r.record,
		Planner:  plan(steps),
		Identity: "worker-1",
		Version:  "v1",
		Clock:    clock.RealClock{},
		Log:      slog.New(slog.DiscardHandler),
		Backoff:  task.Backoff{First: 50 * time.Millisecond, Max: time.Second},
	}
	for _, f := range change {
		f(&config)
	}
	w, err := task.NewWorker(config)
	r.must(err)
	return w
}

// handle handles a task until it is finished, as a queue would, and returns it.
func (r *room) handle(w *task.Worker, t *v1alpha1.Task) *v1alpha1.Task {
	r.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		result := w.Handle(r.Context(), task.ItemOf(t))
		r.reload(t)
		if !result.Retry {
			if !t.Status.Phase.Finished() {
				r.Fatalf("the worker is done, the task is not: %+v", t.Status)
			}
			return t
		}
		if t.Status.Phase.Finished() || time.Now().After(deadline) {
			r.Fatalf("the worker is not done: %+v", t.Status)
		}
		time.Sleep(result.After)
	}
}

// plan is a planner of always the same steps.
type plan []task.Step

func (p plan) Steps(*v1alpha1.Task, task.Object) ([]task.Step, error) { return p, nil }

// step is a step that does what f does, or nothing.
func step(name string, f func(ctx context.Context, scope *task.Scope) error) task.Step {
	if f == nil {
		f = func(context.Context, *task.Scope) error { return nil }
	}
	return task.Step{Name: name, Run: f}
}

// watched is a record that remembers what was written, and fails when told to.
type watched struct {
	task.Record
	fail atomic.Pointer[error]

	mu       sync.Mutex
	statuses []v1alpha1.TaskStatus
	times    []time.Time
}

func (w *watched) WriteStatus(ctx context.Context, t *v1alpha1.Task) (*v1alpha1.Task, error) {
	if err := w.fail.Load(); err != nil {
		return nil, *err
	}
	written, err := w.Record.WriteStatus(ctx, t)
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.statuses = append(w.statuses, *written.Status.DeepCopy())
		w.times = append(w.times, time.Now())
	}
	return written, err
}

// writes returns everything that was written.
func (w *watched) writes() []v1alpha1.TaskStatus {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.statuses)
}

// summary is a status in one line, without times.
func summary(s v1alpha1.TaskStatus) string {
	line := fmt.Sprintf("%s %s", s.Phase, s.Progress)
	for _, step := range s.Steps {
		line += fmt.Sprintf(" %s=%s/%d", step.Name, step.Phase, step.Attempts)
	}
	return line
}
