package release

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// EnvDir is the environment variable that names the release directory.
const EnvDir = "PLASMACLOUD_RELEASE"

// systemDir is where an installed release lies.
const systemDir = "/usr/local/lib/plasmacloud/release"

// Locate finds the release directory: the one given explicitly, the one the environment names, the one the running
// program is part of, or the installed one. A directory that was named but holds no release is an error, never a
// reason to take another.
func Locate(explicit string) (string, error) {
	executable, err := os.Executable()
	if err == nil {
		executable, err = filepath.EvalSymlinks(executable)
	}
	if err != nil {
		executable = "" // looking elsewhere is still worth it
	}
	return locate(explicit, os.Getenv(EnvDir), executable, systemDir)
}

func locate(explicit, fromEnv, executable, system string) (string, error) {
	for _, named := range []string{explicit, fromEnv} {
		if named == "" {
			continue
		}
		if !holdsManifest(named) {
			return "", fmt.Errorf("no release in %s: it has no %s (build one with `make distro`)", named, ManifestName)
		}
		return filepath.Abs(named)
	}
	var looked []string
	if executable != "" {
		looked = append(looked, filepath.Dir(filepath.Dir(executable)))
	}
	looked = append(looked, system)
	for _, dir := range looked {
		if holdsManifest(dir) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no release found in %s: name one with --release-dir or %s, or build one with `make distro`",
		strings.Join(looked, " or "), EnvDir)
}

func holdsManifest(dir string) bool {
	info, err := os.Stat(filepath.Join(dir, ManifestName))
	return err == nil && info.Mode().IsRegular()
}
