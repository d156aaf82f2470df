package queuetest

import (
	"context"
	"strings"
	"testing"
	"time"

	"plasmacloud.io/plasmacloud/internal/task"
)

// measured is a queue that shows up in metrics.
type measured interface {
	Depths(ctx context.Context) ([]task.Depth, error)
}

// depth sums up the items in a state, over all partitions of a class.
func depth(t *testing.T, queue measured, class task.Class, state task.DepthState) (items int) {
	t.Helper()
	all, err := queue.Depths(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range all {
		if d.State == state && strings.HasSuffix("."+d.Queue, "."+class.String()) {
			items += d.Items
		}
	}
	return items
}

func depths(t *testing.T, implementation Implementation) {
	connect := implementation.Store(t)
	queue, ok := connect().(measured)
	if !ok {
		t.Fatalf("%T tells nothing", connect())
	}
	waiting := newItem("later", "later")
	waiting.NotBefore = time.Now().Add(time.Hour)
	urgent := newItem("urgent", "urgent")
	urgent.Priority = 30
	add(t, connect(), waiting, urgent)
	if got := depth(t, queue, waiting.Class(), task.DepthDelayed); got != 1 {
		t.Errorf("%d items wait for their time, want 1", got)
	}
	entered, leave := make(chan struct{}), make(chan struct{})
	start(t, connect(), func(context.Context, task.Item) task.Result {
		close(entered)
		<-leave
		return task.Result{}
	}, task.Options{})
	<-entered
	if got := depth(t, queue, urgent.Class(), task.DepthRunning); got != 1 {
		t.Errorf("%d items are being handled, want 1", got)
	}
	close(leave)
	for deadline := time.Now().Add(patience); depth(t, queue, urgent.Class(), task.DepthRunning) != 0; pause(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("what is done still counts")
		}
	}
}
