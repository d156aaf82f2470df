// Package teardown ends a node wholly: the launcher, its components, every pod, and what they left in the kernel and
// on disk. It relies on nothing that might be dead already and works from what it finds, so that it can follow a
// clean stop, a kill -9 or an earlier teardown alike.
package teardown

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"

	"plasmacloud.io/plasmacloud/internal/k8shost/component"
	"plasmacloud.io/plasmacloud/internal/k8shost/datadir"
)

// Options say what to take down.
type Options struct {
	Dir datadir.Dir
	Log *slog.Logger
	// Network removes the pod network's interfaces, routes and rules.
	Network func() error
	// Purge removes the data directory too, and with it the cluster's data.
	Purge bool
}

// Run takes the node down. It goes on past problems and returns them all.
func Run(ctx context.Context, o Options) error {
	if err := stopLauncher(ctx, o); err != nil {
		return err // while it runs it would undo the rest
	}
	steps := []struct {
		name string
		do   func(context.Context, Options) error
	}{
		{"end components", endComponents},
		{"end pods", endPods},
		{"unmount", unmountAll},
		{"remove the pod network", func(context.Context, Options) error { return o.Network() }},
		{"remove services' rules", removeServiceRules},
		{"remove cgroups", removeCgroups},
		{"remove links to logs", removeLogLinks},
		{"remove runtime files", func(context.Context, Options) error { return removeRuntimeFiles(o.Dir) }},
	}
	var problems []error
	for _, step := range steps {
		if err := step.do(ctx, o); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", step.name, err))
		}
	}
	if o.Purge && len(problems) == 0 {
		if err := removeData(o.Dir.Path()); err != nil {
			problems = append(problems, fmt.Errorf("remove data directory: %w", err))
		}
	}
	return errors.Join(problems...)
}

// stopLauncher asks the launcher to end, and makes it after a minute.
func stopLauncher(ctx context.Context, o Options) error {
	pid, running := o.Dir.Launcher()
	if !running {
		return nil
	}
	o.Log.Info("stopping", "process", pid)
	ended := func(context.Context) error {
		if _, running := o.Dir.Launcher(); running {
			return fmt.Errorf("process %d has not ended", pid)
		}
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop launcher: %w", err)
	}
	patience, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if component.Poll(patience, ended) == nil {
		return nil
	}
	o.Log.Warn("the launcher did not end in time; killing it", "process", pid)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill launcher: %w", err)
	}
	return component.Poll(ctx, ended)
}

func endComponents(ctx context.Context, o Options) error {
	leftovers, err := component.Leftovers(o.Dir.Run())
	if err != nil {
		return err
	}
	for _, leftover := range leftovers {
		if err := leftover.End(ctx); err != nil {
			return err
		}
	}
	return nil
}

// removeData removes the data directory; where it is the mount point of a disk of its own it stays, empty.
func removeData(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, syscall.EBUSY) {
		return err
	}
	if left, readErr := os.ReadDir(dir); readErr != nil || len(left) > 0 {
		return err
	}
	return nil
}

func removeRuntimeFiles(dir datadir.Dir) error { return os.RemoveAll(dir.Runtime()) }
