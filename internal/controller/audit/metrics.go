package audit

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// Metrics count audits and what they find. None are counted by a nil one.
type Metrics struct {
	audits   *prometheus.CounterVec
	findings *prometheus.CounterVec
	repairs  *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewMetrics registers them.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		audits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plasmacloud_audits_total", Help: "Audits of clusters, by how they ended: well, findings, failed.",
		}, []string{"type", "outcome"}),
		findings: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plasmacloud_audit_findings_total", Help: "What audits found, each time that they did.",
		}, []string{"type", "check"}),
		repairs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plasmacloud_repairs_requested_total", Help: "Repairs that audits asked for, by the first thing that was wrong.",
		}, []string{"type", "check"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "plasmacloud_audit_duration_seconds", Help: "Time that audits took.",
			Buckets: []float64{0.005, 0.02, 0.1, 0.5, 2, 10, 60},
		}, []string{"type"}),
	}
	return m, errors.Join(registry.Register(m.audits), registry.Register(m.findings), registry.Register(m.repairs), registry.Register(m.duration))
}

func (m *Metrics) audited(c *v1alpha1.Cluster, findings []v1alpha1.Finding, err error, took time.Duration) {
	if m == nil {
		return
	}
	kind, outcome := string(c.Spec.Type), "well"
	switch {
	case err != nil:
		outcome = "failed"
	case len(findings) > 0:
		outcome = "findings"
	}
	m.audits.WithLabelValues(kind, outcome).Inc()
	m.duration.WithLabelValues(kind).Observe(took.Seconds())
	for _, finding := range findings {
		m.findings.WithLabelValues(kind, finding.Check).Inc()
	}
}

func (m *Metrics) requested(c *v1alpha1.Cluster, findings []v1alpha1.Finding) {
	if m != nil && len(findings) > 0 {
		m.repairs.WithLabelValues(string(c.Spec.Type), findings[0].Check).Inc()
	}
}
