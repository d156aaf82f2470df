package metrics_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/task"
	"plasmacloud.io/plasmacloud/internal/task/metrics"
)

func TestWhatWorkersDoIsCounted(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	w, err := metrics.NewWorker(registry)
	if err != nil {
		t.Fatal(err)
	}
	w.Busy(1)
	w.Busy(1)
	w.Busy(-1)
	w.Started(v1alpha1.OperationCreate)
	w.Retried(v1alpha1.OperationCreate)
	w.Finished(v1alpha1.OperationCreate, v1alpha1.TaskSucceeded)
	w.StepEnded(v1alpha1.OperationCreate, "verify", task.StepFailed, 2*time.Second)
	want := `
# HELP plasmacloud_task_retries_total How often a task was set back by an error, to be tried again.
# TYPE plasmacloud_task_retries_total counter
plasmacloud_task_retries_total{operation="Create"} 1
# HELP plasmacloud_tasks_finished_total Tasks that have ended, by how.
# TYPE plasmacloud_tasks_finished_total counter
plasmacloud_tasks_finished_total{operation="Create",outcome="succeeded"} 1
# HELP plasmacloud_tasks_started_total Tasks that were begun.
# TYPE plasmacloud_tasks_started_total counter
plasmacloud_tasks_started_total{operation="Create"} 1
# HELP plasmacloud_workers_busy Tasks that this process works on now.
# TYPE plasmacloud_workers_busy gauge
plasmacloud_workers_busy 1
`
	err = testutil.GatherAndCompare(registry, strings.NewReader(want),
		"plasmacloud_workers_busy", "plasmacloud_tasks_started_total", "plasmacloud_tasks_finished_total", "plasmacloud_task_retries_total")
	if err != nil {
		t.Error(err)
	}
	if n := testutil.CollectAndCount(registry, "plasmacloud_step_duration_seconds"); n != 1 {
		t.Errorf("%d histograms of steps, want 1", n)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

// queue is one of a known depth.
type queue struct {
	depths []task.Depth
	err    error
}

func (q queue) Depths(context.Context) ([]task.Depth, error) { return q.depths, q.err }

func TestQueuesAreAskedWhenSomebodyLooks(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	q := queue{depths: []task.Depth{{Queue: "0.1", State: task.DepthReady, Items: 3}, {Queue: "0.1", State: task.DepthRunning, Items: 2}}}
	if err := metrics.RegisterQueue(registry, q, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	want := `
# HELP plasmacloud_queue_depth Tasks in a queue, by what they wait for.
# TYPE plasmacloud_queue_depth gauge
plasmacloud_queue_depth{queue="0.1",state="ready"} 3
plasmacloud_queue_depth{queue="0.1",state="running"} 2
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	away := prometheus.NewPedanticRegistry()
	if err := metrics.RegisterQueue(away, queue{err: errors.New("away")}, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if families, err := away.Gather(); err != nil || len(families) != 0 {
		t.Errorf("a queue that is away shows %v, %v", families, err)
	}
}
