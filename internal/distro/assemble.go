package distro

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"

	"plasmacloud.io/plasmacloud/internal/distro/cache"
	"plasmacloud.io/plasmacloud/internal/release"
)

// assemble makes the release directory hold what the cache holds of the given steps, and tells whether anything had
// to be changed. Files are hard links into the cache where both are on one file system, copies otherwise. Programs
// that others put into the directory stay.
func assemble(ctx context.Context, output string, steps []*step, r *runner) (bool, error) {
	if err := os.MkdirAll(output, 0o755); err != nil { //nolint:gosec // a release is public
		return false, fmt.Errorf("assemble release: %w", err)
	}
	lock, err := cache.Acquire(ctx, filepath.Join(output, ".lock"))
	if err != nil {
		return false, fmt.Errorf("assemble release: %w", err)
	}
	defer lock.Release()
	content, err := collect(steps, r)
	if err != nil {
		return false, fmt.Errorf("assemble release: %w", err)
	}
	if err := content.addSBOM(ctx, r); err != nil {
		return false, fmt.Errorf("assemble release: %w", err)
	}
	changed, err := placeFiles(ctx, output, content.files)
	if err != nil {
		return false, fmt.Errorf("assemble release: %w", err)
	}
	stale, err := removeStale(output, content.files)
	if err != nil {
		return false, fmt.Errorf("assemble release: %w", err)
	}
	if err := content.writeIndexes(output); err != nil {
		return false, fmt.Errorf("assemble release: %w", err)
	}
	return changed || stale, nil
}

// content is what a release consists of.
type content struct {
	artifacts []release.Artifact
	files     map[string]string // path in the release, file it comes from
	packages  string            // the machine root's package list, if it is built
}

// collect finds all that is built, now or earlier.
func collect(steps []*step, r *runner) (*content, error) {
	c := &content{files: make(map[string]string)}
	blobs := make(map[string]string)
	for _, s := range steps {
		entry, err := r.lookup(s)
		if err != nil {
			return nil, err
		}
		if entry == nil {
			continue
		}
		for _, file := range entry.Files {
			if filepath.Dir(file.Name) == filepath.Join("blobs", "sha256") {
				blobs[filepath.Base(file.Name)] = entry.Path(file.Name)
			}
		}
		if s.name == machineRootStep {
			c.packages = entry.Path(packagesRecord)
		}
		if s.artifacts == nil {
			continue
		}
		placed, err := s.artifacts(entry)
		if err != nil {
			return nil, err
		}
		for _, one := range placed {
			c.add(one)
		}
	}
	for _, artifact := range c.artifacts {
		for _, blob := range artifact.Blobs {
			if blobs[blob.SHA256] == "" {
				return nil, fmt.Errorf("find blob %s of image %s: not built", blob.SHA256, artifact.Name)
			}
			c.files[blob.Path()] = blobs[blob.SHA256]
		}
	}
	return c, nil
}

func (c *content) add(one placed) {
	c.artifacts = append(c.artifacts, one.Artifact)
	c.files[one.Path] = one.source
}

// writeIndexes writes what tells readers what is there: the image layout's index and the manifest.
func (c *content) writeIndexes(output string) error {
	var images []release.Artifact
	for _, artifact := range c.artifacts {
		if artifact.IsImage() {
			images = append(images, artifact)
		}
	}
	if len(images) > 0 {
		if err := release.WriteLayout(filepath.Join(output, release.ImagesDir), images); err != nil {
			return err
		}
	}
	manifest := &release.Manifest{Schema: release.Schema, Artifacts: c.artifacts}
	return manifest.Write(output)
}

// placeFiles brings every file of the release into place and tells whether one was missing or different.
func placeFiles(ctx context.Context, output string, files map[string]string) (bool, error) {
	changed := false
	paths := make([]string, 0, len(files))
	for path := range files {
		paths = append(paths, path)
	}
	sort.Strings(paths)
	for _, path := range paths {
		if err := ctx.Err(); err != nil {
			return changed, err
		}
		one, err := placeFile(files[path], filepath.Join(output, path))
		if err != nil {
			return changed, err
		}
		changed = changed || one
	}
	return changed, nil
}

// placeFile makes target the same file as source, or a copy of it that tells by its time which source it is of.
func placeFile(source, target string) (bool, error) {
	want, err := os.Stat(source)
	if err != nil {
		return false, err
	}
	if have, err := os.Lstat(target); err == nil && have.Mode().IsRegular() &&
		(os.SameFile(want, have) || have.Size() == want.Size() && have.ModTime().Equal(want.ModTime())) {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil { //nolint:gosec // a release is public
		return false, err
	}
	temporary := filepath.Join(filepath.Dir(target), ".new-"+filepath.Base(target))
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := os.Link(source, temporary); err != nil {
		if err := copyFile(source, temporary, want); err != nil {
			return false, err
		}
	}
	return true, os.Rename(temporary, target)
}

func copyFile(source, target string, info fs.FileInfo) error {
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	out, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, info.Mode().Perm())
	if err != nil {
		return err
	}
	_, copyErr := io.Copy(out, in)
	return errors.Join(copyErr, out.Close(), os.Chtimes(target, info.ModTime(), info.ModTime()))
}

// removeStale removes what an earlier manifest lists and this build does not make any more.
func removeStale(output string, files map[string]string) (bool, error) {
	old, err := release.ReadManifest(output)
	if err != nil {
		return false, nil //nolint:nilerr // nothing readable was there before
	}
	paths := make([]string, 0, len(old.Artifacts))
	for _, artifact := range old.Artifacts {
		paths = append(paths, artifact.Path)
		for _, blob := range artifact.Blobs {
			paths = append(paths, blob.Path())
		}
	}
	removed := false
	for _, path := range paths {
		if files[path] != "" {
			continue
		}
		err := os.Remove(filepath.Join(output, path))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, err
		}
		removed = removed || err == nil
		os.Remove(filepath.Dir(filepath.Join(output, path))) //nolint:errcheck // only succeeds, and should, if it is empty
	}
	return removed, nil
}
