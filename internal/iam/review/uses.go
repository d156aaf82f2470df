package review

import (
	"context"
	"log/slog"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"plasmacloud.io/plasmacloud/internal/iam/directory"
)

const (
	// precision is how exactly the last use of a token is known: each step is a write to the API.
	precision = time.Hour
	// waiting is how many uses may wait to be written; more are dropped, and noted at their next use.
	waiting      = 1000
	writeTimeout = 10 * time.Second
	// remembered is how many tokens are known to be noted; the directory is in no hurry to tell.
	remembered = 10_000
	// pace is the time between writes: there is no hurry, and the API server has better things to do.
	pace = 100 * time.Millisecond
)

// Recorder notes when access tokens were used last, without making their users wait.
type Recorder struct {
	write  func(ctx context.Context, token string, at time.Time) error
	clock  clock.Clock
	logger *slog.Logger
	queue  chan string
	noted  *lru.Cache // when tokens were last queued to be noted, by name
}

// NewRecorder returns a Recorder that writes by the function given, such as Writer.RecordUse of package store.
func NewRecorder(write func(ctx context.Context, token string, at time.Time) error, clk clock.Clock, logger *slog.Logger) *Recorder {
	return &Recorder{write: write, clock: clk, logger: logger, queue: make(chan string, waiting), noted: lru.New(remembered)}
}

// Used notes that the token was used now.
func (r *Recorder) Used(t *directory.Token) {
	now := r.clock.Now()
	if now.Sub(t.LastUsed) < precision {
		return
	}
	if at, ok := r.noted.Get(t.Name); ok && now.Sub(at.(time.Time)) < precision {
		return
	}
	select {
	case r.queue <- t.Name:
		r.noted.Add(t.Name, now.Truncate(precision))
	default:
	}
}

// Run writes until ctx ends.
func (r *Recorder) Run(ctx context.Context) {
	timer := r.clock.NewTimer(pace)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C():
		}
		select {
		case <-ctx.Done():
			return
		case name := <-r.queue:
			r.record(ctx, name)
		}
		timer.Reset(pace)
	}
}

func (r *Recorder) record(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := r.write(ctx, name, r.clock.Now().Truncate(precision)); err != nil {
		r.noted.Remove(name)
		r.logger.WarnContext(ctx, "note the use of an access token", "token", name, "error", err)
	}
}
