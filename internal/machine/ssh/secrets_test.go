package ssh

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/kubernetes"

	"plasmacloud.io/plasmacloud/internal/testapi"
)

var api *testapi.Server

func TestMain(m *testing.M) { os.Exit(testapi.Main(m, &api)) }

// TestRecords keeps both kinds of records to the same rules: those of the tests, and those in an API server.
func TestRecords(t *testing.T) {
	client, err := kubernetes.NewForConfig(api.Config())
	if err != nil {
		t.Fatal(err)
	}
	for name, records := range map[string]Records{"memory": newMemory(), "secrets": NewRecords(client, api.Namespace(t))} {
		t.Run(name, func(t *testing.T) { testRecords(t, records) })
	}
}

func testRecords(t *testing.T, records Records) {
	ctx := t.Context()
	record := Record{Name: "ssh-host-0", Kind: KindHost, Cluster: "dev", Content: []byte("{}")}
	if _, err := records.Get(ctx, record.Name); !errors.Is(err, ErrNoRecord) {
		t.Errorf("get what is not there: %v", err)
	}
	var created atomic.Int32
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			_, err := records.Put(ctx, record)
			if err == nil {
				created.Add(1)
			} else if !errors.Is(err, ErrStale) {
				t.Error(err)
			}
		})
	}
	writers.Wait()
	found, err := records.Get(ctx, record.Name)
	if err != nil || created.Load() != 1 || found.Kind != KindHost || found.Cluster != "dev" || string(found.Content) != "{}" || found.Version == "" {
		t.Fatalf("created %d times: %+v, error %v", created.Load(), found, err)
	}
	changed := found
	changed.Content, changed.Cluster = []byte(`{"a":1}`), ""
	if changed.Version, err = records.Put(ctx, changed); err != nil || changed.Version == found.Version {
		t.Fatalf("version %s, error %v", changed.Version, err)
	}
	if _, err := records.Put(ctx, found); !errors.Is(err, ErrStale) {
		t.Errorf("a change of what has changed: %v", err)
	}
	if err := records.Remove(ctx, found); !errors.Is(err, ErrStale) {
		t.Errorf("removal of what has changed: %v", err)
	}
	hosts, err := records.List(ctx, KindHost)
	machines, machinesErr := records.List(ctx, KindMachine)
	if err := errors.Join(err, machinesErr); err != nil || len(hosts) != 1 || string(hosts[0].Content) != `{"a":1}` || len(machines) != 0 {
		t.Errorf("hosts %+v, machines %+v, error %v", hosts, machines, err)
	}
	for range 2 {
		if err := records.Remove(ctx, changed); err != nil {
			t.Error(err)
		}
	}
	if _, err := records.Put(ctx, changed); err == nil {
		t.Error("a record that is gone was changed")
	}
}
