package datastore

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// BenchmarkEnsure tells how long a tenant takes to be made and to be found again, and how much memory etcd has with as
// many tenants, each with as many keys as an idle cluster.
func BenchmarkEnsure(b *testing.B) {
	const tenants, keys = 100, 400
	w := newWorld(b)
	shared := w.installed()
	value := strings.Repeat("x", 1500)
	b.Run("new", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			w.ensure(shared, fmt.Sprintf("new-%d-%d", b.N, i))
		}
	})
	var work sync.WaitGroup
	slots := make(chan struct{}, 8)
	for i := range tenants {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			credentials := w.ensure(shared, fmt.Sprint("tenant-", i))
			client := w.tenant(credentials)
			for key := range keys {
				if _, err := client.Put(b.Context(), fmt.Sprint(credentials.Prefix, "/registry/", key), value); err != nil {
					b.Error(err)
				}
			}
		})
	}
	work.Wait()
	have := w.ensure(shared, "tenant-1")
	b.Run("there", func(b *testing.B) {
		for b.Loop() {
			if _, err := shared.Ensure(b.Context(), Tenant{Name: "tenant-1", Have: have.Pair}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(w.privateMemory()>>20), "MB-etcd")
	})
}

// privateMemory is what etcd has to itself: its database is a file, mapped.
func (w *world) privateMemory() int64 {
	w.t.Helper()
	pid := strings.Fields(string(readFile(w.t, filepath.Join(w.dir, "etcd.pid"))))[0]
	status, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		w.t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kilobytes, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			if err != nil {
				w.t.Fatal(err)
			}
			return kilobytes << 10
		}
	}
	return 0
}
