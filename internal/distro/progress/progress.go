// Package progress tells a person what the builder is doing: which step of how many, for how long, and, when a step
// takes long, that it is still alive.
package progress

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// heartbeat is how often a running step says so.
const heartbeat = 15 * time.Second

// Reporter writes progress as plain lines, fit for a terminal and for a log.
type Reporter struct {
	mu    sync.Mutex
	out   io.Writer
	total int
	beat  time.Duration
}

// New returns a reporter of a build that has so many steps.
func New(out io.Writer, total int) *Reporter {
	return &Reporter{out: out, total: total, beat: heartbeat}
}

// Start says that a step begins, and goes on saying that it runs until the returned function is called with what
// became of it.
func (r *Reporter) Start(number int, title string) (finish func(outcome string)) {
	started := time.Now()
	r.line(number, title, "building")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		ticker := time.NewTicker(r.beat)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				r.line(number, title, fmt.Sprintf("still building, %s", seconds(started)))
			}
		}
	}()
	return func(outcome string) {
		close(stop)
		<-stopped
		r.line(number, title, fmt.Sprintf("%s in %s", outcome, seconds(started)))
	}
}

// Say writes a line that belongs to no step.
func (r *Reporter) Say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, format+"\n", args...)
}

func (r *Reporter) line(number int, title, state string) {
	r.Say("[%2d/%d] %s: %s", number, r.total, title, state)
}

func seconds(since time.Time) string {
	return fmt.Sprintf("%.0f s", time.Since(since).Seconds())
}

// Size writes a number of bytes as people read it.
func Size(bytes int64) string {
	switch {
	case bytes >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
	case bytes >= 1<<20:
		return fmt.Sprintf("%.0f MiB", float64(bytes)/(1<<20))
	default:
		return fmt.Sprintf("%.0f KiB", float64(bytes)/(1<<10))
	}
}
