//go:build bench

package audit

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/internal/testapi"
	"plasmacloud.io/plasmacloud/test/measure/plane"
)

const (
	settle   = 20 * time.Second  // before something is measured
	observed = 120 * time.Second // that is measured
	makers   = 4                 // clusters that are made at once
)

func TestAudit(t *testing.T) {
	log.SetLogger(logr.Discard())
	n := number(t)
	p := plane.New(t, catalogue.ClusterType{Name: v1alpha1.ClusterHosted, Capabilities: []catalogue.Capability{
		catalogue.CanCreate, catalogue.CanDelete, catalogue.CanScale, catalogue.CanRepair,
	}})
	tenants := testapi.New(t, testapi.Options{WithoutCRDs: true})
	m := newMaker(t, p, tenants)
	say("making %d clusters", n)
	began := time.Now()
	makeAll(t, m, n)
	say("made in %.0f s", time.Since(began).Seconds())

	flags := []string{"--endpoint-address=" + address, "--audit-interval=0"}
	stop := p.StartCloudd(t, flags...)
	time.Sleep(settle)
	without := observe(t, p, tenants)
	stop()
	say("without audits: %.1f%% of a processor, %.1f and %.1f requests a second", without.percent(), without.management/without.during.Seconds(), without.tenants/without.during.Seconds())

	flags[1] = "--audit-interval=" + interval.String()
	p.StartCloudd(t, flags...)
	awaitAudited(t, p, n)
	time.Sleep(interval / 4) // the last of them are audited a second time by then
	with := observe(t, p, tenants)
	say("with audits: %.1f%% of a processor, %.1f and %.1f requests a second", with.percent(), with.management/with.during.Seconds(), with.tenants/with.during.Seconds())
	allWell(t, p, n)
	for _, figure := range figures(n, without, with) {
		fmt.Println(figure)
	}
}

func number(t *testing.T) int {
	t.Helper()
	text := os.Getenv("BENCH_AUDIT_CLUSTERS")
	if text == "" {
		return int(reference)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("BENCH_AUDIT_CLUSTERS: %q is no number", text)
	}
	return n
}

// makeAll makes so many clusters, several at once.
func makeAll(t *testing.T, m *maker, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	next := make(chan int)
	failures := make(chan error, makers)
	var work sync.WaitGroup
	for range makers {
		work.Go(func() {
			for i := range next {
				if err := m.make(ctx, fmt.Sprintf("c%d", i)); err != nil {
					failures <- fmt.Errorf("make cluster %d: %w", i, err)
					cancel()
					return
				}
			}
		})
	}
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	work.Wait()
	if ctx.Err() != nil {
		t.Fatal(<-failures)
	}
}

// observe counts for a while.
func observe(t *testing.T, p *plane.Plane, tenants *testapi.Server) span {
	t.Helper()
	began, cpu := time.Now(), p.CPU(t)[plane.Cloudd]
	management, own, audits := requests(t, p.API.Config()), requests(t, tenants.Config()), audited(t, p)
	time.Sleep(observed)
	return span{
		during: time.Since(began), cpu: p.CPU(t)[plane.Cloudd] - cpu,
		management: requests(t, p.API.Config()) - management, tenants: requests(t, tenants.Config()) - own, audits: audited(t, p) - audits,
	}
}

// requests are those that an API server has answered, but for those about its metrics.
func requests(t *testing.T, config *rest.Config) float64 {
	t.Helper()
	api, err := kubernetes.NewForConfig(config)
	plane.Must(t, err)
	content, err := api.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	plane.Must(t, err)
	return sum(content, "apiserver_request_total{")
}

// sum adds up the samples that begin so.
func sum(content []byte, prefix string) (total float64) {
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		if line := lines.Text(); strings.HasPrefix(line, prefix) {
			if value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64); err == nil {
				total += value
			}
		}
	}
	return total
}

// audited is how many audits cloudd has made.
func audited(t *testing.T, p *plane.Plane) float64 {
	t.Helper()
	return sum(p.Metrics(t), "plasmacloud_audits_total{")
}

// awaitAudited waits until every cluster was looked at.
func awaitAudited(t *testing.T, p *plane.Plane, n int) {
	t.Helper()
	for deadline := time.Now().Add(5 * interval); audited(t, p) < float64(n); time.Sleep(time.Second) {
		if time.Now().After(deadline) {
			t.Fatalf("%.0f audits of %d clusters", audited(t, p), n)
		}
	}
}

func clusters(t *testing.T, p *plane.Plane) []v1alpha1.Cluster {
	t.Helper()
	var all v1alpha1.ClusterList
	plane.Must(t, p.Client.List(t.Context(), &all, client.InNamespace(namespace)))
	return all.Items
}

// allWell makes sure that clusters at rest were measured, and no repairs.
func allWell(t *testing.T, p *plane.Plane, n int) {
	t.Helper()
	all := clusters(t, p)
	if len(all) != n {
		t.Errorf("there are %d of %d clusters", len(all), n)
	}
	for _, c := range all {
		if c.Annotations[v1alpha1.AnnotationRepair] != "" || c.Status.Health != nil {
			t.Fatalf("cluster %s was not at rest: %s %+v", c.Name, c.Annotations[v1alpha1.AnnotationRepair], c.Status.Health)
		}
	}
	if content := p.Metrics(t); sum(content, `plasmacloud_audits_total{`) != sum(content, `plasmacloud_audits_total{outcome="well"`) {
		t.Error("some audits have found something, or failed")
	}
}

func say(format string, values ...any) {
	fmt.Printf("%s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, values...))
}
