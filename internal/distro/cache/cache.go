// Package cache keeps what the builder made, by the hash of the recipe it was made from. It lies outside of any clone,
// so that a fresh clone on the same machine rebuilds nothing. An entry is a directory of files; it appears as a whole
// or not at all, and two builders that want the same entry make it once.
package cache

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"plasmacloud.io/plasmacloud/internal/release"
)

// EnvRoot is the environment variable that moves the cache.
const EnvRoot = "PLASMACLOUD_CACHE"

// recordName is the file in an entry that tells what the others must be.
const recordName = "entry.json"

// Entries of a step that stay in the cache: the last few, and all that were used lately.
const (
	keptEntries = 3
	keptFor     = 3 * 24 * time.Hour
)

// Cache is a directory of entries.
type Cache struct{ root string }

// Open returns the cache in root, making the directory if it is not there.
func Open(root string) (*Cache, error) {
	for _, dir := range []string{"entries", "locks", "tmp"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil { //nolint:gosec // nothing secret is in it
			return nil, fmt.Errorf("open build cache: %w", err)
		}
	}
	return &Cache{root: root}, nil
}

// DefaultRoot is where the cache lies unless told otherwise: $PLASMACLOUD_CACHE, or plasmacloud in the user's cache.
func DefaultRoot() (string, error) {
	if root := os.Getenv(EnvRoot); root != "" {
		return root, nil
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a place for the build cache (set %s): %w", EnvRoot, err)
	}
	return filepath.Join(dir, "plasmacloud"), nil
}

// File is one file of an entry.
type File struct {
	Name    string    `json:"name"` // relative to the entry
	Size    int64     `json:"size"`
	ModTime time.Time `json:"modTime"`
	SHA256  string    `json:"sha256"`
}

// Entry is a finished build.
type Entry struct {
	Name    string        `json:"name"`
	Key     string        `json:"key"`
	Files   []File        `json:"files"`
	Elapsed time.Duration `json:"elapsed"` // how long it took to make

	dir string
}

// Path is the absolute path of a file in the entry.
func (e *Entry) Path(name string) string { return filepath.Join(e.dir, name) }

// File finds a file of the entry by its name.
func (e *Entry) File(name string) (File, bool) {
	at := slices.IndexFunc(e.Files, func(f File) bool { return f.Name == name })
	if at < 0 {
		return File{}, false
	}
	return e.Files[at], true
}

// Size is how many bytes the entry's files have.
func (e *Entry) Size() int64 {
	var total int64
	for _, file := range e.Files {
		total += file.Size
	}
	return total
}

