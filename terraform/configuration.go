// Package configuration holds the configurations that OpenTofu applies in customers' accounts, embedded: a folder for
// each cloud, infra version and kind of stack, such as aws/v1.1.0/cluster. A stack stays on its version until it is
// upgraded, so a version that was released is never changed: what is new is a new version.
package configuration

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"golang.org/x/mod/semver"
)

//go:embed aws gcp azure
var files embed.FS

// Kind is what a stack makes.
type Kind string

// The kinds of stacks.
const (
	Network Kind = "network"
	Cluster Kind = "cluster"
	Bucket  Kind = "bucket"
)

// Versions lists the infra versions of a cloud, newest first.
func Versions(cloud string) []string {
	entries, err := files.ReadDir(cloud)
	if err != nil {
		return nil
	}
	var versions []string
	for _, entry := range entries {
		versions = append(versions, entry.Name())
	}
	slices.SortFunc(versions, func(a, b string) int { return semver.Compare(b, a) })
	return versions
}

// Resolve finds an infra version of a cloud: the newest where want is empty.
func Resolve(cloud, want string) (string, error) {
	versions := Versions(cloud)
	if len(versions) == 0 {
		return "", fmt.Errorf("no configurations for a cloud %q", cloud)
	}
	if want == "" {
		return versions[0], nil
	}
	if !slices.Contains(versions, want) {
		return "", fmt.Errorf("no infra version %q for %s: have %s", want, cloud, strings.Join(versions, ", "))
	}
	return want, nil
}

// Files are the files of one configuration, by name.
func Files(cloud, version string, kind Kind) (map[string][]byte, error) {
	version, err := Resolve(cloud, version)
	if err != nil {
		return nil, fmt.Errorf("find configuration: %w", err)
	}
	dir := path.Join(cloud, version, string(kind))
	entries, err := files.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("find configuration: no %s in %s/%s", kind, cloud, version)
	}
	found := make(map[string][]byte, len(entries))
	for _, entry := range entries {
		data, err := files.ReadFile(path.Join(dir, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("find configuration: %w", err)
		}
		found[entry.Name()] = data
	}
	return found, nil
}
