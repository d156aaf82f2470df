//go:build bench

package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
	"plasmacloud.io/plasmacloud/internal/catalogue"
	"plasmacloud.io/plasmacloud/test/measure"
	"plasmacloud.io/plasmacloud/test/measure/plane"
)

const (
	organization = "acme"
	projects     = 10
	users        = 8 // clients at once
	group        = "workers"

	settle = 5 * time.Second  // before the rest is measured
	atRest = 25 * time.Second // that is measured

	stageTimeout = 20 * time.Minute
)

func TestControl(t *testing.T) {
	log.SetLogger(logr.Discard())
	var runs []run
	for _, n := range numbers(t) {
		t.Run(strconv.Itoa(n), func(t *testing.T) { runs = append(runs, observe(t, n)) })
	}
	fmt.Println()
	for _, r := range runs {
		for _, f := range r.figures() {
			fmt.Println(f)
		}
	}
	for i := range max(len(runs)-1, 0) {
		for _, f := range growth(runs[0], runs[i+1]) {
			fmt.Println(f)
		}
	}
}

func numbers(t *testing.T) []int {
	t.Helper()
	list := os.Getenv("BENCH_CONTROL_CLUSTERS")
	if list == "" {
		list = "1000,5000"
	}
	var numbers []int
	for _, text := range strings.Split(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || n < 1 {
			t.Fatalf("BENCH_CONTROL_CLUSTERS: %q is no list of numbers", list)
		}
		numbers = append(numbers, n)
	}
	return numbers
}

// observe takes so many clusters through their lives.
func observe(t *testing.T, n int) run {
	b := newBench(t)
	plane.Must(t, b.Client.Create(t.Context(), &v1alpha1.Organization{ObjectMeta: metav1.ObjectMeta{Name: organization}, Spec: v1alpha1.OrganizationSpec{Quota: plenty()}}))
	for i := range projects {
		b.Project(t, organization, fmt.Sprintf("p%d", i), plenty())
	}
	seen := b.watch(t)
	say(t, "%d clusters, %d projects, %d clients, %d CPUs, load %s", n, projects, users, goruntime.NumCPU(), load())
	r := run{clusters: n}
	r.create = b.stage(t, "create", n, seen, runningWith(1), func(ctx context.Context, c client.Client, i int) error {
		return c.Create(ctx, cluster(i))
	})
	r.rest = b.rest(t)
	r.scale = b.stage(t, "scale", n, seen, runningWith(2), func(ctx context.Context, c client.Client, i int) error {
		patch := fmt.Sprintf(`{"spec":{"nodeGroups":{%q:{"replicas":2}}}}`, group)
		return c.Patch(ctx, cluster(i), client.RawPatch("application/merge-patch+json", []byte(patch)))
	})
	r.delete = b.stage(t, "delete", n, seen, gone, func(ctx context.Context, c client.Client, i int) error {
		return c.Delete(ctx, cluster(i))
	})
	return r
}

// bench is a management plane with cloudd.
type bench struct{ *plane.Plane }

func newBench(t *testing.T) bench {
	t.Helper()
	b := bench{plane.New(t, catalogue.ClusterType{Name: v1alpha1.ClusterFake, Capabilities: []catalogue.Capability{
		catalogue.CanCreate, catalogue.CanDelete, catalogue.CanScale,
	}})}
	var flags []string
	if step := os.Getenv("BENCH_CONTROL_STEP"); step != "" {
		flags = append(flags, "--fake-step-duration="+step)
	}
	b.StartCloudd(t, flags...)
	b.EnableAdmission(t)
	return b
}

func plenty() *v1alpha1.Quota {
	return &v1alpha1.Quota{
		Clusters: ptr.To(int32(1_000_000)), Nodes: ptr.To(int32(1_000_000)),
		VCPU: ptr.To(apiresource.MustParse("10M")), Memory: ptr.To(apiresource.MustParse("10Pi")),
	}
}

func cluster(i int) *v1alpha1.Cluster {
	return &v1alpha1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.NamespacePrefix + fmt.Sprintf("p%d", i%projects), Name: fmt.Sprintf("c%d", i)},
		Spec: v1alpha1.ClusterSpec{
			Type: v1alpha1.ClusterFake, NodeGroups: map[string]v1alpha1.NodeGroupTemplate{group: {MinReplicas: 1, MaxReplicas: 5}},
		},
	}
}

// runningWith is a cluster that has so many nodes and is what it should be.
func runningWith(nodes int32) func(*v1alpha1.Cluster) bool {
	return func(c *v1alpha1.Cluster) bool {
		return c != nil && c.Status.Phase == v1alpha1.PhaseRunning && c.Status.ObservedGeneration == c.Generation && c.Status.Nodes.Ready == nodes
	}
}

func gone(c *v1alpha1.Cluster) bool { return c == nil }

