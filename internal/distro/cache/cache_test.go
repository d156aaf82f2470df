package cache

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func open(t *testing.T) *Cache {
	t.Helper()
	c, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// writes is a build that makes one file and counts how often it ran.
func writes(count *atomic.Int32, content string) func(context.Context, string) error {
	return func(_ context.Context, dir string) error {
		count.Add(1)
		return os.WriteFile(filepath.Join(dir, "file"), []byte(content), 0o644)
	}
}

func TestBuildOnceThenServeFromTheCache(t *testing.T) {
	c, count := open(t), new(atomic.Int32)
	for i := range 3 {
		entry, built, err := c.Build(t.Context(), "step", "key", writes(count, "content"))
		if err != nil || built != (i == 0) {
			t.Fatalf("build %d: built %v, %v", i, built, err)
		}
		if data, err := os.ReadFile(entry.Path("file")); err != nil || string(data) != "content" {
			t.Fatalf("build %d: %q, %v", i, data, err)
		}
	}
	if entry, _, err := c.Build(t.Context(), "step", "other key", writes(count, "other")); err != nil || entry.Size() != 5 {
		t.Fatalf("another recipe: %v", err)
	}
	if count.Load() != 2 {
		t.Errorf("built %d times, want once for each recipe", count.Load())
	}
}

func TestAFailedBuildLeavesNothing(t *testing.T) {
	c, count := open(t), new(atomic.Int32)
	failure := errors.New("no compiler")
	_, _, err := c.Build(t.Context(), "step", "key", func(_ context.Context, dir string) error {
		return errors.Join(os.WriteFile(filepath.Join(dir, "half"), nil, 0o644), failure)
	})
	if !errors.Is(err, failure) {
		t.Fatalf("Build = %v, want the build's own error", err)
	}
	if entry, err := c.Lookup("step", "key"); entry != nil || err != nil {
		t.Errorf("Lookup after a failure = %v, %v; want nothing", entry, err)
	}
	if left, _ := os.ReadDir(filepath.Join(c.root, "tmp")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, built, err := c.Build(t.Context(), "step", "key", writes(count, "x")); err != nil || !built {
		t.Errorf("the next build: %v, %v", built, err)
	}
}

func TestWhatAKilledBuilderLeftIsRemoved(t *testing.T) {
	c, count := open(t), new(atomic.Int32)
	stale := filepath.Join(c.root, "tmp", "step-key-123")
	others := filepath.Join(c.root, "tmp", "other-key-123")
	for _, dir := range []string{stale, others} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := c.Build(t.Context(), "step", "key", writes(count, "x")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("stale directory: %v, want it gone", err)
	}
	if _, err := os.Stat(others); err != nil {
		t.Errorf("the directory of a builder that may be at work: %v", err)
	}
}

func TestDamageIsNoticed(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"cut short":             func(path string) error { return os.Truncate(path, 3) },
		"gone":                  os.Remove,
		"changed, of same size": func(path string) error { return os.WriteFile(path, []byte("CONTENT"), 0o644) },
		"replaced by a link":    func(path string) error { return errors.Join(os.Remove(path), os.Symlink("/dev/null", path)) },
		"record broken": func(path string) error {
			return os.WriteFile(filepath.Join(filepath.Dir(path), recordName), []byte("{"), 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, count := open(t), new(atomic.Int32)
			entry, _, err := c.Build(t.Context(), "step", "key", writes(count, "content"))
			if err != nil {
				t.Fatal(err)
			}
			if err := damage(entry.Path("file")); err != nil {
				t.Fatal(err)
			}
			if _, built, err := c.Build(t.Context(), "step", "key", writes(count, "content")); err != nil || !built {
				t.Fatalf("after damage: built %v, %v; want it built again", built, err)
			}
			if entry, err := c.Lookup("step", "key"); entry == nil || err != nil {
				t.Errorf("after mending: %v, %v", entry, err)
			}
		})
	}
}

func TestACopiedCacheIsStillGood(t *testing.T) {
	c, count := open(t), new(atomic.Int32)
	entry, _, err := c.Build(t.Context(), "step", "key", writes(count, "content"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(entry.Path("file"), time.Time{}, time.Now().Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	if entry, err := c.Lookup("step", "key"); entry == nil || err != nil {
		t.Errorf("Lookup with another time, same content: %v, %v; want the entry", entry, err)
	}
}

func TestEntriesThatNobodyUsesAreRemoved(t *testing.T) {
	c, count := open(t), new(atomic.Int32)
	build := func(key string) {
		t.Helper()
		if _, _, err := c.Build(t.Context(), "step", key, writes(count, key)); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"1", "2", "3", "4", "5"} {
		build(key)
	}
	long := time.Now().Add(-2 * keptFor)
	for _, key := range []string{"1", "2", "3"} {
		if err := os.Chtimes(filepath.Join(c.entryDir("step", key), recordName), long, long); err != nil {
			t.Fatal(err)
		}
	}
	build("2") // used again
	build("6")
	for key, stays := range map[string]bool{"1": false, "2": true, "3": false, "4": true, "5": true, "6": true} {
		if entry, err := c.Lookup("step", key); err != nil || (entry != nil) != stays {
			t.Errorf("entry %s: %v, %v; want it there: %v", key, entry, err, stays)
		}
	}
}

func TestTwoBuildersBuildOnce(t *testing.T) {
	root, count := t.TempDir(), new(atomic.Int32)
	var builders sync.WaitGroup
	for range 4 {
		builders.Go(func() {
			c, err := Open(root)
			if err != nil {
				t.Error(err)
				return
			}
			slow := func(ctx context.Context, dir string) error {
				timer := time.NewTimer(50 * time.Millisecond)
				defer timer.Stop()
				<-timer.C
				return writes(count, "content")(ctx, dir)
			}
			if _, _, err := c.Build(t.Context(), "step", "key", slow); err != nil {
				t.Error(err)
			}
		})
	}
	builders.Wait()
	if count.Load() != 1 {
		t.Errorf("built %d times, want once", count.Load())
	}
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	lock, err := Acquire(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Acquire(ctx, path); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Acquire of a taken lock = %v, want the deadline", err)
	}
}

func sum(t *testing.T, k *Key) string {
	t.Helper()
	s, err := k.Sum()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestKeysTellRecipesApart(t *testing.T) {
	recipes := map[string]*Key{
		"base":           NewKey().Add("flags", "-a", "-b"),
		"another value":  NewKey().Add("flags", "-a", "-c"),
		"another order":  NewKey().Add("flags", "-b", "-a"),
		"run together":   NewKey().Add("flags", "-a-b"),
		"another label":  NewKey().Add("tags", "-a", "-b"),
		"split in two":   NewKey().Add("flags", "-a").Add("flags", "-b"),
		"nothing":        NewKey(),
		"an empty value": NewKey().Add("flags", ""),
	}
	seen := make(map[string]string)
	for name, key := range recipes {
		s := sum(t, key)
		if other, dup := seen[s]; dup {
			t.Errorf("%q and %q have the same key", name, other)
		}
		seen[s] = name
	}
	if seen[sum(t, NewKey().Add("flags", "-a", "-b"))] != "base" {
		t.Error("the same recipe has two keys")
	}
}

func TestKeyOfFiles(t *testing.T) {
	module := func(content string) string {
		dir := t.TempDir()
		for _, name := range []string{"go.mod", "main.go", "README"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(name+content), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	one := sum(t, NewKey().AddFiles(module("1"), "go.mod", "*.go"))
	if same := sum(t, NewKey().AddFiles(module("1"), "go.mod", "*.go")); same != one {
		t.Error("the same files in another place have another key")
	}
	if other := sum(t, NewKey().AddFiles(module("2"), "go.mod", "*.go")); other == one {
		t.Error("other files have the same key")
	}
	failed := NewKey()
	failed.Fail(os.ErrPermission)
	if _, err := failed.Sum(); !errors.Is(err, os.ErrPermission) {
		t.Errorf("Sum after a failure = %v", err)
	}
}
