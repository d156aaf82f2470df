package etcd

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Snapshot is a file that holds a whole cluster's data.
type Snapshot struct {
	Name    string    `json:"name"`
	Path    string    `json:"path"`
	Size    int64     `json:"size"`
	Created time.Time `json:"created"`
}

var snapshotName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

const partSuffix = ".part"

// Save writes a snapshot of the cluster into dir. The file appears under its name when it is whole and verified.
func Save(ctx context.Context, client *clientv3.Client, dir, name string) (Snapshot, error) {
	path, err := snapshotPath(dir, name)
	if err != nil {
		return Snapshot{}, err
	}
	if _, err := os.Stat(path); err == nil {
		return Snapshot{}, fmt.Errorf("snapshot %q exists already in %s: choose another --name", name, dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Snapshot{}, fmt.Errorf("save snapshot: %w", err)
	}
	part := path + partSuffix
	if err := download(ctx, client, part); err != nil {
		_ = os.Remove(part)
		return Snapshot{}, fmt.Errorf("save snapshot %q: %w", name, err)
	}
	if err := os.Rename(part, path); err != nil {
		return Snapshot{}, fmt.Errorf("save snapshot %q: %w", name, err)
	}
	return describe(path)
}

func download(ctx context.Context, client *clientv3.Client, path string) error {
	stream, err := client.SnapshotWithVersion(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Snapshot.Close() }()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if _, err := io.Copy(file, stream.Snapshot); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return Verify(path)
}

// Verify checks a snapshot against the SHA-256 sum that etcd puts at its end.
func Verify(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	// A database is a whole number of 512-byte sectors.
	if info.Size() <= sha256.Size || info.Size()%512 != sha256.Size {
		return fmt.Errorf("%s is no etcd snapshot, or is cut short", path)
	}
	hash := sha256.New()
	if _, err := io.CopyN(hash, file, info.Size()-sha256.Size); err != nil {
		return err
	}
	sum, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	if !slices.Equal(sum, hash.Sum(nil)) {
		return fmt.Errorf("%s is damaged: its checksum does not match", path)
	}
	return nil
}

// List returns the snapshots in dir, newest first.
func List(dir string) ([]Snapshot, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list snapshots: %w", err)
	}
	var snapshots []Snapshot
	for _, entry := range entries {
		if entry.IsDir() || filepath.Ext(entry.Name()) == partSuffix {
			continue
		}
		snapshot, err := describe(filepath.Join(dir, entry.Name()))
		if err != nil {
			return nil, err
		}
		snapshots = append(snapshots, snapshot)
	}
	slices.SortFunc(snapshots, func(a, b Snapshot) int { return b.Created.Compare(a.Created) })
	return snapshots, nil
}

// Delete removes a snapshot.
func Delete(dir, name string) error {
	path, err := snapshotPath(dir, name)
	if err != nil {
		return err
	}
	if err := os.Remove(path); errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("no snapshot %q in %s: `k8shost etcd-snapshot ls` lists what is there", name, dir)
	} else if err != nil {
		return fmt.Errorf("delete snapshot: %w", err)
	}
	return nil
}

// Prune removes the oldest snapshots whose name begins with prefix, beyond the newest keep.
func Prune(dir, prefix string, keep int) error {
	snapshots, err := List(dir)
	if err != nil {
		return err
	}
	for _, snapshot := range snapshots {
		if len(snapshot.Name) < len(prefix) || snapshot.Name[:len(prefix)] != prefix {
			continue
		}
		if keep--; keep < 0 {
			if err := os.Remove(snapshot.Path); err != nil {
				return fmt.Errorf("remove old snapshot: %w", err)
			}
		}
	}
	return nil
}

func snapshotPath(dir, name string) (string, error) {
	if !snapshotName.MatchString(name) || filepath.Ext(name) == partSuffix {
		return "", fmt.Errorf("%q is no name for a snapshot: use letters, digits, '.', '_' and '-', beginning with a letter or digit", name)
	}
	return filepath.Join(dir, name), nil
}

func describe(path string) (Snapshot, error) {
	info, err := os.Stat(path)
	if err != nil {
		return Snapshot{}, err
	}
	return Snapshot{Name: info.Name(), Path: path, Size: info.Size(), Created: info.ModTime().UTC()}, nil
}
