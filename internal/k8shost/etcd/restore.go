package etcd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// BootstrapIn returns the sealed secrets of the cluster that a snapshot was taken of, without starting etcd.
func BootstrapIn(snapshot string) ([]byte, error) {
	db, err := bbolt.Open(snapshot, 0o600, &bbolt.Options{ReadOnly: true, Timeout: 5 * time.Second})
	if err != nil {
		return nil, fmt.Errorf("open snapshot %s: %w", snapshot, err)
	}
	defer func() { _ = db.Close() }()
	var sealed []byte
	err = db.View(func(tx *bbolt.Tx) error {
		bucket := tx.Bucket([]byte("key"))
		if bucket == nil {
			return errors.New("no keys in it")
		}
		// Keys are revisions in order, so the last one found is the current one.
		cursor := bucket.Cursor()
		for revision, value := cursor.Last(); revision != nil; revision, value = cursor.Prev() {
			var kv mvccpb.KeyValue
			if err := kv.Unmarshal(value); err != nil {
				return err
			}
			if string(kv.Key) == BootstrapKey {
				sealed = append([]byte(nil), kv.Value...)
				return nil
			}
		}
		return errors.New("it holds no secrets of a k8shost cluster")
	})
	if err != nil {
		return nil, fmt.Errorf("read snapshot %s: %w", snapshot, err)
	}
	return sealed, nil
}

// Restore makes dataDir the data directory of a one-member cluster with the snapshot's content. What was there before
// is kept beside it, under a name that tells when. Nothing changes unless the whole of it works.
func Restore(ctx context.Context, etcdutl, snapshot, dataDir, member, peerURL string, now time.Time) (kept string, err error) {
	if err := Verify(snapshot); err != nil {
		return "", err
	}
	fresh := dataDir + ".restoring"
	if err := os.RemoveAll(fresh); err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(dataDir), 0o700); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, etcdutl, "snapshot", "restore", snapshot,
		"--data-dir", fresh, "--name", member, "--initial-cluster", member+"="+peerURL,
		"--initial-advertise-peer-urls", peerURL,
		// Watchers must notice that history has changed under them.
		"--bump-revision", strconv.FormatInt(revisionBump(now), 10), "--mark-compacted")
	if output, err := cmd.CombinedOutput(); err != nil {
		_ = os.RemoveAll(fresh)
		return "", fmt.Errorf("restore snapshot: %w: %s", err, lastLine(output))
	}
	if _, err := os.Stat(dataDir); err == nil {
		kept = dataDir + "-before-" + now.UTC().Format("20060102-150405")
		if err := os.Rename(dataDir, kept); err != nil {
			return "", err
		}
	}
	return kept, os.Rename(fresh, dataDir)
}

// revisionBump is how far beyond the snapshot's the restored cluster's revisions begin: beyond all that watchers can
// have seen, in the cluster that was lost and in one restored from the same snapshot before. No cluster makes a
// thousand changes a second for long, so the time in milliseconds is always ahead.
func revisionBump(now time.Time) int64 { return max(now.UnixMilli(), 1_000_000_000) }

func lastLine(output []byte) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return lines[len(lines)-1]
}
