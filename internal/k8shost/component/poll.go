package component

import (
	"context"
	"fmt"
	"time"
)

// Poll calls probe until it succeeds. When ctx ends first, the error carries what the probe said last. It is for
// child processes' health endpoints, which cannot be watched.
func Poll(ctx context.Context, probe func(context.Context) error) error {
	const interval = 50 * time.Millisecond
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	var last error
	for {
		probeCtx, cancel := context.WithTimeout(ctx, 5*time.Second)
		err := probe(probeCtx)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			if last == nil {
				return ctx.Err()
			}
			return fmt.Errorf("%w: %w", ctx.Err(), last)
		case <-ticker.C:
		}
	}
}
