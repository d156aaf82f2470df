package task_test

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/controller/task"
	"plasmacloud.io/plasmacloud/internal/testapi"
)

var api *testapi.Server

func TestMain(m *testing.M) { os.Exit(testapi.Main(m, &api)) }

// queue is one that remembers what was added, and may be away.
type queue struct {
	mutex sync.Mutex
	added []string
	away  int // so many times more
}

func (q *queue) Add(_ context.Context, t *v1alpha1.Task) error {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if q.away > 0 {
		q.away--
		return errors.New("connection refused")
	}
	q.added = append(q.added, t.Namespace+"/"+t.Name)
	return nil
}

func (q *queue) times(t *v1alpha1.Task) int {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	return len(slices.DeleteFunc(slices.Clone(q.added), func(name string) bool { return name != t.Namespace+"/"+t.Name }))
}

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return scheme
}

// someTask stores a task with a status.
func someTask(t *testing.T, c client.Client, namespace, name string, status v1alpha1.TaskStatus) *v1alpha1.Task {
	t.Helper()
	made := &v1alpha1.Task{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: v1alpha1.TaskSpec{
		Resource:  v1alpha1.ResourceReference{Kind: "Cluster", Name: "dev", UID: "u"},
		Operation: v1alpha1.OperationCreate, Generation: 1,
	}}
	if err := c.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	made.Status = status
	if err := c.Status().Update(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	return made
}

func TestWhenATaskIsLookedAtAgain(t *testing.T) {
	c, err := client.New(api.Config(), client.Options{Scheme: scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	namespace := api.Namespace(t)
	now := time.Now().Truncate(time.Second)
	at := func(after time.Duration) *metav1.Time { return &metav1.Time{Time: now.Add(after)} }
	for name, test := range map[string]struct {
		status v1alpha1.TaskStatus
		added  int
		again  time.Duration
		gone   bool
	}{
		"new":             {v1alpha1.TaskStatus{}, 1, 20 * time.Second, false},
		"running":         {v1alpha1.TaskStatus{Phase: v1alpha1.TaskRunning}, 1, 20 * time.Second, false},
		"retried-later":   {v1alpha1.TaskStatus{Phase: v1alpha1.TaskRunning, RetryAt: at(5 * time.Minute)}, 1, 5 * time.Minute, false},
		"retried-soon":    {v1alpha1.TaskStatus{Phase: v1alpha1.TaskRunning, RetryAt: at(time.Second)}, 1, 20 * time.Second, false},
		"retry-missed":    {v1alpha1.TaskStatus{Phase: v1alpha1.TaskRunning, RetryAt: at(-time.Hour)}, 1, 20 * time.Second, false},
		"just-done":       {v1alpha1.TaskStatus{Phase: v1alpha1.TaskSucceeded, FinishedAt: at(-24 * time.Hour)}, 0, 6 * 24 * time.Hour, false},
		"done-long-ago":   {v1alpha1.TaskStatus{Phase: v1alpha1.TaskSucceeded, FinishedAt: at(-7 * 24 * time.Hour)}, 0, 0, true},
		"failed-long-ago": {v1alpha1.TaskStatus{Phase: v1alpha1.TaskFailed, FinishedAt: at(-8 * 24 * time.Hour)}, 0, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			q := &queue{}
			reconciler := &task.Reconciler{Client: c, Queue: q, Now: func() time.Time { return now }}
			made := someTask(t, c, namespace, name, test.status)
			result, err := reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(made)})
			if err != nil || result.RequeueAfter != test.again {
				t.Errorf("again after %v (%v), want %v", result.RequeueAfter, err, test.again)
			}
			if got := q.times(made); got != test.added {
				t.Errorf("added %d times, want %d", got, test.added)
			}
			err = c.Get(t.Context(), client.ObjectKeyFromObject(made), made)
			if apierrors.IsNotFound(err) != test.gone {
				t.Errorf("gone: %v, want %v", err, test.gone)
			}
			// A second time, when it may be gone, is no error.
			if _, err := reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(made)}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestUnfinishedTasksAreAddedAtTheStartAndWhenTheQueueIsBack(t *testing.T) {
	c, err := client.New(api.Config(), client.Options{Scheme: scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	namespace := api.Namespace(t)
	running := someTask(t, c, namespace, "running", v1alpha1.TaskStatus{Phase: v1alpha1.TaskRunning})
	done := someTask(t, c, namespace, "done", v1alpha1.TaskStatus{Phase: v1alpha1.TaskSucceeded, FinishedAt: &metav1.Time{Time: time.Now()}})
	manager, err := ctrl.NewManager(api.Config(), ctrl.Options{Scheme: scheme(t), Logger: logr.Discard(), Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	q := &queue{away: 3}
	if err := (&task.Reconciler{Client: manager.GetClient(), Queue: q, Now: time.Now}).SetupWithManager(manager); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- manager.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-stopped; err != nil {
			t.Error(err)
		}
	})
	added := func(made *v1alpha1.Task, what string) {
		t.Helper()
		for deadline := time.Now().Add(20 * time.Second); q.times(made) == 0; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s was not added", what)
			}
		}
	}
	added(running, "a task from before the start")
	added(someTask(t, c, namespace, "later", v1alpha1.TaskStatus{}), "a new task")
	if q.times(done) > 0 {
		t.Error("a task that is done was added")
	}
}
