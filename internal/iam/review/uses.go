package review

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/iam/directory"
)

const (
	// precision is how exactly the last use of a token is known: each step is a write to the API.
	precision = time.Hour
	// waiting is how many uses may wait to be written; more are dropped, and noted at their next use.
	waiting      = 1000
	writeTimeout = 10 * time.Second
)

// Recorder notes when access tokens were used last, without making their users wait.
type Recorder struct {
	write  func(ctx context.Context, token string, at time.Time) error
	clock  clock.PassiveClock
	logger *slog.Logger
	queue  chan string
	queued sync.Map // names of tokens that wait
}

// NewRecorder returns a Recorder that writes by the function given, such as Writer.RecordUse of package store.
func NewRecorder(write func(ctx context.Context, token string, at time.Time) error, clk clock.PassiveClock, logger *slog.Logger) *Recorder {
	return &Recorder{write: write, clock: clk, logger: logger, queue: make(chan string, waiting)}
}

// Used notes that the token was used now.
func (r *Recorder) Used(t *directory.Token) {
	if r.clock.Since(t.LastUsed) < precision {
		return
	}
	if _, already := r.queued.LoadOrStore(t.Name, nil); already {
		return
	}
	select {
	case r.queue <- t.Name:
	default:
		r.queued.Delete(t.Name)
	}
}

// Run writes until ctx ends.
func (r *Recorder) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case name := <-r.queue:
			r.record(ctx, name)
		}
	}
}

func (r *Recorder) record(ctx context.Context, name string) {
	defer r.queued.Delete(name)
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := r.write(ctx, name, r.clock.Now().Truncate(precision)); err != nil {
		r.logger.WarnContext(ctx, "note the use of an access token", "token", name, "error", err)
	}
}
