package cache

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lockPoll is how often a taken lock is tried again. flock has no way to wait that a context could end.
const lockPoll = 100 * time.Millisecond

// Lock is a lock on a file that the kernel releases when its holder dies.
type Lock struct{ file *os.File }

// Acquire waits until this process holds the lock on path.
func Acquire(ctx context.Context, path string) (*Lock, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644) //nolint:gosec // nothing is in it
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	ticker := time.NewTicker(lockPoll)
	defer ticker.Stop()
	for {
		err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return &Lock{file: file}, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), file.Close())
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for another builder: %w", ctx.Err()), file.Close())
		case <-ticker.C:
		}
	}
}

// Release lets the next holder in.
func (l *Lock) Release() { l.file.Close() } //nolint:errcheck // closing is what releases it, and it cannot fail usefully