// Lookup finds the entry and checks that its files are as they were written, by size and modification time. It returns
// nil if there is no entry or if it is damaged: either way it has to be built.
func (c *Cache) Lookup(name, key string) (*Entry, error) {
	dir := c.entryDir(name, key)
	data, err := os.ReadFile(filepath.Join(dir, recordName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("look up %s in the build cache: %w", name, err)
	}
	entry := &Entry{dir: dir}
	if err := json.Unmarshal(data, entry); err != nil {
		return nil, nil //nolint:nilerr // a damaged record is a damaged entry
	}
	for _, file := range entry.Files {
		if !intact(filepath.Join(dir, file.Name), file) {
			return nil, nil
		}
	}
	now := time.Now()
	os.Chtimes(filepath.Join(dir, recordName), now, now) //nolint:errcheck // a cache that is only read stays useful
	return entry, nil
}

// prune removes entries of a step that were not used for long, but for the last few: each change of a recipe leaves one
// behind.
func (c *Cache) prune(name string) {
	records, err := filepath.Glob(filepath.Join(c.root, "entries", name, "*", recordName))
	if err != nil || len(records) <= keptEntries {
		return
	}
	used := make(map[string]time.Time)
	for _, record := range records {
		if info, err := os.Stat(record); err == nil {
			used[record] = info.ModTime()
		}
	}
	slices.SortFunc(records, func(a, b string) int { return used[b].Compare(used[a]) })
	for _, record := range records[keptEntries:] {
		if time.Since(used[record]) > keptFor {
			os.RemoveAll(filepath.Dir(record)) //nolint:errcheck // what is left is removed another time
		}
	}
}

// intact compares size and modification time. Where only the time differs, as after the cache was copied, it reads the
// file.
func intact(path string, want File) bool {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() != want.Size {
		return false
	}
	if info.ModTime().Equal(want.ModTime) {
		return true
	}
	_, sum, err := release.HashFile(path)
	return err == nil && sum == want.SHA256 && os.Chtimes(path, time.Time{}, want.ModTime) == nil
}

// Remove drops an entry, so that it is built again.
func (c *Cache) Remove(name, key string) error {
	if err := os.RemoveAll(c.entryDir(name, key)); err != nil {
		return fmt.Errorf("remove %s from the build cache: %w", name, err)
	}
	return nil
}

// Build makes the entry unless it is there. The function fills an empty directory; when it succeeds, the directory is
// recorded and moved into place. If another builder is at work on the same entry, Build waits for it. The boolean
// tells whether this call built it.
func (c *Cache) Build(ctx context.Context, name, key string, build func(ctx context.Context, dir string) error) (*Entry, bool, error) {
	lock, err := Acquire(ctx, filepath.Join(c.root, "locks", name+"-"+key))
	if err != nil {
		return nil, false, fmt.Errorf("build %s: %w", name, err)
	}
	defer lock.Release()
	if entry, err := c.Lookup(name, key); err != nil || entry != nil {
		return entry, false, err
	}
	pattern := name + "-" + key + "-"
	if err := c.removeStale(pattern); err != nil {
		return nil, false, fmt.Errorf("build %s: %w", name, err)
	}
	work, err := os.MkdirTemp(filepath.Join(c.root, "tmp"), pattern)
	if err != nil {
		return nil, false, fmt.Errorf("build %s: %w", name, err)
	}
	defer os.RemoveAll(work) //nolint:errcheck // removeStale gets it next time
	started := time.Now()
	if err := build(ctx, work); err != nil {
		return nil, false, fmt.Errorf("build %s: %w", name, err)
	}
	entry := &Entry{Name: name, Key: key, Elapsed: time.Since(started), dir: c.entryDir(name, key)}
	if err := entry.record(work); err != nil {
		return nil, false, fmt.Errorf("build %s: %w", name, err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(entry.dir), 0o755), os.RemoveAll(entry.dir)); err != nil { //nolint:gosec // nothing secret; what is there is damaged
		return nil, false, fmt.Errorf("build %s: %w", name, err)
	}
	if err := os.Rename(work, entry.dir); err != nil {
		return nil, false, fmt.Errorf("build %s: %w", name, err)
	}
	c.prune(name)
	return entry, true, nil
}

// record writes down what the finished directory holds.
func (e *Entry) record(work string) error {
	err := filepath.WalkDir(work, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("record %s: not a regular file", path)
		}
		size, sum, err := release.HashFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(work, path)
		if err != nil {
			return err
		}
		e.Files = append(e.Files, File{Name: name, Size: size, ModTime: info.ModTime().UTC(), SHA256: sum})
		return nil
	})
	if err != nil {
		return err
	}
	data, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return err
	}
	if err := os.Chmod(work, 0o755); err != nil { //nolint:gosec // nothing secret is in it
		return err
	}
	return release.WriteIfChanged(filepath.Join(work, recordName), data)
}

// removeStale clears what a builder that was killed left behind. The caller holds the entry's lock.
func (c *Cache) removeStale(prefix string) error {
	left, err := os.ReadDir(filepath.Join(c.root, "tmp"))
	if err != nil {
		return err
	}
	for _, entry := range left {
		if strings.HasPrefix(entry.Name(), prefix) {
			if err := os.RemoveAll(filepath.Join(c.root, "tmp", entry.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Cache) entryDir(name, key string) string {
	return filepath.Join(c.root, "entries", name, key)
}
