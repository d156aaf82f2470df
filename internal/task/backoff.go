package task

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Backoff is how long to wait between attempts: First after the first failure, twice as long after each further one,
// never more than Max; and up to half as much again, at random, so that what failed together is not tried together.
type Backoff struct {
	First, Max time.Duration
}

// DefaultBackoff is quick to try again what failed by chance, and does not press what is down.
var DefaultBackoff = Backoff{First: time.Second, Max: 2 * time.Minute}

// jitter is the part of a delay that may be added to it.
const jitter = 0.5

// Delay is how long to wait after so many failures in a row.
func (b Backoff) Delay(failures int) time.Duration {
	delay := b.First
	for range failures - 1 {
		if delay >= b.Max/2 {
			delay = b.Max
			break
		}
		delay *= 2
	}
	return wait.Jitter(min(delay, b.Max), jitter)
}
