package memory

import (
	"time"

	"plasmacloud.io/plasmacloud/internal/task"
)

// entry is an item and where it is.
type entry struct {
	item     task.Item
	due      time.Time
	order    uint64 // lower for what came earlier
	failures int    // retries that named no delay
	place    place
	index    int // in its heap
}

type place int

const (
	inDelayed place = iota
	inReady
	inBlocked
	inHandler
)

// delayedHeap has on top what is due next.
type delayedHeap []*entry

func (h delayedHeap) Len() int           { return len(h) }
func (h delayedHeap) Less(i, j int) bool { return h[i].due.Before(h[j].due) }
func (h delayedHeap) Swap(i, j int)      { swap(h, i, j) }
func (h *delayedHeap) Push(x any)        { push((*[]*entry)(h), x, inDelayed) }
func (h *delayedHeap) Pop() any          { return pop((*[]*entry)(h)) }

// readyHeap has on top what goes first.
type readyHeap []*entry

func (h readyHeap) Len() int { return len(h) }
func (h readyHeap) Less(i, j int) bool {
	if a, b := h[i].item.Class(), h[j].item.Class(); a != b {
		return a > b
	}
	return h[i].order < h[j].order
}
func (h readyHeap) Swap(i, j int) { swap(h, i, j) }
func (h *readyHeap) Push(x any)   { push((*[]*entry)(h), x, inReady) }
func (h *readyHeap) Pop() any     { return pop((*[]*entry)(h)) }

func swap(entries []*entry, i, j int) {
	entries[i], entries[j] = entries[j], entries[i]
	entries[i].index, entries[j].index = i, j
}

func push(entries *[]*entry, x any, where place) {
	e, _ := x.(*entry)
	e.place, e.index = where, len(*entries)
	*entries = append(*entries, e)
}

func pop(entries *[]*entry) *entry {
	last := len(*entries) - 1
	e := (*entries)[last]
	(*entries)[last] = nil
	*entries = (*entries)[:last]
	return e
}
