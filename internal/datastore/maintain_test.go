package datastore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/apimachinery/pkg/api/resource"
)

// fill writes megabytes until etcd takes no more, or there are enough.
func fill(t *testing.T, client *clientv3.Client, prefix string, megabytes int) error {
	t.Helper()
	value := strings.Repeat("x", 1<<20)
	for i := range megabytes {
		if _, err := client.Put(t.Context(), fmt.Sprintf("%s/%d", prefix, i), value); err != nil {
			return err
		}
	}
	return nil
}

func TestGarbageIsGivenBack(t *testing.T) {
	w := newWorld(t)
	registry := prometheus.NewRegistry()
	w.config.Registry = registry
	shared := w.installed()
	leaving, staying := w.ensure(shared, "leaving"), w.ensure(shared, "staying")
	if err := errors.Join(fill(t, w.tenant(leaving), leaving.Prefix, 120), fill(t, w.tenant(staying), staying.Prefix, 3)); err != nil {
		t.Fatal(err)
	}
	if err := shared.lookAfter(t.Context(), &shared.server); err != nil {
		t.Fatal(err)
	}
	if count := testutil.ToFloat64(shared.metrics.defragmented.WithLabelValues(w.config.Namespace)); count != 0 {
		t.Errorf("a database in use was defragmented %v times", count)
	}
	if err := shared.Remove(t.Context(), Tenant{Name: "leaving"}); err != nil {
		t.Fatal(err)
	}
	root, _, err := shared.server.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := compact(t.Context(), root); err != nil { // etcd does so itself after five minutes
		t.Fatal(err)
	}
	if err := shared.lookAfter(t.Context(), &shared.server); err != nil {
		t.Fatal(err)
	}
	if count := testutil.ToFloat64(shared.metrics.defragmented.WithLabelValues(w.config.Namespace)); count != 1 {
		t.Errorf("defragmentations: %v", count)
	}
	if size := testutil.ToFloat64(shared.metrics.size.WithLabelValues(w.config.Namespace, "datastore-0")); size > 16<<20 {
		t.Errorf("the database still has %v bytes", size)
	}
	if up := testutil.ToFloat64(shared.metrics.up.WithLabelValues(w.config.Namespace, "datastore-0")); up != 1 {
		t.Errorf("the member is up: %v", up)
	}
	if tenants, leftovers := testutil.ToFloat64(shared.metrics.tenants), testutil.ToFloat64(shared.metrics.leftovers); tenants != 1 || leftovers != 0 {
		t.Errorf("%v tenants, %v leftovers", tenants, leftovers)
	}
	have, err := w.tenant(staying).Get(t.Context(), staying.Prefix+"/", clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || have.Count != 3 {
		t.Errorf("another tenant's keys: %v, %v", have, err)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("metrics: %v, %v", problems, err)
	}
}

func TestAFullDatastoreIsReportedAndMadeRoomIn(t *testing.T) {
	w := newWorld(t)
	w.config.Size = SharedSize()
	w.config.Size.Quota = resource.MustParse("64Mi")
	var mu sync.Mutex
	var told []bool
	w.config.Alarmed = func(_ context.Context, namespace string, full bool) {
		mu.Lock()
		defer mu.Unlock()
		if namespace == w.config.Namespace {
			told = append(told, full)
		}
	}
	shared := w.installed()
	one, two := w.ensure(shared, "one"), w.ensure(shared, "two")
	// What databases keep in reserve is room, too; when that is used up, it stays full.
	for i := 0; ; i++ {
		if err := fill(t, w.tenant(one), fmt.Sprint(one.Prefix, "/", i), 100); !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Fatalf("etcd takes more than it may: %v", err)
		}
		if err := shared.lookAfter(t.Context(), &shared.server); err != nil {
			t.Fatal(err)
		}
		_, err := w.tenant(two).Put(t.Context(), two.Prefix+"/a", "1")
		if errors.Is(err, rpctypes.ErrNoSpace) {
			break
		}
		if err != nil || i == 10 {
			t.Fatalf("it is not full: %v", err)
		}
	}
	if full := testutil.ToFloat64(shared.metrics.full.WithLabelValues(w.config.Namespace)); full != 1 {
		t.Errorf("full: %v", full)
	}
	// A tenant that leaves makes room; new ones can still come.
	if err := shared.Remove(t.Context(), Tenant{Name: "one"}); err != nil {
		t.Fatal(err)
	}
	if err := shared.lookAfter(t.Context(), &shared.server); err != nil {
		t.Fatal(err)
	}
	if _, err := w.tenant(two).Put(t.Context(), two.Prefix+"/a", "1"); err != nil {
		t.Errorf("there is room, but: %v", err)
	}
	if fmt.Sprint(told) != "[true false]" {
		t.Errorf("told: %v", told) // what was mended at once is no news
	}
	if full := testutil.ToFloat64(shared.metrics.full.WithLabelValues(w.config.Namespace)); full != 0 {
		t.Errorf("full: %v", full)
	}
}

func TestWhatIsFragmented(t *testing.T) {
	const mb = 1 << 20
	for _, c := range []struct {
		size, used int64
		want       bool
	}{{100 * mb, 50 * mb, false}, {100 * mb, 10 * mb, true}, {60 * mb, 1 * mb, false}, {1000 * mb, 600 * mb, false}, {1000 * mb, 400 * mb, true}} {
		if got := (memberState{size: c.size, used: c.used}).fragmented(); got != c.want {
			t.Errorf("%d of %d MB in use: %v", c.used/mb, c.size/mb, got)
		}
	}
	if (memberState{size: 1000 * mb, problem: errors.New("away")}).fragmented() {
		t.Error("a member that does not answer is defragmented")
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	w := newWorld(t)
	shared := w.shared()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- shared.Run(ctx) }()
	w.awaitSet()
	w.start()
	for {
		if err := shared.Ready(t.Context()); err == nil {
			break
		} else if !errors.Is(err, ErrNotReady) {
			t.Fatal(err)
		}
	}
	w.ensure(shared, "one")
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
