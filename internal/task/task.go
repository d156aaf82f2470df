// Package task does the platform's slow work: one Task object is one operation on one resource, done step by step.
//
// Three things belong here, and they keep apart:
//
//   - The record is the Task object in the API. It alone is the truth: which steps are done, what went wrong, when to
//     try again. Package record reads and writes it.
//   - A Queue says which task is next, and to whom. It carries references, never state, and may lose everything at any
//     time: whoever watches the record adds every unfinished task again. Packages memory and redis are queues.
//   - A Worker takes a reference from a queue, reads the record, runs the steps that a Planner names for the operation,
//     and writes the record before and after each.
//
// What the steps do belongs into package provisioner and below.
package task

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"plasmacloud.io/plasmacloud/api/v1alpha1"
)

// Item refers to a task. It holds what a queue has to know to choose, and no more.
type Item struct {
	// Task names the Task object, and UID tells it from another one that had the name before. Two items with the same
	// UID are the same item.
	Task types.NamespacedName `json:"task"`
	UID  types.UID            `json:"uid"`
	// Key names the resource that the task works on. Of all items with the same key, one is handled at a time.
	Key string `json:"key"`
	// Priority: see Class.
	Priority int32 `json:"priority,omitempty"`
	// NotBefore is when the item may be handled; at once where it is zero.
	NotBefore time.Time `json:"notBefore,omitzero"`
	// Deadline is when the item is handled at the latest, NotBefore or not, and when its handler's context ends. None
	// where it is zero.
	Deadline time.Time `json:"deadline,omitzero"`
}

// ItemOf returns the reference to a task.
func ItemOf(t *v1alpha1.Task) Item {
	item := Item{
		Task:     types.NamespacedName{Namespace: t.Namespace, Name: t.Name},
		UID:      t.UID,
		Key:      KeyOf(t),
		Priority: t.Spec.Priority,
	}
	if t.Status.RetryAt != nil {
		item.NotBefore = t.Status.RetryAt.Time
	}
	if t.Spec.Deadline != nil {
		item.Deadline = t.Spec.Deadline.Time
	}
	return item
}

// KeyOf names the resource that a task works on.
func KeyOf(t *v1alpha1.Task) string {
	return strings.Join([]string{t.Namespace, t.Spec.Resource.Kind, t.Spec.Resource.Name}, "/")
}

// Validate tells whether the item can be queued.
func (i Item) Validate() error {
	if i.Task.Name == "" || i.UID == "" || i.Key == "" {
		return fmt.Errorf("queue task %q: name, uid and key are needed", i.Task)
	}
	return nil
}

// Due is when the item is to be handled.
func (i Item) Due() time.Time { return i.capped(i.NotBefore) }

// capped is the given time, or the deadline if that is earlier.
func (i Item) capped(due time.Time) time.Time {
	if !i.Deadline.IsZero() && i.Deadline.Before(due) {
		return i.Deadline
	}
	return due
}

// RetryDue is when the item is to be handled again after a handler asked for a delay at the time now.
func (i Item) RetryDue(now time.Time, after time.Duration) time.Time {
	if due := i.capped(now.Add(after)); due.After(now) {
		return due
	}
	// The deadline has passed and the handler could not even write that down: its own delay counts.
	return now.Add(after)
}

// Class orders items: one of a higher class goes first, however many of lower ones wait; within a class, and a shard,
// the one that waits longest does.
type Class int

// The lowest and the highest class.
const (
	MinClass Class = -1
	MaxClass Class = 3
)

// String is the class's name where queues are told apart, from 0 for the lowest.
func (c Class) String() string { return strconv.Itoa(int(c - MinClass)) }

// Class is the item's priority in tens: below 0, 0 to 9, 10 to 19, 20 to 29, and 30 and above.
func (i Item) Class() Class {
	if i.Priority < 0 {
		return MinClass
	}
	return min(Class(i.Priority/10), MaxClass)
}

// Queue hands items to handlers. Implementations pass the conformance suite in package queuetest. They deliver at
// least once: a handler may see an item again after it was done, or a second time at once when the queue's memory was
// lost meanwhile; the Worker is prepared for both. They may lose items too: then these come late, when they are added
// again.
type Queue interface {
	// Add puts an item into the queue. Adding one that waits already changes nothing, unless it is due now: then it
	// waits no longer. Adding one that is being handled changes nothing at all, because its handler reads the record as
	// it goes. An error means that the item may not be in the queue.
	Add(ctx context.Context, item Item) error

	// Run calls the handler for one item after another until ctx ends; then it takes no more, waits for the handlers
	// that run, and returns nil. It returns an error if it cannot work at all, or if a handler was still running after
	// Options.Grace; nothing is lost then either. A queue that cannot be reached is waited for. Several Runs, in one
	// process or many, share the items.
	Run(ctx context.Context, handle Handler, options Options) error

	// Close releases what the queue holds. It is called after all Runs have returned.
	Close() error
}

// Handler does the work of an item. Its context ends at the item's deadline, and when the Run that called it shall
// end; it should return soon after. A panic counts as Result{Retry: true}.
type Handler func(ctx context.Context, item Item) Result

// Result is what becomes of an item: it is done, or is to be handled again.
type Result struct {
	// Retry asks to be called again with the same item.
	Retry bool
	// After is how long to wait before that. Zero leaves it to the queue, which waits longer each time.
	After time.Duration
}

// Options of a Run.
type Options struct {
	// Concurrency is how many handlers may run at once; at least one.
	Concurrency int
	// Shard limits the Run to some of the keys; the zero value takes them all.
	Shard Shard
	// Backoff is how long to wait before a retry that names no delay; the zero value is DefaultBackoff.
	Backoff Backoff
	// Grace is how long handlers may take to return when Run shall end; a minute where it is zero.
	Grace time.Duration
}

// Complete fills in what was left out, or says what is wrong.
func (o Options) Complete() (Options, error) {
	if o.Concurrency < 0 || o.Grace < 0 {
		return o, errors.New("run queue: concurrency and grace cannot be negative")
	}
	if err := o.Shard.Validate(); err != nil {
		return o, fmt.Errorf("run queue: %w", err)
	}
	o.Concurrency = max(o.Concurrency, 1)
	if o.Grace == 0 {
		o.Grace = time.Minute
	}
	if o.Backoff == (Backoff{}) {
		o.Backoff = DefaultBackoff
	}
	return o, nil
}

// Adder adds tasks to a queue; it is what a controller of tasks needs.
type Adder struct {
	Queue Queue
	// Shard limits it to the keys that this process's own queue is for.
	Shard Shard
}

// Add puts a task into the queue, to be handled when it is to be tried again.
func (a Adder) Add(ctx context.Context, t *v1alpha1.Task) error {
	item := ItemOf(t)
	if !a.Shard.Owns(item.Key) {
		return nil
	}
	return a.Queue.Add(ctx, item)
}
