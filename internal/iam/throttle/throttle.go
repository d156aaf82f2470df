// Package throttle slows down whoever guesses: it counts attempts by key (an account, an address) and makes the next one
// wait longer the more have failed. It holds no more than a fixed number of keys, and nothing outlives the process:
// several replicas each allow their own share.
package throttle

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

// Policy is how many attempts are free, and what the others cost.
type Policy struct {
	// Free attempts are made without waiting.
	Free int
	// First is the wait after the last free attempt; it doubles with each one that follows, up to Longest.
	First, Longest time.Duration
	// Forget is how long after its last attempt a key begins anew.
	Forget time.Duration
	// Keys is how many keys are remembered; those not seen for longest are forgotten first.
	Keys int
}

// Throttle counts attempts. Its methods may be called concurrently.
type Throttle struct {
	policy Policy
	clock  clock.PassiveClock

	mu   sync.Mutex // an attempt is looked up, judged and counted in one go
	keys *lru.Cache
}

// attempts are those of one key.
type attempts struct {
	count int
	last  time.Time
	until time.Time // no attempt before
}

// New returns a Throttle that has seen nobody yet.
func New(policy Policy, clk clock.PassiveClock) *Throttle {
	return &Throttle{policy: policy, clock: clk, keys: lru.New(policy.Keys)}
}

// Try counts an attempt and returns 0, or returns how long to wait before the next one. It counts before the outcome is
// known: many attempts made at once are not all free.
func (t *Throttle) Try(key string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	a := t.get(key)
	if wait := a.until.Sub(now); wait > 0 {
		return wait
	}
	if now.Sub(a.last) > t.policy.Forget {
		*a = attempts{}
	}
	a.count++
	a.last = now
	a.until = now.Add(t.policy.wait(a.count))
	return 0
}

// Wait is how long to wait before the next attempt. It counts nothing.
func (t *Throttle) Wait(key string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return max(0, t.get(key).until.Sub(t.clock.Now()))
}

// Forgive takes back one attempt: it was not a guess.
func (t *Throttle) Forgive(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if a := t.get(key); a.count > 0 {
		a.count--
		a.until = a.last.Add(t.policy.wait(a.count))
	}
}

// Forget takes back all attempts of the key.
func (t *Throttle) Forget(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.keys.Remove(key)
}

func (t *Throttle) get(key string) *attempts {
	if found, ok := t.keys.Get(key); ok {
		return found.(*attempts)
	}
	a := &attempts{}
	t.keys.Add(key, a)
	return a
}

// wait is what the attempt of this number costs the next one.
func (p Policy) wait(count int) time.Duration {
	if count < p.Free {
		return 0
	}
	wait := p.First
	for range count - p.Free {
		if wait *= 2; wait >= p.Longest {
			return p.Longest
		}
	}
	return min(wait, p.Longest)
}
