package guest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// keptDir is the part of the disk where directories are that are kept. It is there once somebody has asked for it.
const keptDir = dataDir + "/kept"

// What is kept of a machine that becomes a node by what is done on it over SSH. Those that are kept whole may be
// anything, also what containers run from, and begin empty; the others are the image's with what has changed in them.
var (
	keptWhole = []string{
		"/etc/cni", "/etc/k8shost", "/etc/kubernetes", "/var/lib/containerd", "/var/lib/etcd", "/var/lib/kubelet", "/var/lib/plasmacloud",
	}
	keptChanges = []string{"/etc/systemd/system", "/opt", "/usr/local"}
)

// Keep makes what is done to the machine from now on last as long as the machine: its root is new whenever its container
// is started again, but its disk is not. It may be repeated.
func Keep() error {
	if err := os.MkdirAll(keptDir, 0o700); err != nil {
		return fmt.Errorf("keep changes: %w", err)
	}
	return bringBack(keptDir, keptWhole, keptChanges)
}

// bringBack mounts what is kept, where anything is.
func bringBack(kept string, whole, changes []string) error {
	if _, err := os.Stat(kept); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	mounted, err := mountPoints()
	if err != nil {
		return fmt.Errorf("keep changes: %w", err)
	}
	for _, target := range whole {
		if mounted[target] {
			continue
		}
		if err := bindKept(filepath.Join(kept, plainName(target)), target); err != nil {
			return fmt.Errorf("keep %s: %w", target, err)
		}
	}
	for _, target := range changes {
		if mounted[target] {
			continue
		}
		if err := layer(filepath.Join(kept, plainName(target)), target); err != nil {
			return fmt.Errorf("keep changes of %s: %w", target, err)
		}
	}
	return nil
}

func plainName(path string) string {
	return strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "-")
}

func bindKept(source, target string) error {
	for _, dir := range []string{source, target} {
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as such directories are
			return err
		}
	}
	return bindDirectory(source, target)
}

// layer lets changes to a directory go to the disk.
func layer(disk, target string) error {
	upper, work := filepath.Join(disk, "upper"), filepath.Join(disk, "work")
	for _, dir := range []string{target, upper, work} {
		if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // as such directories are
			return err
		}
	}
	return unix.Mount("overlay", target, "overlay", 0, "lowerdir="+target+",upperdir="+upper+",workdir="+work)
}

// mountPoints are where something is mounted.
func mountPoints() (map[string]bool, error) {
	content, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	points := map[string]bool{}
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			points[fields[4]] = true
		}
	}
	return points, nil
}
