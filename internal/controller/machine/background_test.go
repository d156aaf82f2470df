package machine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// joins is a Joiner that does what the test says, and remembers what it was asked.
type joins struct {
	do func(ctx context.Context, job Job, progress func(string)) error

	mu   sync.Mutex
	jobs []Job
}

func (j *joins) Join(ctx context.Context, job Job, progress func(string)) error {
	j.mu.Lock()
	j.jobs = append(j.jobs, job)
	j.mu.Unlock()
	return j.do(ctx, job, progress)
}

func (j *joins) count() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.jobs)
}

// background is a Setup, and a channel that tells whom it has told of.
func background(t *testing.T, do func(ctx context.Context, job Job, progress func(string)) error, config BackgroundConfig) (*Background, *joins, *clocktesting.FakeClock, chan string) {
	t.Helper()
	joiner, clk, told := &joins{do: do}, clocktesting.NewFakeClock(time.Now()), make(chan string, 100)
	b := NewBackground(joiner, clk, config)
	b.Notify(func(name types.NamespacedName) { told <- name.Name })
	t.Cleanup(b.Close)
	return b, joiner, clk, told
}

func jobOf(name, token string) Job {
	return Job{
		Cluster: &v1alpha1.Cluster{}, Machine: &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}, Token: token,
	}
}

func hear(t *testing.T, told chan string) string {
	t.Helper()
	select {
	case name := <-told:
		return name
	case <-time.After(30 * time.Second):
		t.Fatal("nobody was told")
		return ""
	}
}

func TestAMachineIsPreparedAndThenJoins(t *testing.T) {
	b, joiner, _, told := background(t, func(context.Context, Job, func(string)) error { return nil }, BackgroundConfig{})
	if p := b.Ensure(jobOf("a", "")); p.Done || p.Err != nil || p.Message == "" {
		t.Errorf("%+v", p)
	}
	hear(t, told)
	if p := b.Ensure(jobOf("a", "")); !p.Done {
		t.Errorf("prepared: %+v", p)
	}
	if p := b.Ensure(jobOf("a", "token")); p.Done {
		t.Errorf("with a token: %+v", p)
	}
	hear(t, told)
	if p := b.Ensure(jobOf("a", "token")); !p.Done || joiner.count() != 2 || joiner.jobs[0].Prepared || !joiner.jobs[1].Prepared {
		t.Errorf("joined: %+v, %+v", p, joiner.jobs)
	}
}

func TestWhatIsUnderWayIsNotBegunTwiceAndFewAreAtOnce(t *testing.T) {
	release := make(chan struct{})
	b, joiner, _, told := background(t, func(ctx context.Context, _ Job, progress func(string)) error {
		progress("halfway")
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, BackgroundConfig{Limit: 2})
	for range 3 {
		for _, name := range []string{"a", "b", "c"} {
			b.Ensure(jobOf(name, "token"))
		}
	}
	for deadline := time.Now().Add(30 * time.Second); joiner.count() < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing was begun")
		}
	}
	if got := joiner.count(); got != 2 {
		t.Errorf("%d at once", got)
	}
	close(release)
	for range 3 {
		hear(t, told)
	}
	if got := joiner.count(); got != 3 {
		t.Errorf("begun %d times", got)
	}
}

func TestFailuresAreTriedAgainLaterAndLater(t *testing.T) {
	failure := errors.New("host 10.0.0.5: join: no room")
	b, joiner, clk, told := background(t, func(context.Context, Job, func(string)) error { return failure }, BackgroundConfig{FirstWait: time.Second, LastWait: 3 * time.Second})
	b.Ensure(jobOf("a", "token"))
	for i, wait := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
		hear(t, told)
		if p := b.Ensure(jobOf("a", "token")); !errors.Is(p.Err, failure) || joiner.count() != i+1 {
			t.Fatalf("after failure %d: %+v, %d attempts", i, p, joiner.count())
		}
		for deadline := time.Now().Add(30 * time.Second); !clk.HasWaiters(); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("nobody waits for the next attempt")
			}
		}
		clk.Step(wait - time.Millisecond)
		if b.Ensure(jobOf("a", "token")); joiner.count() != i+1 {
			t.Fatalf("attempt %d came early", i+1)
		}
		clk.Step(time.Millisecond)
		hear(t, told) // that it may begin again
		b.Ensure(jobOf("a", "token"))
	}
}

func TestAnEndedSetupStopsAndStaysSo(t *testing.T) {
	begun := make(chan struct{}, 1)
	b, joiner, _, told := background(t, func(ctx context.Context, _ Job, _ func(string)) error {
		begun <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}, BackgroundConfig{})
	if !b.End("a") {
		t.Error("what was never begun does not end")
	}
	b.Ensure(jobOf("a", "token"))
	<-begun
	if b.End("a") {
		t.Error("it had not ended yet")
	}
	hear(t, told)
	if p := b.Ensure(jobOf("a", "token")); p.Err != nil || joiner.count() != 1 {
		t.Errorf("it was begun again: %+v", p)
	}
	if !b.End("a") {
		t.Error("it has not ended")
	}
}
