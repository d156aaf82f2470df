package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"sort"
)

// Key hashes a recipe: everything that decides what comes out of a build. Whatever is added is framed by its label
// and length, so that no two recipes run together.
type Key struct {
	hash hash.Hash
	err  error
}

// NewKey begins the key of a recipe.
func NewKey() *Key { return &Key{hash: sha256.New()} }

// Add adds values under a label.
func (k *Key) Add(label string, values ...string) *Key {
	fmt.Fprintf(k.hash, "%d:%s=%d;", len(label), label, len(values))
	for _, value := range values {
		fmt.Fprintf(k.hash, "%d:%s;", len(value), value)
	}
	return k
}

// Fail makes Sum report the error, unless it is nil.
func (k *Key) Fail(err error) {
	if err != nil && k.err == nil {
		k.err = err
	}
}

// AddFiles adds the content of the files in dir that match any of the patterns, by name, not by where dir is.
func (k *Key) AddFiles(dir string, patterns ...string) *Key {
	var names []string
	for _, pattern := range patterns {
		matches, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			k.Fail(err)
			return k
		}
		names = append(names, matches...)
	}
	sort.Strings(names)
	for _, name := range names {
		k.addFile(name)
	}
	return k
}

func (k *Key) addFile(name string) {
	file, err := os.Open(name)
	if err != nil {
		k.Fail(err)
		return
	}
	defer file.Close() //nolint:errcheck // only read
	content := sha256.New()
	if _, err := io.Copy(content, file); err != nil {
		k.Fail(err)
		return
	}
	k.Add("file", filepath.Base(name), hex.EncodeToString(content.Sum(nil)))
}

// Sum is the key, or the first error of reading a file that belongs to the recipe.
func (k *Key) Sum() (string, error) {
	if k.err != nil {
		return "", fmt.Errorf("hash recipe: %w", k.err)
	}
	return hex.EncodeToString(k.hash.Sum(nil))[:32], nil
}
