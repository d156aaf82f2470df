package server

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"plasmacloud.io/plasmacloud/internal/iam/session"
)

// Gauges are read when metrics are.
type Gauges struct {
	// Objects are how many there are in the directory, by resource.
	Objects func() map[string]int
	// SigningKeys is how many keys verify.
	SigningKeys func() int
	// CertificateExpires is when the serving certificate does.
	CertificateExpires func() time.Time
}

// Metrics counts what the service does.
type Metrics struct {
	requests *prometheus.HistogramVec
	reviews  *prometheus.CounterVec
	logins   *prometheus.CounterVec

	gauges      Gauges
	objects     *prometheus.Desc
	signingKeys *prometheus.Desc
	expires     *prometheus.Desc
}

// NewMetrics registers the service's metrics.
func NewMetrics(registry prometheus.Registerer, gauges Gauges) (*Metrics, error) {
	m := &Metrics{
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "plasmacloud_iam_request_seconds",
			Help:    "Time to answer requests, by handler and status code.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5},
		}, []string{"handler", "code"}),
		reviews: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plasmacloud_iam_reviews_total",
			Help: "Tokens judged for API servers, by kind of token and outcome.",
		}, []string{"token", "result"}),
		logins: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "plasmacloud_iam_logins_total",
			Help: "Logins by outcome: accepted, refused, throttled or failed.",
		}, []string{"result"}),
		gauges:      gauges,
		objects:     prometheus.NewDesc("plasmacloud_iam_directory_objects", "Objects in the directory, by resource.", []string{"resource"}, nil),
		signingKeys: prometheus.NewDesc("plasmacloud_iam_signing_keys", "Keys that verify tokens.", nil, nil),
		expires:     prometheus.NewDesc("plasmacloud_iam_certificate_expiry_timestamp_seconds", "When the serving certificate expires.", nil, nil),
	}
	for _, collector := range []prometheus.Collector{m.requests, m.reviews, m.logins, m} {
		if err := registry.Register(collector); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return m, nil
}

// Describe sends what Collect does.
func (m *Metrics) Describe(into chan<- *prometheus.Desc) {
	into <- m.objects
	into <- m.signingKeys
	into <- m.expires
}

// Collect reads the gauges.
func (m *Metrics) Collect(into chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		into <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
	}
	for resource, count := range m.gauges.Objects() {
		gauge(m.objects, float64(count), resource)
	}
	gauge(m.signingKeys, float64(m.gauges.SigningKeys()))
	if expires := m.gauges.CertificateExpires(); !expires.IsZero() {
		gauge(m.expires, float64(expires.Unix()))
	}
}

// instrument measures a handler, which is named after the last part of its pattern.
func (m *Metrics) instrument(pattern string, handler http.Handler) http.Handler {
	name := strings.TrimSuffix(pattern, "/{name}")
	name = name[strings.LastIndex(name, "/")+1:]
	observer := m.requests.MustCurryWith(prometheus.Labels{"handler": name})
	return promhttp.InstrumentHandlerDuration(observer, handler)
}

func (m *Metrics) reviewed(access, authenticated bool) {
	kind, result := "session", "refused"
	if access {
		kind = "access"
	}
	if authenticated {
		result = "authenticated"
	}
	m.reviews.WithLabelValues(kind, result).Inc()
}

func (m *Metrics) loggedIn(err error) {
	result := "accepted"
	var refused *session.Failure
	switch {
	case errors.As(err, &refused) && refused.Code == http.StatusTooManyRequests:
		result = "throttled"
	case errors.As(err, &refused):
		result = "refused"
	case err != nil:
		result = "failed"
	}
	m.logins.WithLabelValues(result).Inc()
}
