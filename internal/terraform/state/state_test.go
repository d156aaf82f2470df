package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

func key(fill byte) []byte { return bytes.Repeat([]byte{fill}, KeySize) }

// fixture is a backend over a directory.
type fixture struct {
	*Backend
	dir string
}

func newBackend(t *testing.T, keep int, keys ...[]byte) fixture {
	t.Helper()
	if len(keys) == 0 {
		keys = [][]byte{key(1)}
	}
	dir := t.TempDir()
	store, err := NewDirectory(dir)
	if err != nil {
		t.Fatal(err)
	}
	ring, err := NewKeyring(keys...)
	if err != nil {
		t.Fatal(err)
	}
	backend, err := New(Config{Store: store, Keys: ring, Keep: keep, Now: func() time.Time { return time.Unix(1700000000, 0) }})
	if err != nil {
		t.Fatal(err)
	}
	return fixture{backend, dir}
}

func document(serial int, resources string) []byte {
	return fmt.Appendf(nil, `{"version":4,"serial":%d,"lineage":"a","resources":[%s],"outputs":{"password":{"value":"hunter2"}}}`, serial, resources)
}

func mustPut(t *testing.T, b fixture, stack, lock string, data []byte) {
	t.Helper()
	if err := b.Put(t.Context(), stack, lock, data); err != nil {
		t.Fatal(err)
	}
}

func mustLock(t *testing.T, b fixture, stack, id string) {
	t.Helper()
	if err := b.Lock(t.Context(), stack, Lock{ID: id, Who: "test " + id, Operation: "OperationTypeApply"}); err != nil {
		t.Fatal(err)
	}
}

func TestAStateIsWrittenUnderItsLockOnly(t *testing.T) {
	b := newBackend(t, 0)
	if _, err := b.Get(t.Context(), "network.main"); !errors.Is(err, ErrNotFound) {
		t.Errorf("Get of nothing = %v", err)
	}
	if err := b.Put(t.Context(), "network.main", "", document(1, "")); !errors.Is(err, ErrRefused) {
		t.Errorf("Put without a lock = %v", err)
	}
	mustLock(t, b, "network.main", "one")
	mustPut(t, b, "network.main", "one", document(1, ""))
	var locked *LockedError
	if err := b.Put(t.Context(), "network.main", "", document(2, "")); !errors.As(err, &locked) {
		t.Errorf("Put without an ID = %v", err)
	}
	if err := b.Put(t.Context(), "network.main", "two", document(2, "")); !errors.As(err, &locked) || locked.Holder.ID != "one" {
		t.Errorf("Put under another's lock = %v", err)
	}
	if err := b.Unlock(t.Context(), "network.main", "one"); err != nil {
		t.Fatal(err)
	}
	if err := b.Put(t.Context(), "network.main", "one", document(2, "")); !errors.Is(err, ErrRefused) {
		t.Errorf("Put after the lock was given back = %v", err)
	}
	if got, err := b.Get(t.Context(), "network.main"); err != nil || !bytes.Equal(got, document(1, "")) {
		t.Errorf("Get = %s, %v", got, err)
	}
}

func TestALockHasOneHolder(t *testing.T) {
	b := newBackend(t, 0)
	const all = 20
	var group sync.WaitGroup
	results := make([]error, all)
	for i := range all {
		group.Go(func() {
			results[i] = b.Lock(context.Background(), "stack", Lock{ID: fmt.Sprint(i), Who: fmt.Sprint("w", i)})
		})
	}
	group.Wait()
	holders := 0
	for _, err := range results {
		var locked *LockedError
		switch {
		case err == nil:
			holders++
		case !errors.As(err, &locked) || locked.Holder.Who == "":
			t.Errorf("Lock = %v", err)
		}
	}
	if holders != 1 {
		t.Errorf("%d hold the lock", holders)
	}
	record, err := b.Describe(t.Context(), "stack")
	if err != nil {
		t.Fatal(err)
	}
	mustLock(t, b, "stack", record.Lock.ID) // again: the answer to the first may have been lost
	var locked *LockedError
	if err := b.Unlock(t.Context(), "stack", "nobody"); !errors.As(err, &locked) {
		t.Errorf("Unlock of another's = %v", err)
	}
	if err := b.Unlock(t.Context(), "stack", ""); !errors.Is(err, ErrInvalid) {
		t.Errorf("Unlock without an ID = %v", err)
	}
	for range 2 {
		if err := b.Unlock(t.Context(), "stack", record.Lock.ID); err != nil {
			t.Errorf("Unlock = %v", err)
		}
	}
	if left, err := os.ReadDir(b.dir); err != nil || len(left) != 0 {
		t.Errorf("a lock that wrote nothing leaves %v, %v", left, err)
	}
}

