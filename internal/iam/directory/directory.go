// Package directory knows all users, access tokens, organizations and projects by heart: a view in memory that follows
// the API by watches. Looking somebody up takes no lock and asks nobody, so it is fast, and goes on while the API server
// is away. What is revoked in the API is refused here as soon as the watch tells of it, within a fraction of a second.
//
// What belongs here: which users there are and what is true of them. What follows from that for a token is decided in
// package review.
package directory

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
)

const (
	// settle is how long changes are gathered before the view is made anew.
	settle = 20 * time.Millisecond
	// pause is how much longer than its making takes the view then stays as it is: with very many objects that change
	// all the time, a tenth of a CPU goes into it.
	pause = 10
)

// Source holds the objects and tells of their changes, as Feed does.
type Source interface {
	// Run follows the API until ctx ends.
	Run(ctx context.Context) error
	// Objects are all objects as they are now, and whether they are complete: before the first listing they are not.
	Objects() (Objects, bool)
	// Changed receives after objects have changed; several changes may be one.
	Changed() <-chan struct{}
}

// Directory follows a Source.
type Directory struct {
	source  Source
	clock   clock.Clock
	current atomic.Pointer[published]
}

// published is a view, and the news of its successor.
type published struct {
	view     *View
	complete bool
	replaced chan struct{}
}

// New returns a Directory that knows nobody until Run has heard of them.
func New(source Source, clk clock.Clock) *Directory {
	d := &Directory{source: source, clock: clk}
	d.current.Store(&published{view: NewView(Objects{}), replaced: make(chan struct{})})
	return d
}

// Run follows the source until ctx ends.
func (d *Directory) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- d.source.Run(ctx) }()
	timer := d.clock.NewTimer(0)
	timer.Stop()
	defer timer.Stop()
	for {
		select {
		case err := <-ended:
			return err
		case <-d.source.Changed():
		}
		timer.Reset(settle)
		select {
		case err := <-ended:
			return err
		case <-timer.C():
		}
		took := d.publish()
		timer.Reset(pause * took)
		select {
		case err := <-ended:
			return err
		case <-timer.C():
		}
	}
}

// publish makes the view anew, and returns how long that took.
func (d *Directory) publish() time.Duration {
	start := d.clock.Now()
	objects, complete := d.source.Objects()
	if !complete {
		return 0
	}
	next := &published{view: NewView(objects), complete: true, replaced: make(chan struct{})}
	close(d.current.Swap(next).replaced)
	return d.clock.Since(start)
}

// View is everybody as of now.
func (d *Directory) View() *View { return d.current.Load().view }

// Ready says whether everybody is known.
func (d *Directory) Ready() bool { return d.current.Load().complete }

// Await returns when the view satisfies the condition: for callers who have changed something, and whose next request
// relies on it.
func (d *Directory) Await(ctx context.Context, condition func(*View) bool) error {
	for {
		current := d.current.Load()
		if condition(current.view) {
			return nil
		}
		select {
		case <-current.replaced:
		case <-ctx.Done():
			return fmt.Errorf("wait for the directory: %w", context.Cause(ctx))
		}
	}
}
