package lab

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Tree is what a directory holds: each file's mode and content, by its path.
type Tree map[string]string

// ReadTree reads the data of a node: everything in its data directory but logs, and what a launcher notes about itself
// while it holds the directory.
func (n *Node) ReadTree(t testing.TB) Tree {
	t.Helper()
	tree := Tree{}
	err := filepath.WalkDir(n.Data.Path(), func(path string, entry fs.DirEntry, err error) error {
		if path == n.Data.Path() && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if slices.Contains([]string{n.Data.Run(), n.Data.Logs()}, path) {
			return fs.SkipDir
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		description := info.Mode().String()
		if info.Mode().IsRegular() {
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			description += fmt.Sprintf(" %x", sha256.Sum256(content))
		}
		tree[strings.TrimPrefix(path, n.Data.Path()+"/")] = description
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

// Differences lists the paths that are not the same in another tree.
func (tree Tree) Differences(other Tree) []string {
	var paths []string
	for path, description := range tree {
		if other[path] != description {
			paths = append(paths, path)
		}
	}
	for path := range other {
		if _, known := tree[path]; !known {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}