// stage does something to all clusters, several clients at once, and waits for the outcome.
func (b bench) stage(t *testing.T, name string, n int, seen *watcher, want func(*v1alpha1.Cluster) bool, do func(context.Context, client.Client, int) error) stage {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stageTimeout)
	defer cancel()
	seen.expect(want)
	begun, before := time.Now(), b.CPU(t)
	stopProfile := b.profile(t, fmt.Sprintf("%s-%d", name, n))
	next := make(chan int)
	failures := make(chan error, users)
	var clients sync.WaitGroup
	for range users {
		own := b.User(t)
		clients.Go(func() {
			for i := range next {
				seen.asked(client.ObjectKeyFromObject(cluster(i)))
				if err := do(ctx, own, i); err != nil {
					failures <- fmt.Errorf("%s cluster %d: %w", name, i, err)
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
	clients.Wait()
	requested := time.Since(begun)
	for seen.done() < n && ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	result := stage{elapsed: time.Since(begun), latencies: seen.latencies(), cpu: plane.Since(before, b.CPU(t))}
	stopProfile()
	if err := ctx.Err(); err != nil {
		close(failures)
		t.Fatalf("%s: %d of %d clusters after %s: %v", name, seen.done(), n, result.elapsed.Round(time.Second), errors.Join(err, <-failures))
	}
	say(t, "%s: requests %.1f s, all done %.1f s, %.1f/s, p50 %.2f s, p99 %.2f s; processor time per cluster: cloudd %.1f ms, API server %.1f ms, etcd %.1f ms; load %s",
		name, requested.Seconds(), result.elapsed.Seconds(), result.rate(), result.percentile(50).Seconds(), result.percentile(99).Seconds(),
		milliseconds(result.cpu[cloudd])/float64(n), milliseconds(result.cpu[apiServer])/float64(n), milliseconds(result.cpu[etcd])/float64(n), load())
	return result
}

// rest measures while nothing is asked.
func (b bench) rest(t *testing.T) idle {
	t.Helper()
	time.Sleep(settle)
	begun, before := time.Now(), b.CPU(t)
	stopProfile := b.profile(t, "rest")
	time.Sleep(atRest)
	r := idle{during: time.Since(begun), cpu: plane.Since(before, b.CPU(t)), pss: b.Memory(t)}
	stopProfile()
	say(t, "at rest: cloudd %.2f%%, API server %.2f%%, etcd %.2f%% of a processor; cloudd %d MiB, API server %d MiB, etcd %d MiB",
		r.percent(cloudd), r.percent(apiServer), r.percent(etcd), r.pss[cloudd]/measure.Mebibyte, r.pss[apiServer]/measure.Mebibyte, r.pss[etcd]/measure.Mebibyte)
	return r
}

// profile writes where cloudd and the API server spend their time into the folder that BENCH_CONTROL_PROFILES names, if
// any.
func (b bench) profile(t *testing.T, name string) (stop func()) {
	t.Helper()
	dir := os.Getenv("BENCH_CONTROL_PROFILES")
	if dir == "" {
		return func() {}
	}
	admin, err := rest.HTTPClientFor(b.API.Config())
	plane.Must(t, err)
	var profiles sync.WaitGroup
	for program, url := range map[string]string{cloudd: fmt.Sprintf("http://127.0.0.1:%d", b.Ports["pprof"]), apiServer: b.API.URL()} {
		profiles.Go(func() {
			response, err := admin.Get(url + "/debug/pprof/profile?seconds=20")
			if err != nil {
				t.Log(err)
				return
			}
			defer response.Body.Close()
			if content, err := io.ReadAll(response.Body); err != nil || os.WriteFile(filepath.Join(dir, program+"-"+name), content, 0o600) != nil {
				t.Log("a profile is lost", err)
			}
		})
	}
	return profiles.Wait
}

// watcher sees what becomes of clusters.
type watcher struct {
	mu    sync.Mutex
	want  func(*v1alpha1.Cluster) bool
	since map[client.ObjectKey]time.Time
	took  map[client.ObjectKey]time.Duration
}

// watch follows all clusters until the test ends.
func (b bench) watch(t *testing.T) *watcher {
	t.Helper()
	w := &watcher{}
	w.expect(func(*v1alpha1.Cluster) bool { return false })
	informers, err := cache.New(b.API.Config(), cache.Options{Scheme: b.Scheme, Mapper: b.Client.RESTMapper()})
	plane.Must(t, err)
	informer, err := informers.GetInformer(t.Context(), &v1alpha1.Cluster{}, cache.BlockUntilSynced(false))
	plane.Must(t, err)
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { w.see(object, false) },
		UpdateFunc: func(_, object any) { w.see(object, false) },
		DeleteFunc: func(object any) { w.see(object, true) },
	})
	plane.Must(t, err)
	go func() { _ = informers.Start(t.Context()) }()
	if !informers.WaitForCacheSync(t.Context()) {
		t.Fatal("the watch does not start")
	}
	return w
}

// expect begins anew: want is the outcome, nil being a cluster that is gone.
func (w *watcher) expect(want func(*v1alpha1.Cluster) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.want, w.since, w.took = want, map[client.ObjectKey]time.Time{}, map[client.ObjectKey]time.Duration{}
}

func (w *watcher) asked(key client.ObjectKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since[key] = time.Now()
}

func (w *watcher) see(object any, deleted bool) {
	if last, ok := object.(toolscache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	c, ok := object.(*v1alpha1.Cluster)
	if !ok {
		return
	}
	key := client.ObjectKeyFromObject(c)
	if deleted {
		c = nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	asked, known := w.since[key]
	if _, before := w.took[key]; known && !before && w.want(c) {
		w.took[key] = time.Since(asked)
	}
}

func (w *watcher) done() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.took)
}

func (w *watcher) latencies() []time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]time.Duration, 0, len(w.took))
	for _, took := range w.took {
		all = append(all, took)
	}
	return all
}

// say prints at once: the runs take minutes.
func say(t *testing.T, format string, values ...any) {
	t.Helper()
	fmt.Printf("%s %s\n", time.Now().Format(time.TimeOnly), fmt.Sprintf(format, values...))
}

func load() string {
	content, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(content), " ")
	return first
}
