package component

import "time"

const (
	firstDelay = 500 * time.Millisecond
	lastDelay  = 30 * time.Second
	// steadyAfter is how long a part must have run for its next failure to count as a first one.
	steadyAfter = time.Minute
)

type backoff struct{ delay time.Duration }

func newBackoff() *backoff { return &backoff{delay: firstDelay} }

// next returns how long to wait after a run that lasted for ran.
func (b *backoff) next(ran time.Duration) time.Duration {
	if ran >= steadyAfter {
		b.delay = firstDelay
	}
	delay := b.delay
	b.delay = min(2*b.delay, lastDelay)
	return delay
}
