package ledger_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"plasmacloud.io/plasmacloud/internal/admission/ledger"
)

// clock is a time that tests move.
type clock struct {
	mutex sync.Mutex
	now   time.Time
}

func (c *clock) Now() time.Time {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.now = c.now.Add(d)
}

func newClock() *clock { return &clock{now: time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)} }

func promise(name string) ledger.Promise {
	return ledger.Promise{Project: "shop", Kind: "Cluster", Name: name}
}

// names reads a ledger without changing it.
func names(t *testing.T, l *ledger.Ledgers, organization string) []string {
	t.Helper()
	var names []string
	err := l.Change(t.Context(), organization, func(promises []ledger.Promise) ([]ledger.Promise, error) {
		names = nil
		for _, p := range promises {
			names = append(names, p.Name)
		}
		return promises, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func add(name string) func([]ledger.Promise) ([]ledger.Promise, error) {
	return func(promises []ledger.Promise) ([]ledger.Promise, error) { return append(promises, promise(name)), nil }
}

func TestPromisesCountUntilTheyExpire(t *testing.T) {
	store, now := fake.NewFakeClient(), newClock()
	l := ledger.New(store, store, "system", now.Now)
	if err := l.Change(t.Context(), "acme", add("a")); err != nil {
		t.Fatal(err)
	}
	now.advance(ledger.Lifetime / 2)
	if err := l.Change(t.Context(), "acme", add("b")); err != nil {
		t.Fatal(err)
	}
	// Another process, which has just been started, knows them too.
	other := ledger.New(store, store, "system", now.Now)
	if got := names(t, other, "acme"); len(got) != 2 {
		t.Errorf("promises are %v, want a and b", got)
	}
	if got := names(t, other, "globex"); len(got) != 0 {
		t.Errorf("another organization has %v", got)
	}
	now.advance(ledger.Lifetime / 2)
	if got := names(t, l, "acme"); len(got) != 1 || got[0] != "b" {
		t.Errorf("promises are %v, want b only", got)
	}
}

func TestARefusalPromisesNothing(t *testing.T) {
	store := fake.NewFakeClient()
	l := ledger.New(store, store, "system", newClock().Now)
	refusal := errors.New("no room")
	err := l.Change(t.Context(), "acme", func(promises []ledger.Promise) ([]ledger.Promise, error) {
		return append(promises, promise("a")), refusal
	})
	if !errors.Is(err, refusal) {
		t.Errorf("got %v, want the refusal", err)
	}
	if got := names(t, l, "acme"); len(got) != 0 {
		t.Errorf("promises are %v, want none", got)
	}
	var stored corev1.ConfigMapList
	if err := store.List(t.Context(), &stored); err != nil || len(stored.Items) != 0 {
		t.Errorf("%d ledgers are stored (%v): nothing was promised", len(stored.Items), err)
	}
}

// Several processes, each with many requests at once, and room for ten.
func TestNoMoreIsPromisedThanThereIsRoomFor(t *testing.T) {
	const processes, requests, room = 3, 20, 10
	store := fake.NewFakeClient()
	now := newClock()
	var admitted atomic.Int32
	var group sync.WaitGroup
	for range processes {
		l := ledger.New(store, store, "system", now.Now)
		for range requests {
			group.Go(func() {
				err := l.Change(context.Background(), "acme", func(promises []ledger.Promise) ([]ledger.Promise, error) {
					if len(promises) >= room {
						return nil, errors.New("no room")
					}
					return append(promises, promise("x")), nil
				})
				if err == nil {
					admitted.Add(1)
				}
			})
		}
	}
	group.Wait()
	if admitted.Load() != room {
		t.Errorf("%d were admitted, and there is room for %d", admitted.Load(), room)
	}
	l := ledger.New(store, store, "system", now.Now)
	if got := names(t, l, "acme"); len(got) != room {
		t.Errorf("%d promises, want %d", len(got), room)
	}
}

func TestABrokenLedgerSaysWhatToDo(t *testing.T) {
	broken := &corev1.ConfigMap{Data: map[string]string{"promises": "nonsense"}}
	broken.Namespace, broken.Name = "system", "admission-ledger-acme"
	store := fake.NewFakeClient(broken)
	l := ledger.New(store, store, "system", newClock().Now)
	if err := l.Change(t.Context(), "acme", add("a")); err == nil {
		t.Fatal("a ledger that cannot be read was written")
	}
	if err := store.Delete(t.Context(), broken); err != nil {
		t.Fatal(err)
	}
	if err := l.Change(t.Context(), "acme", add("a")); err != nil {
		t.Error(err)
	}
}

func TestWaitingForATurnEndsWithTheRequest(t *testing.T) {
	store := fake.NewFakeClient()
	l := ledger.New(store, store, "system", newClock().Now)
	entered, leave := make(chan struct{}), make(chan struct{})
	done := make(chan error)
	go func() {
		done <- l.Change(context.Background(), "acme", func(promises []ledger.Promise) ([]ledger.Promise, error) {
			close(entered)
			<-leave
			return promises, nil
		})
	}()
	<-entered
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.Change(ctx, "acme", add("a")); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the request's end", err)
	}
	if err := l.Change(t.Context(), "globex", add("a")); err != nil {
		t.Errorf("another organization had to wait: %v", err)
	}
	close(leave)
	if err := <-done; err != nil {
		t.Error(err)
	}
}
