// Package metrics shows queues and workers as Prometheus metrics, all of which begin with plasmacloud_.
package metrics

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/task"
)

// Worker counts what workers do. It is a task.Observer.
type Worker struct {
	busy     prometheus.Gauge
	started  *prometheus.CounterVec
	finished *prometheus.CounterVec
	retries  *prometheus.CounterVec
	steps    *prometheus.HistogramVec
}

var _ task.Observer = (*Worker)(nil)

// NewWorker registers the metrics of a worker.
func NewWorker(registry prometheus.Registerer) (*Worker, error) {
	w := &Worker{
		busy: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "plasmacloud_workers_busy", Help: "Tasks that this process works on now.",
		}),
		started: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plasmacloud_tasks_started_total", Help: "Tasks that were begun.",
		}, []string{"operation"}),
		finished: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plasmacloud_tasks_finished_total", Help: "Tasks that have ended, by how.",
		}, []string{"operation", "outcome"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plasmacloud_task_retries_total", Help: "How often a task was set back by an error, to be tried again.",
		}, []string{"operation"}),
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "plasmacloud_step_duration_seconds", Help: "Time that steps of tasks took, by how they returned.",
			Buckets: []float64{0.05, 0.25, 1, 5, 15, 60, 300, 1200},
		}, []string{"operation", "step", "outcome"}),
	}
	var problems []error
	for _, metric := range []prometheus.Collector{w.busy, w.started, w.finished, w.retries, w.steps} {
		problems = append(problems, registry.Register(metric))
	}
	return w, errors.Join(problems...)
}

// Busy implements task.Observer.
func (w *Worker) Busy(change int) { w.busy.Add(float64(change)) }

// Started implements task.Observer.
func (w *Worker) Started(operation v1alpha1.Operation) {
	w.started.WithLabelValues(string(operation)).Inc()
}

// Retried implements task.Observer.
func (w *Worker) Retried(operation v1alpha1.Operation) {
	w.retries.WithLabelValues(string(operation)).Inc()
}

// Finished implements task.Observer.
func (w *Worker) Finished(operation v1alpha1.Operation, phase v1alpha1.TaskPhase) {
	w.finished.WithLabelValues(string(operation), strings.ToLower(string(phase))).Inc()
}

// StepEnded implements task.Observer.
func (w *Worker) StepEnded(operation v1alpha1.Operation, step string, outcome task.StepOutcome, took time.Duration) {
	w.steps.WithLabelValues(string(operation), step, string(outcome)).Observe(took.Seconds())
}

// Queue is one whose depth can be told.
type Queue interface {
	Depths(ctx context.Context) ([]task.Depth, error)
}

// queueTimeout bounds how long a scrape waits for a queue that is elsewhere.
const queueTimeout = 2 * time.Second

// depths asks a queue when somebody asks for metrics.
type depths struct {
	queue Queue
	log   *slog.Logger
	depth *prometheus.Desc
}

// RegisterQueue shows how much waits in a queue. One that cannot be asked is missing.
func RegisterQueue(registry prometheus.Registerer, queue Queue, log *slog.Logger) error {
	return registry.Register(&depths{
		queue: queue, log: log,
		depth: prometheus.NewDesc("plasmacloud_queue_depth", "Tasks in a queue, by what they wait for.", []string{"queue", "state"}, nil),
	})
}

// Describe implements prometheus.Collector.
func (d *depths) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- d.depth }

// Collect implements prometheus.Collector.
func (d *depths) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), queueTimeout)
	defer cancel()
	all, err := d.queue.Depths(ctx)
	if err != nil {
		d.log.Debug("cannot tell the depth of the queue", "error", err)
		return
	}
	for _, depth := range all {
		metrics <- prometheus.MustNewConstMetric(d.depth, prometheus.GaugeValue, float64(depth.Items), depth.Queue, string(depth.State))
	}
}
