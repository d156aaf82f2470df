// Package distro builds a release of the distribution from source: the Kubernetes binaries of every minor under
// distro/, the programs they all share, container images, a manifest and a bill of materials. What to build is a list
// of steps (plan.go and the files it names); how, with caching, progress and order, is in run.go; what ends up in the
// release directory is in assemble.go. Reading a finished release is not done here but in internal/release.
package distro

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"plasmacloud.io/plasmacloud/internal/distro/cache"
	"plasmacloud.io/plasmacloud/internal/distro/compile"
	"plasmacloud.io/plasmacloud/internal/distro/debian"
	"plasmacloud.io/plasmacloud/internal/distro/module"
	"plasmacloud.io/plasmacloud/internal/distro/progress"
)

// Config says what to build, from where, to where.
type Config struct {
	DistroDir string   // the tree's distro folder
	Output    string   // release directory
	CacheRoot string   // build cache
	Cloud     bool     // build what clusters in clouds need, and nothing else
	Only      []string // steps to build, with what they need; all if empty
	Rebuild   []string // steps to build although they are cached
	Progress  io.Writer
}

// Validate reports what is missing.
func (c Config) Validate() error {
	for name, value := range map[string]string{"distro folder": c.DistroDir, "release directory": c.Output, "build cache": c.CacheRoot} {
		if value == "" {
			return fmt.Errorf("configure build: no %s given", name)
		}
	}
	return nil
}

// Build brings the release directory up to date.
func Build(ctx context.Context, config Config) error {
	started := time.Now()
	if err := config.Validate(); err != nil {
		return err
	}
	steps, err := plan(ctx, config)
	if err != nil {
		return err
	}
	store, err := cache.Open(filepath.Join(config.CacheRoot, "distro"))
	if err != nil {
		return err
	}
	chosen, err := choose(steps, config.Only)
	if err != nil {
		return err
	}
	rebuild, err := match(steps, config.Rebuild)
	if err != nil {
		return err
	}
	reporter := progress.New(config.Progress, len(chosen))
	runner := &runner{store: store, reporter: reporter, rebuild: rebuild}
	built, err := runner.run(ctx, chosen)
	if ctx.Err() != nil {
		return errors.New("interrupted: what was finished stays in the cache")
	}
	if err != nil {
		return err
	}
	changed, err := assemble(ctx, config.Output, steps, runner)
	if err != nil {
		return err
	}
	if built == 0 && !changed {
		reporter.Say("distro: nothing to do: %d steps and %s are up to date (%.1f s)", len(chosen), config.Output, time.Since(started).Seconds())
		return nil
	}
	reporter.Say("distro: %s is ready: %d steps built, %d up to date (%.0f s)", config.Output, built, len(chosen)-built, time.Since(started).Seconds())
	return nil
}

// Steps lists the names that Config.Only and Config.Rebuild take, in building order.
func Steps(ctx context.Context, config Config) ([]string, error) {
	steps, err := plan(ctx, config)
	if err != nil {
		return nil, err
	}
	names := make([]string, 0, len(steps))
	for _, s := range steps {
		names = append(names, s.name)
	}
	return names, nil
}

// plan lists all steps, each after those it needs.
func plan(ctx context.Context, config Config) ([]*step, error) {
	toolchain, err := compile.Detect(ctx)
	if err != nil {
		return nil, err
	}
	if config.Cloud {
		p := &planner{runtimeDir: filepath.Join(config.DistroDir, "byoc"), toolchain: toolchain, versions: make(map[string]string)}
		err := p.byoc(ctx)
		return p.steps, err
	}
	minors, err := module.Scan(config.DistroDir)
	if err != nil {
		return nil, err
	}
	host, err := debian.Detect(ctx)
	if err != nil {
		return nil, err
	}
	p := &planner{
		runtimeDir: filepath.Join(config.DistroDir, "runtime"), minors: minors, toolchain: toolchain, host: host,
		versions: make(map[string]string),
	}
	if err := p.binaries(ctx); err != nil {
		return nil, err
	}
	p.images()
	return p.steps, nil
}

// planner collects the steps.
type planner struct {
	runtimeDir string
	minors     []module.Minor
	toolchain  compile.Toolchain
	host       debian.Host
	versions   map[string]string // of the shared programs
	steps      []*step
}

func (p *planner) add(s *step) { p.steps = append(p.steps, s) }

// match finds the steps that have one of the names, or begin with it as in "kube" for "kube-v1.36.3".
func match(steps []*step, names []string) (map[string]bool, error) {
	matched := make(map[string]bool)
	for _, name := range names {
		found := false
		for _, s := range steps {
			if s.name == name || strings.HasPrefix(s.name, name+"-") {
				matched[s.name], found = true, true
			}
		}
		if !found {
			return nil, fmt.Errorf("no step %q in this build (`distro steps` lists them)", name)
		}
	}
	return matched, nil
}

// choose picks the steps that match the names, and all that they need; every step if there are no names.
func choose(steps []*step, names []string) ([]*step, error) {
	if len(names) == 0 {
		return steps, nil
	}
	wanted, err := match(steps, names)
	if err != nil {
		return nil, err
	}
	for i := len(steps) - 1; i >= 0; i-- { // needs come before those who need them
		if wanted[steps[i].name] {
			for _, need := range steps[i].needs {
				wanted[need] = true
			}
		}
	}
	var chosen []*step
	for _, s := range steps {
		if wanted[s.name] {
			chosen = append(chosen, s)
		}
	}
	return chosen, nil
}
