package module

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
	xmodule "golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

// importPrefix is how the minors' modules are named; the name only shows up in build information.
const importPrefix = "plasmacloud.io/plasmacloud/distro/"

// direct are the modules that a minor's main.go imports besides Kubernetes itself and its staging modules.
var direct = []string{"github.com/spf13/cobra"}

// stagingDirect are the staging modules that main.go imports.
var stagingDirect = []string{"k8s.io/client-go", "k8s.io/component-base", "k8s.io/kubectl"}

// Generate writes the go.mod of a minor: upstream's own replace block, with each staging folder replaced by the
// module that is published from it. A replace block does not apply to those who require a module, so it has to be
// repeated here, and in upstream's source tree it names folders that the published module does not hold.
func Generate(upstream *modfile.File, version string) ([]byte, error) {
	staging, err := stagingVersion(version)
	if err != nil {
		return nil, err
	}
	if upstream.Go == nil || len(upstream.Replace) == 0 {
		return nil, errors.New("write go.mod: upstream's go.mod lacks a go line or a replace block")
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "module %s%s\n\ngo %s\n\n", importPrefix, semver.MajorMinor(version), upstream.Go.Version)
	for _, setting := range upstream.Godebug { // run-time defaults are the main module's to set, and that is us
		fmt.Fprintf(&out, "godebug %s=%s\n", setting.Key, setting.Value)
	}
	fmt.Fprintf(&out, "\nrequire (\n\t%s %s\n", Kubernetes, version)
	for _, path := range stagingDirect {
		fmt.Fprintf(&out, "\t%s %s\n", path, staging)
	}
	for _, path := range direct {
		at := slices.IndexFunc(upstream.Require, func(r *modfile.Require) bool { return r.Mod.Path == path })
		if at < 0 {
			return nil, fmt.Errorf("write go.mod: upstream's go.mod does not require %s", path)
		}
		fmt.Fprintf(&out, "\t%s %s\n", path, upstream.Require[at].Mod.Version)
	}
	out.WriteString(")\n\nreplace (\n")
	for _, replace := range upstream.Replace {
		target := replace.New
		if strings.HasPrefix(target.Path, "./staging/") {
			target = xmodule.Version{Path: replace.Old.Path, Version: staging}
		}
		if target.Version == "" {
			return nil, fmt.Errorf("write go.mod: upstream replaces %s by the folder %s, which is no staging folder", replace.Old.Path, target.Path)
		}
		fmt.Fprintf(&out, "\t%s => %s %s\n", strings.TrimSpace(replace.Old.Path+" "+replace.Old.Version), target.Path, target.Version)
	}
	out.WriteString(")\n")
	parsed, err := modfile.Parse("go.mod", out.Bytes(), nil)
	if err != nil {
		return nil, fmt.Errorf("write go.mod: %w", err)
	}
	parsed.SortBlocks()
	return parsed.Format()
}

// stagingVersion is the version under which the staging modules of a Kubernetes version are published.
func stagingVersion(version string) (string, error) {
	if semver.Canonical(version) != version || semver.Major(version) != "v1" || semver.Build(version) != "" {
		return "", fmt.Errorf("%q is not a Kubernetes version: write it in full, as in v1.36.3", version)
	}
	return "v0." + strings.TrimPrefix(version, "v1."), nil
}

// Add makes distroDir hold the given Kubernetes version: a new folder v1.NN, or another patch version of the one that
// is there. Either all of it succeeds or the folder is as it was before. Progress of the go command goes to log.
func Add(ctx context.Context, distroDir, version string, log io.Writer) (Minor, error) {
	if _, err := stagingVersion(version); err != nil {
		return Minor{}, err
	}
	minors, err := Scan(distroDir)
	if err != nil {
		return Minor{}, err
	}
	download, err := Fetch(ctx, Kubernetes, version)
	if err != nil {
		return Minor{}, err
	}
	upstream, err := parse(download.GoMod)
	if err != nil {
		return Minor{}, err
	}
	goMod, err := Generate(upstream, version)
	if err != nil {
		return Minor{}, err
	}
	minor := Minor{Name: semver.MajorMinor(version), Version: version}
	minor.Dir = filepath.Join(distroDir, minor.Name)
	source := minors[0].Dir
	if _, err := os.Stat(filepath.Join(minor.Dir, "main.go")); err == nil {
		source = minor.Dir
	}
	return minor, write(ctx, minor, source, goMod, log)
}

// write prepares the module in a folder beside its final place, where a failure harms nothing, and moves it there.
func write(ctx context.Context, minor Minor, source string, goMod []byte, log io.Writer) error {
	work, err := os.MkdirTemp(filepath.Dir(minor.Dir), ".add-")
	if err != nil {
		return fmt.Errorf("add %s: %w", minor.Name, err)
	}
	defer os.RemoveAll(work) //nolint:errcheck // a left-over folder is named as such and is in nobody's way
	main, err := os.ReadFile(filepath.Join(source, "main.go"))
	if err != nil {
		return fmt.Errorf("add %s: %w", minor.Name, err)
	}
	if err := errors.Join(
		os.WriteFile(filepath.Join(work, "main.go"), main, 0o644), //nolint:gosec // source code
		os.WriteFile(filepath.Join(work, "go.mod"), goMod, 0o644), //nolint:gosec // source code
	); err != nil {
		return fmt.Errorf("add %s: %w", minor.Name, err)
	}
	tidy := exec.CommandContext(ctx, "go", "mod", "tidy")
	tidy.Dir, tidy.Stdout, tidy.Stderr = work, log, log
	tidy.Env = append(os.Environ(), "GOWORK=off")
	if err := tidy.Run(); err != nil {
		return fmt.Errorf("add %s: go mod tidy: %w (its output names the module that could not be had or verified)", minor.Name, err)
	}
	if err := os.MkdirAll(minor.Dir, 0o755); err != nil { //nolint:gosec // source code
		return fmt.Errorf("add %s: %w", minor.Name, err)
	}
	for _, name := range []string{"main.go", "go.sum", "go.mod"} { // go.mod last: Scan sees the minor once all is there
		if err := os.Rename(filepath.Join(work, name), filepath.Join(minor.Dir, name)); err != nil {
			return fmt.Errorf("add %s: %w", minor.Name, err)
		}
	}
	return nil
}
