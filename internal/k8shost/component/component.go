// Package component runs the parts of a node. A part (etcd, the API server, the kubelet, a controller inside the
// launcher) has four verbs: Init, Start, Ready and Stop. A Manager starts parts stage by stage and stops them in
// reverse; a Process is a part that is a child process, restarted when it dies.
package component

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
)

// Component is one part of a node.
type Component interface {
	// Name is stable and unique on the node; logs and files carry it.
	Name() string
	// Init writes what the part needs. Nothing runs yet. It may be called again after a crash.
	Init(ctx context.Context) error
	// Start begins the work and returns. What was started lives until Stop, not until ctx ends.
	Start(ctx context.Context) error
	// Ready blocks until the part does its job, cannot ever do so (an error), or ctx ends.
	Ready(ctx context.Context) error
	// Stop ends the work and waits for it. Stopping what never started is no error.
	Stop(ctx context.Context) error
}

// Stage is a set of parts that need one another's company but not one another's readiness: they start at once.
type Stage []Component

// Manager starts stages in order and stops them in reverse.
type Manager struct {
	log     *slog.Logger
	stages  []Stage
	started int
}

// NewManager returns a manager of the given stages.
func NewManager(log *slog.Logger, stages ...Stage) *Manager {
	return &Manager{log: log, stages: stages}
}

// Add appends stages, which the next Start brings up.
func (m *Manager) Add(stages ...Stage) { m.stages = append(m.stages, stages...) }

// Start brings up every stage that was not started yet, each once the one before it is ready. On failure it returns what
// failed and why; the caller stops what runs with Stop.
func (m *Manager) Start(ctx context.Context) error {
	for m.started < len(m.stages) {
		stage := m.stages[m.started]
		m.started++
		group, groupCtx := errgroup.WithContext(ctx)
		for _, part := range stage {
			group.Go(func() error { return m.bringUp(groupCtx, part) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	return nil
}

func (m *Manager) bringUp(ctx context.Context, part Component) error {
	began := time.Now()
	if err := part.Init(ctx); err != nil {
		return fmt.Errorf("prepare %s: %w", part.Name(), err)
	}
	if err := part.Start(ctx); err != nil {
		return fmt.Errorf("start %s: %w", part.Name(), err)
	}
	done := make(chan error, 1)
	go func() { done <- part.Ready(ctx) }()
	reminder := time.NewTicker(10 * time.Second)
	defer reminder.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return fmt.Errorf("wait for %s: %w", part.Name(), err)
			}
			m.log.Info("component ready", "component", part.Name(), "after", time.Since(began).Round(time.Millisecond))
			return nil
		case <-reminder.C:
			m.log.Info("still waiting", "component", part.Name(), "after", time.Since(began).Round(time.Second))
		}
	}
}

// Stop ends what was started, last stage first. It goes on past errors and returns them all.
func (m *Manager) Stop(ctx context.Context) error {
	var problems []error
	for ; m.started > 0; m.started-- {
		stage := m.stages[m.started-1]
		results := make(chan error, len(stage))
		for _, part := range stage {
			go func() {
				if err := part.Stop(ctx); err != nil {
					results <- fmt.Errorf("stop %s: %w", part.Name(), err)
					return
				}
				results <- nil
			}()
		}
		for range stage {
			problems = append(problems, <-results)
		}
	}
	return errors.Join(problems...)
}
