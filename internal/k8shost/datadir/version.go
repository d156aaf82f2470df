package datadir

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"golang.org/x/mod/semver"

	"plasmacloud.io/plasmacloud/internal/atomicfile"
)

type record struct {
	Kubernetes string `json:"kubernetes"`
}

func (d Dir) versionFile() string { return d.Path("version.json") }

// LastVersion returns the Kubernetes version that used the directory last, or "" for a new one.
func (d Dir) LastVersion() (string, error) {
	content, err := os.ReadFile(d.versionFile())
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read version of data directory: %w", err)
	}
	var r record
	if err := json.Unmarshal(content, &r); err != nil {
		return "", fmt.Errorf("read version of data directory from %s: %w", d.versionFile(), err)
	}
	if !semver.IsValid(r.Kubernetes) {
		return "", fmt.Errorf("read version of data directory from %s: %q is no version", d.versionFile(), r.Kubernetes)
	}
	return r.Kubernetes, nil
}

// CheckVersion refuses a Kubernetes version that must not open the directory: an older one, as stored objects may be
// in a form it does not know, and one that skips a minor, as upstream supports no such upgrade.
func (d Dir) CheckVersion(next string) error {
	last, err := d.LastVersion()
	if err != nil || last == "" {
		return err
	}
	if semver.Compare(semver.MajorMinor(next), semver.MajorMinor(last)) < 0 {
		return fmt.Errorf("data directory %s was last used by Kubernetes %s, and %s is older: "+
			"start it with --kubernetes-version %s or newer, or restore a snapshot taken by %s into an empty data directory",
			d.path, last, next, last, semver.MajorMinor(next))
	}
	if minor(next)-minor(last) > 1 {
		return fmt.Errorf("data directory %s was last used by Kubernetes %s, and %s skips a minor version: upgrade one minor at a time",
			d.path, last, next)
	}
	return nil
}

// RecordVersion notes which version uses the directory.
func (d Dir) RecordVersion(version string) error {
	content, err := json.Marshal(record{Kubernetes: version})
	if err != nil {
		return err
	}
	return atomicfile.Write(d.versionFile(), append(content, '\n'), 0o600)
}

func minor(version string) int {
	var major, n int
	if _, err := fmt.Sscanf(semver.MajorMinor(version), "v%d.%d", &major, &n); err != nil {
		return 0
	}
	return major*1000 + n
}
