package cloudd

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// phases counts clusters by their type and phase when somebody asks for metrics. Only the leader does, so that each is
// counted once.
type phases struct {
	reader   client.Reader
	elected  <-chan struct{}
	clusters *prometheus.Desc
}

func newPhases(reader client.Reader, elected <-chan struct{}) *phases {
	return &phases{
		reader: reader, elected: elected,
		clusters: prometheus.NewDesc("plasmacloud_clusters", "Clusters, by type and phase.", []string{"type", "phase"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (p *phases) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- p.clusters }

// Collect implements prometheus.Collector.
func (p *phases) Collect(metrics chan<- prometheus.Metric) {
	select {
	case <-p.elected:
	default:
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var all v1alpha1.ClusterList
	if err := p.reader.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return // the cache is not filled yet
	}
	type key struct {
		kind  v1alpha1.ClusterType
		phase v1alpha1.Phase
	}
	counts := map[key]int{}
	for i := range all.Items {
		counts[key{all.Items[i].Spec.Type, all.Items[i].Status.Phase}]++
	}
	for k, n := range counts {
		metrics <- prometheus.MustNewConstMetric(p.clusters, prometheus.GaugeValue, float64(n), string(k.kind), string(k.phase))
	}
}