func TestHistoryIsKeptAndRestored(t *testing.T) {
	b := newBackend(t, 3)
	mustLock(t, b, "stack", "one")
	for serial := 1; serial <= 5; serial++ {
		mustPut(t, b, "stack", "one", document(serial, ""))
		mustPut(t, b, "stack", "one", document(serial, "")) // sent twice
	}
	record, err := b.Describe(t.Context(), "stack")
	if err != nil || len(record.Versions) != 3 || record.Versions[0].Number != 3 || record.Versions[2].Serial != 5 || record.Versions[2].By != "test one" {
		t.Fatalf("%+v, %v", record, err)
	}
	if files, err := os.ReadDir(filepath.Join(b.dir, "stack")); err != nil || len(files) != 4 {
		t.Errorf("%v, %v", files, err)
	}
	if got, err := b.GetVersion(t.Context(), "stack", 4); err != nil || !bytes.Equal(got, document(4, "")) {
		t.Errorf("GetVersion = %s, %v", got, err)
	}
	if _, err := b.GetVersion(t.Context(), "stack", 1); !errors.Is(err, ErrNotFound) {
		t.Errorf("GetVersion of an old one = %v", err)
	}
	var locked *LockedError
	if err := b.Restore(t.Context(), "stack", 4, Lock{ID: "restore"}); !errors.As(err, &locked) {
		t.Errorf("Restore under another's lock = %v", err)
	}
	if err := b.Unlock(t.Context(), "stack", "one"); err != nil {
		t.Fatal(err)
	}
	if err := b.Restore(t.Context(), "stack", 4, Lock{ID: "restore", Who: "root"}); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Get(t.Context(), "stack"); err != nil || !strings.Contains(string(got), `"serial":6`) {
		t.Errorf("Get after Restore = %s, %v", got, err)
	}
	if record, err := b.Describe(t.Context(), "stack"); err != nil || record.Lock != nil {
		t.Errorf("the lock of Restore is still held: %+v, %v", record, err)
	}
}

func TestWhatWouldLoseSomethingIsRefused(t *testing.T) {
	b := newBackend(t, 0)
	mustLock(t, b, "stack", "one")
	mustPut(t, b, "stack", "one", document(7, `{"type":"aws_vpc"}`))
	for name, data := range map[string][]byte{
		"an older serial": document(6, ""), "the same serial": document(7, ""),
		"another lineage": bytes.Replace(document(8, ""), []byte(`"a"`), []byte(`"b"`), 1),
	} {
		if err := b.Put(t.Context(), "stack", "one", data); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, data := range map[string][]byte{"nothing": nil, "no JSON": []byte("x"), "another document": []byte(`{"a":1}`)} {
		if err := b.Put(t.Context(), "stack", "one", data); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	var locked *LockedError
	if err := b.Delete(t.Context(), "stack"); !errors.As(err, &locked) {
		t.Errorf("Delete under a lock = %v", err)
	}
	if err := b.Unlock(t.Context(), "stack", "one"); err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(t.Context(), "stack"); !errors.Is(err, ErrRefused) {
		t.Errorf("Delete with resources = %v", err)
	}
	mustLock(t, b, "stack", "two")
	mustPut(t, b, "stack", "two", document(8, ""))
	if err := b.Unlock(t.Context(), "stack", "two"); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.Delete(t.Context(), "stack"); err != nil {
			t.Errorf("Delete = %v", err)
		}
	}
	if left, err := os.ReadDir(b.dir); err != nil || len(left) != 0 {
		t.Errorf("Delete leaves %v, %v", left, err)
	}
}

func TestNothingReadableReachesTheStore(t *testing.T) {
	b := newBackend(t, 0)
	mustLock(t, b, "stack", "one")
	mustPut(t, b, "stack", "one", document(1, ""))
	err := filepath.WalkDir(b.dir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if bytes.Contains(data, []byte("hunter2")) || bytes.Contains(data, []byte("password")) {
			t.Errorf("%s holds it", path)
		}
		if info, err := entry.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestContentThatWasChangedOrMovedDoesNotOpen(t *testing.T) {
	b := newBackend(t, 0)
	for _, stack := range []string{"a", "b"} {
		mustLock(t, b, stack, "one")
		mustPut(t, b, stack, "one", document(1, ""))
	}
	content := func(stack string) string {
		record, err := b.Describe(t.Context(), stack)
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Join(b.dir, stack, record.Versions[0].Content)
	}
	data, err := os.ReadFile(content("a"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(content("b"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(t.Context(), "b"); err == nil || !strings.Contains(err.Error(), "belongs elsewhere") {
		t.Errorf("Get of another stack's content = %v", err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(content("a"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Get(t.Context(), "a"); err == nil || !strings.Contains(err.Error(), "was changed") {
		t.Errorf("Get of a changed content = %v", err)
	}
}

func TestKeysRotate(t *testing.T) {
	old, err := NewKeyring(key(1))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := old.Seal([]byte("words"), []byte("here"))
	if err != nil {
		t.Fatal(err)
	}
	both, err := NewKeyring(key(2), key(1))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := both.Open(sealed, []byte("here")); err != nil || string(got) != "words" {
		t.Errorf("Open = %q, %v", got, err)
	}
	fresh, err := both.Seal([]byte("words"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Open(fresh, nil); err == nil || !strings.Contains(err.Error(), "not on the keyring") {
		t.Errorf("Open with the old key only = %v", err)
	}
	if _, err := NewKeyring([]byte("short")); err == nil {
		t.Error("a short key: want an error")
	}
	for _, bad := range [][]byte{nil, {9}, make([]byte, 100)} {
		if _, err := both.Open(bad, nil); err == nil {
			t.Errorf("Open of %d bytes of nothing: want an error", len(bad))
		}
	}
}

func TestWhatIsAbandonedIsForgottenWhateverItHolds(t *testing.T) {
	b := newBackend(t, 3, key(1))
	mustLock(t, b, "web", "one")
	mustPut(t, b, "web", "one", document(1, `{"mode": "managed", "type": "a", "name": "b", "instances": [{}]}`))
	if err := b.Delete(t.Context(), "web"); err == nil {
		t.Error("a stack with resources was deleted")
	}
	for range 2 {
		if err := b.Abandon(t.Context(), "web"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Get(t.Context(), "web"); !errors.Is(err, ErrNotFound) {
		t.Errorf("it is still there: %v", err)
	}
	if err := b.Put(t.Context(), "web", "one", document(2, "")); err == nil {
		t.Error("whoever had the lock still writes")
	}
}
