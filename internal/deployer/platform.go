package deployer

import (
	"context"
	"errors"
	"time"
)

// Platform is whom a deployer works for. ErrReplaced: another one does the work, or nobody wants it any more.
type Platform interface {
	// Order fetches what is to be done. It tries until there is an answer, or ctx ends.
	Order(ctx context.Context) (*Order, error)
	// Report tells how far it is. It tries until that was heard, or ctx ends.
	Report(ctx context.Context, report Report) error
	// Progress is Report that tries once.
	Progress(ctx context.Context, report Report) error
}

// The pauses between two tries: the platform may be restarting.
const firstPause, longestPause = 200 * time.Millisecond, 10 * time.Second

// Persist tries until there is an answer that means something, or ctx ends.
func Persist(ctx context.Context, try func() (again bool, err error)) error {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		again, err := try()
		if !again {
			return err
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return errors.Join(ctx.Err(), err)
		case <-timer.C:
		}
	}
}
