package memory

import (
	"log/slog"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"plasmacloud.io/plasmacloud/internal/task"
	"plasmacloud.io/plasmacloud/internal/task/queuetest"
)

func TestConformance(t *testing.T) {
	queuetest.Run(t, queuetest.Implementation{
		Store: func(t *testing.T) func() task.Queue {
			queue := New(clock.RealClock{}, slog.New(slog.DiscardHandler))
			t.Cleanup(func() {
				if err := queue.Close(); err != nil {
					t.Error(err)
				}
			})
			return func() task.Queue { return queue }
		},
		Unit:     100 * time.Millisecond,
		Lateness: 2 * time.Second,
	})
}

func TestAClosedQueueTakesNothing(t *testing.T) {
	queue := New(clock.RealClock{}, slog.New(slog.DiscardHandler))
	if err := queue.Close(); err != nil {
		t.Fatal(err)
	}
	if err := queue.Add(t.Context(), task.Item{UID: "u", Key: "k", Task: types.NamespacedName{Name: "a"}}); err == nil {
		t.Error("a closed queue took an item")
	}
}
