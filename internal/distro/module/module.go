// Package module knows the small Go modules under distro/: which Kubernetes minors are there, which versions of
// upstream programs they pin, and how to write a new one. It is the only place that runs the go command's module
// verbs; every download it asks for is verified against the checksum database, and nothing here switches that off.
package module

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/semver"
)

// Kubernetes is the module path of upstream Kubernetes.
const Kubernetes = "k8s.io/kubernetes"

// Minor is one Kubernetes minor that the distribution builds: a folder distro/v1.NN.
type Minor struct {
	Name    string `json:"minor"`   // v1.36
	Version string `json:"version"` // v1.36.3, from the folder's go.mod
	Dir     string `json:"dir"`     // absolute path of the folder
}

// Scan finds the Kubernetes minors under distroDir, newest first. What is there is what the distribution builds: no
// other list of versions exists.
func Scan(distroDir string) ([]Minor, error) {
	distroDir, err := filepath.Abs(distroDir)
	if err != nil {
		return nil, fmt.Errorf("list Kubernetes minors: %w", err)
	}
	files, err := filepath.Glob(filepath.Join(distroDir, "v1.*", "go.mod"))
	if err != nil {
		return nil, fmt.Errorf("list Kubernetes minors in %s: %w", distroDir, err)
	}
	var minors []Minor
	for _, file := range files {
		name := filepath.Base(filepath.Dir(file))
		if semver.MajorMinor(name) != name {
			continue
		}
		version, err := Required(file, Kubernetes)
		if err != nil {
			return nil, err
		}
		if semver.MajorMinor(version) != name {
			return nil, fmt.Errorf("read %s: it requires %s %s, which is not of minor %s", file, Kubernetes, version, name)
		}
		minors = append(minors, Minor{Name: name, Version: version, Dir: filepath.Dir(file)})
	}
	if len(minors) == 0 {
		return nil, fmt.Errorf("no Kubernetes minor (v1.*/go.mod) in %s", distroDir)
	}
	sort.Slice(minors, func(i, j int) bool { return semver.Compare(minors[i].Version, minors[j].Version) > 0 })
	return minors, nil
}

// Required tells the version of a module that the go.mod file asks for.
func Required(goMod, path string) (string, error) {
	parsed, err := parse(goMod)
	if err != nil {
		return "", err
	}
	for _, require := range parsed.Require {
		if require.Mod.Path == path {
			return require.Mod.Version, nil
		}
	}
	return "", fmt.Errorf("read %s: it does not require %s", goMod, path)
}

// Download is what the module proxy holds of one module version, unpacked in the module cache.
type Download struct {
	Version string
	Dir     string // source tree, read-only
	GoMod   string // its go.mod
	Info    string // its .info file
	Error   string
}

// Fetch downloads path@version into the module cache, verified by the checksum database.
func Fetch(ctx context.Context, path, version string) (Download, error) {
	return fetch(ctx, os.TempDir(), path, version) // outside of any module, so that no replace directive has a say
}

// FetchPinned downloads the version of path that the module in dir requires, verified by that module's go.sum too.
func FetchPinned(ctx context.Context, dir, path string) (Download, error) {
	version, err := Required(filepath.Join(dir, "go.mod"), path)
	if err != nil {
		return Download{}, err
	}
	return fetch(ctx, dir, path, version)
}

func fetch(ctx context.Context, dir, path, version string) (Download, error) {
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", path+"@"+version)
	command.Dir = dir
	command.Env = append(os.Environ(), "GOWORK=off")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	out, runErr := command.Output()
	var download Download
	if err := json.Unmarshal(out, &download); err != nil {
		return Download{}, fmt.Errorf("download %s@%s: %w: %s", path, version, errors.Join(runErr, err), strings.TrimSpace(stderr.String()))
	}
	if download.Error != "" {
		return Download{}, fetchError(path, version, download.Error)
	}
	if runErr != nil {
		return Download{}, fmt.Errorf("download %s@%s: %w: %s", path, version, runErr, strings.TrimSpace(stderr.String()))
	}
	return download, nil
}

// fetchError says in plain words which of the two usual reasons made a download fail.
func fetchError(path, version, message string) error {
	switch {
	case strings.Contains(message, "SECURITY ERROR"), strings.Contains(message, "verifying"), strings.Contains(message, "checksum"):
		return fmt.Errorf("verify %s@%s: the checksum database does not vouch for it, choose another version: %s", path, version, message)
	case strings.Contains(message, "unknown revision"), strings.Contains(message, "invalid version"),
		strings.Contains(message, "not found"), strings.Contains(message, "not available"), strings.Contains(message, "no matching versions"):
		return fmt.Errorf("find %s@%s: no such version, or the module proxy does not hold it: %s", path, version, message)
	default:
		return fmt.Errorf("download %s@%s: %s", path, version, message)
	}
}

// Time tells when the version was published: a build date that is the same in every build of it.
func (d Download) Time() (time.Time, error) {
	data, err := os.ReadFile(d.Info)
	if err != nil {
		return time.Time{}, fmt.Errorf("read publication time: %w", err)
	}
	var info struct{ Time time.Time }
	if err := json.Unmarshal(data, &info); err != nil {
		return time.Time{}, fmt.Errorf("read publication time in %s: %w", d.Info, err)
	}
	return info.Time.UTC(), nil
}

func parse(goMod string) (*modfile.File, error) {
	data, err := os.ReadFile(goMod)
	if err != nil {
		return nil, fmt.Errorf("read module: %w", err)
	}
	parsed, err := modfile.Parse(goMod, data, nil)
	if err != nil {
		return nil, fmt.Errorf("read module: %w", err)
	}
	return parsed, nil
}
