package component

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// recorder is a part that notes what is asked of it.
type recorder struct {
	name     string
	events   *[]string
	mu       *sync.Mutex
	readyErr error
}

func (r recorder) note(verb string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*r.events = append(*r.events, verb+" "+r.name)
}

func (r recorder) Name() string                { return r.name }
func (r recorder) Init(context.Context) error  { r.note("init"); return nil }
func (r recorder) Start(context.Context) error { r.note("start"); return nil }
func (r recorder) Ready(context.Context) error { r.note("ready"); return r.readyErr }
func (r recorder) Stop(context.Context) error  { r.note("stop"); return nil }

func TestStagesStartInOrderAndStopInReverse(t *testing.T) {
	var events []string
	var mu sync.Mutex
	part := func(name string) Component { return recorder{name: name, events: &events, mu: &mu} }
	m := NewManager(quiet(), Stage{part("etcd")}, Stage{part("apiserver")})
	if err := m.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := m.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"init etcd", "start etcd", "ready etcd", "init apiserver", "start apiserver", "ready apiserver",
		"stop apiserver", "stop etcd",
	}
	if !slices.Equal(events, want) {
		t.Fatalf("events = %v, want %v", events, want)
	}
}

func TestAFailedStageKeepsTheNextFromStartingAndIsStopped(t *testing.T) {
	var events []string
	var mu sync.Mutex
	m := NewManager(quiet(),
		Stage{recorder{name: "etcd", events: &events, mu: &mu, readyErr: errors.New("no space left")}},
		Stage{recorder{name: "apiserver", events: &events, mu: &mu}})
	err := m.Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), "etcd") || !strings.Contains(err.Error(), "no space left") {
		t.Fatalf("Start = %v, want the part and the reason", err)
	}
	if err := m.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if slices.Contains(events, "init apiserver") || !slices.Contains(events, "stop etcd") {
		t.Fatalf("events = %v", events)
	}
}

func TestRoutineIsRunAgainWhenItFailsOrPanics(t *testing.T) {
	runs := make(chan int, 10)
	count := 0
	r := NewRoutine("r", quiet(), nil, func(ctx context.Context) error {
		count++
		runs <- count
		switch count {
		case 1:
			return errors.New("failed")
		case 2:
			panic("bug")
		}
		<-ctx.Done()
		return nil
	})
	if err := r.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	for want := 1; want <= 3; want++ {
		select {
		case <-runs:
		case <-time.After(10 * time.Second):
			t.Fatalf("run %d did not happen", want)
		}
	}
	if err := r.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestBackoffGrowsToItsBoundAndForgets(t *testing.T) {
	b := newBackoff()
	var last time.Duration
	for range 20 {
		last = b.next(0)
	}
	if last != lastDelay {
		t.Fatalf("after many failures the delay is %v, want %v", last, lastDelay)
	}
	if next := b.next(steadyAfter); next != firstDelay {
		t.Fatalf("after a steady run the delay is %v, want %v", next, firstDelay)
	}
}
