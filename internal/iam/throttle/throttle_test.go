package throttle

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

func policy() Policy {
	return Policy{Free: 3, First: time.Second, Longest: 10 * time.Second, Forget: time.Minute, Keys: 100}
}

func newThrottle() (*Throttle, *clocktesting.FakePassiveClock) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1_700_000_000, 0))
	return New(policy(), clk), clk
}

func TestWaitsGrowWithFailures(t *testing.T) {
	throttle, clk := newThrottle()
	for i, want := range []time.Duration{0, 0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second, 10 * time.Second} {
		if wait := throttle.Try("a"); wait != 0 {
			t.Fatalf("attempt %d has to wait %s", i, wait)
		}
		if want == 0 {
			continue
		}
		if peek, wait := throttle.Wait("a"), throttle.Try("a"); wait != want || peek != want {
			t.Errorf("after attempt %d the wait is %s, want %s", i, wait, want)
		}
		clk.SetTime(clk.Now().Add(want))
	}
	if throttle.Wait("b") != 0 || throttle.Try("b") != 0 {
		t.Error("another key waits too")
	}
}

func TestAKeyBeginsAnew(t *testing.T) {
	throttle, clk := newThrottle()
	exhaust := func() {
		for throttle.Try("a") == 0 {
		}
	}
	exhaust()
	throttle.Forget("a")
	if throttle.Try("a") != 0 {
		t.Error("a forgotten key waits")
	}
	exhaust()
	clk.SetTime(clk.Now().Add(2 * time.Minute))
	for i := range 3 {
		if throttle.Try("a") != 0 {
			t.Errorf("attempt %d after a long time waits", i)
		}
	}
}

func TestForgivenAttemptsDoNotCount(t *testing.T) {
	throttle, _ := newThrottle()
	for range 20 {
		if wait := throttle.Try("a"); wait != 0 {
			t.Fatalf("waits %s", wait)
		}
		throttle.Forgive("a")
	}
	throttle.Forgive("never seen")
}

func TestAttemptsMadeAtOnceAreCounted(t *testing.T) {
	throttle, _ := newThrottle()
	var allowed atomic.Int32
	var group sync.WaitGroup
	for range 100 {
		group.Go(func() {
			if throttle.Try("a") == 0 {
				allowed.Add(1)
			}
		})
	}
	group.Wait()
	if allowed.Load() != 3 {
		t.Errorf("%d attempts were free", allowed.Load())
	}
}

func TestKeysAreBounded(t *testing.T) {
	throttle, _ := newThrottle()
	for i := range 1000 {
		throttle.Try(fmt.Sprint(i))
	}
	if n := throttle.keys.Len(); n != 100 {
		t.Errorf("%d keys are kept", n)
	}
}
