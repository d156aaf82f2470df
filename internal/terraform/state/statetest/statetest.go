// Package statetest is what every store of states has to do, as a test that all of them pass.
package statetest

import (
	"bytes"
	"errors"
	"sync"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/terraform/state"
)

// Run tests a store; fresh makes an empty one.
func Run(t *testing.T, fresh func(t *testing.T) state.Store) {
	t.Run("records are replaced by who has read them last", func(t *testing.T) { records(t, fresh(t)) })
	t.Run("contents come back as they were", func(t *testing.T) { contents(t, fresh(t)) })
	t.Run("one of many wins", func(t *testing.T) { contention(t, fresh(t)) })
}

func records(t *testing.T, store state.Store) {
	if _, err := store.Load(t.Context(), "team.network.main"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("Load of nothing = %v", err)
	}
	first := &state.Record{Lock: &state.Lock{ID: "one", Who: "me", Created: time.Unix(1700000000, 0).UTC()}}
	if err := store.Save(t.Context(), "team.network.main", first); err != nil {
		t.Fatal(err)
	}
	if err := store.Save(t.Context(), "team.network.main", &state.Record{}); !errors.Is(err, state.ErrConflict) {
		t.Errorf("Save of a record that is there = %v", err)
	}
	loaded, err := store.Load(t.Context(), "team.network.main")
	if err != nil || loaded.Lock == nil || *loaded.Lock != *first.Lock || loaded.Revision == "" {
		t.Fatalf("Load = %+v, %v", loaded, err)
	}
	stale := *loaded
	loaded.Lock, loaded.Versions = nil, []state.Version{{Number: 1, Content: "000001-a", Serial: 7}}
	if err := store.Save(t.Context(), "team.network.main", loaded); err != nil {
		t.Fatal(err)
	}
	if err := store.Save(t.Context(), "team.network.main", &stale); !errors.Is(err, state.ErrConflict) {
		t.Errorf("Save of a record that has changed = %v", err)
	}
	loaded.Versions[0].Serial = 8
	if err := store.Save(t.Context(), "team.network.main", loaded); err != nil { // it knows its own revision
		t.Errorf("Save again = %v", err)
	}
	if other, err := store.Load(t.Context(), "team.network.other"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("Load of another = %+v, %v", other, err)
	}
	for range 2 {
		if err := store.Remove(t.Context(), "team.network.main"); err != nil {
			t.Errorf("Remove = %v", err)
		}
	}
	if err := store.Save(t.Context(), "team.network.main", loaded); !errors.Is(err, state.ErrConflict) {
		t.Errorf("Save of a record that is gone = %v", err)
	}
}

func contents(t *testing.T, store state.Store) {
	small, large := []byte("sealed"), bytes.Repeat([]byte("0123456789abcdef"), 200_000) // 3.2 MB
	for name, content := range map[string][]byte{"000001-a": small, "000002-b": large} {
		if err := store.WriteContent(t.Context(), "stack", name, content); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range map[string][]byte{"000001-a": small, "000002-b": large} {
		if got, err := store.ReadContent(t.Context(), "stack", name); err != nil || !bytes.Equal(got, content) {
			t.Errorf("ReadContent(%s) = %d bytes, %v", name, len(got), err)
		}
	}
	if _, err := store.ReadContent(t.Context(), "other", "000001-a"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("ReadContent of another stack = %v", err)
	}
	for range 2 {
		if err := store.RemoveContent(t.Context(), "stack", "000002-b"); err != nil {
			t.Errorf("RemoveContent = %v", err)
		}
	}
	if _, err := store.ReadContent(t.Context(), "stack", "000002-b"); !errors.Is(err, state.ErrNotFound) {
		t.Errorf("ReadContent of what was removed = %v", err)
	}
}

func contention(t *testing.T, store state.Store) {
	const all = 10
	var group sync.WaitGroup
	results := make([]error, all)
	for i := range all {
		group.Go(func() { results[i] = store.Save(t.Context(), "stack", &state.Record{Lock: &state.Lock{ID: "one"}}) })
	}
	group.Wait()
	won := 0
	for _, err := range results {
		switch {
		case err == nil:
			won++
		case !errors.Is(err, state.ErrConflict):
			t.Errorf("Save = %v", err)
		}
	}
	if won != 1 {
		t.Errorf("%d have saved a new record", won)
	}
}
