package datastore

import (
	"fmt"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics tell how the etcds are. Labels name the namespace that one runs in, and its member.
type metrics struct {
	size, used   *prometheus.GaugeVec
	up, full     *prometheus.GaugeVec
	defragmented *prometheus.CounterVec
	seconds      prometheus.Histogram
	failures     *prometheus.CounterVec
	tenants      prometheus.Gauge
	leftovers    prometheus.Gauge
	keys         prometheus.Gauge

	mu   sync.Mutex
	seen map[string]bool // by namespace: whether it was full
}

func newMetrics(registry prometheus.Registerer) (*metrics, error) {
	member, namespace := []string{"namespace", "member"}, []string{"namespace"}
	gauge := func(name, help string, labels []string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "plasmacloud_datastore_" + name, Help: help}, labels)
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "plasmacloud_datastore_" + name, Help: help}, namespace)
	}
	plain := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "plasmacloud_datastore_" + name, Help: help})
	}
	m := &metrics{
		size:         gauge("database_bytes", "Size of a member's database.", member),
		used:         gauge("database_used_bytes", "Part of a member's database that is in use.", member),
		up:           gauge("member_up", "Whether a member answers.", member),
		full:         gauge("full", "Whether an etcd is out of space, and takes no more.", namespace),
		defragmented: counter("defragmentations_total", "Databases of members that were defragmented."),
		failures:     counter("maintenance_failures_total", "Rounds of maintenance that failed."),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "plasmacloud_datastore_defragmentation_seconds", Help: "How long defragmentations took: a member stands still meanwhile.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}),
		tenants:   plain("tenants", "Clusters that may use the shared etcd."),
		leftovers: plain("leftovers", "Clusters that have keys or a role in the shared etcd, but may not use it."),
		keys:      plain("tenant_keys", "Keys of all clusters in the shared etcd."),
		seen:      map[string]bool{},
	}
	if registry == nil {
		return m, nil
	}
	for _, collector := range []prometheus.Collector{m.size, m.used, m.up, m.full, m.defragmented, m.failures, m.seconds, m.tenants, m.leftovers, m.keys} {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("register metrics of datastores: %w", err)
		}
	}
	return m, nil
}

// report takes over what was found, and tells whether being full has changed.
func (m *metrics) report(namespace string, found health) (changed bool) {
	byNamespace := prometheus.Labels{"namespace": namespace}
	for _, gauge := range []*prometheus.GaugeVec{m.size, m.used, m.up} {
		gauge.DeletePartialMatch(byNamespace) // members come and go
	}
	for _, member := range found.members {
		up := m.up.WithLabelValues(namespace, member.name)
		if member.problem != nil {
			up.Set(0)
			continue
		}
		up.Set(1)
		m.size.WithLabelValues(namespace, member.name).Set(float64(member.size))
		m.used.WithLabelValues(namespace, member.name).Set(float64(member.used))
	}
	if found.defragmented > 0 {
		m.defragmented.WithLabelValues(namespace).Add(float64(found.defragmented))
		m.seconds.Observe(found.took.Seconds())
	}
	m.full.WithLabelValues(namespace).Set(float64(boolInt(found.full)))
	m.mu.Lock()
	defer m.mu.Unlock()
	changed = m.seen[namespace] != found.full
	m.seen[namespace] = found.full
	return changed
}

func (m *metrics) failed(namespace string) { m.failures.WithLabelValues(namespace).Inc() }

func (m *metrics) countTenants(all []Holding) {
	var tenants, leftovers int
	var keys int64
	for _, holding := range all {
		if holding.User {
			tenants++
		} else {
			leftovers++
		}
		keys += holding.Keys
	}
	m.tenants.Set(float64(tenants))
	m.leftovers.Set(float64(leftovers))
	m.keys.Set(float64(keys))
}

// forgetOthers drops what was said of etcds that are gone.
func (m *metrics) forgetOthers(namespaces []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for namespace := range m.seen {
		if slices.Contains(namespaces, namespace) {
			continue
		}
		delete(m.seen, namespace)
		gone := prometheus.Labels{"namespace": namespace}
		for _, gauge := range []*prometheus.GaugeVec{m.size, m.used, m.up, m.full} {
			gauge.DeletePartialMatch(gone)
		}
		m.defragmented.DeletePartialMatch(gone)
		m.failures.DeletePartialMatch(gone)
	}
}
