package redis

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"plasmacloud.io/plasmacloud/internal/task"
)

// busyDelay is how long an item waits when another one of its key is being handled.
const busyDelay = time.Second

// retryError is how our handler tells asynq, which calls RetryDelayFunc with it, that an item is to come again.
type retryError struct {
	after   time.Duration
	backoff bool
}

func (e retryError) Error() string {
	if e.backoff {
		return "to be tried again"
	}
	return fmt.Sprintf("to be tried again in %s", e.after)
}

// run is one Run of a queue.
type run struct {
	queue   *Queue
	handle  func(item task.Item) task.Result
	options task.Options
	slots   chan struct{} // one for each handler that runs

	mu      sync.Mutex
	running map[string]bool // keys
}

// Run implements task.Queue.
func (q *Queue) Run(ctx context.Context, handle task.Handler, options task.Options) error {
	options, err := options.Complete()
	if err != nil {
		return err
	}
	queues, err := q.queues(options.Shard)
	if err != nil {
		return err
	}
	r := &run{
		queue:   q,
		options: options,
		slots:   make(chan struct{}, options.Concurrency),
		running: map[string]bool{},
		// asynq's own context is not used. It ends when asynq has lost its hold on the item, which is no reason to stop.
		handle: func(item task.Item) task.Result {
			if item.Deadline.IsZero() {
				return handle(ctx, item)
			}
			deadlined, cancel := context.WithDeadline(ctx, item.Deadline)
			defer cancel()
			return handle(deadlined, item)
		},
	}
	server := asynq.NewServerFromRedisClient(q.redis, asynq.Config{
		Concurrency:              options.Concurrency,
		Queues:                   queues,
		StrictPriority:           true,
		TaskCheckInterval:        pollInterval,
		DelayedTaskCheckInterval: delayedInterval,
		ShutdownTimeout:          options.Grace,
		RetryDelayFunc:           r.retryDelay,
		IsFailure:                isFailure,
		Logger:                   newLogger(q.log),
	})
	if err := server.Start(asynq.HandlerFunc(r.process)); err != nil {
		return fmt.Errorf("run queue: %w", err)
	}
	var rescuer sync.WaitGroup
	rescuer.Go(func() { q.rescueAll(ctx, queues) })
	<-ctx.Done()
	grace := time.NewTimer(options.Grace)
	defer grace.Stop()
	server.Shutdown()
	rescuer.Wait()
	return r.wait(grace.C)
}

// wait waits until no handler runs. asynq waits for most of them, but not for those that it has lost hold of.
func (r *run) wait(timeout <-chan time.Time) error {
	for range cap(r.slots) {
		select {
		case r.slots <- struct{}{}:
			continue
		default:
		}
		select {
		case r.slots <- struct{}{}:
		case <-timeout:
			return fmt.Errorf("stop queue: a handler did not return within %s", r.options.Grace)
		}
	}
	return nil
}

// process handles an item that asynq has taken from Redis.
func (r *run) process(_ context.Context, delivered *asynq.Task) error {
	item, err := itemOf(delivered)
	if err != nil {
		r.queue.log.Error("drop what is no task", "error", err)
		return asynq.RevokeTask
	}
	select {
	case r.slots <- struct{}{}:
	default: // handlers that asynq has lost hold of take the room
		return retryError{after: busyDelay}
	}
	defer func() { <-r.slots }()
	if !r.enter(item.Key) {
		return retryError{after: busyDelay}
	}
	defer r.leave(item.Key)
	lock := r.queue.newLock(item.Key)
	if held, err := lock.take(); err != nil || !held {
		return retryError{after: busyDelay}
	}
	stop := lock.keep(r.queue.log)
	defer stop()
	result := r.handle(item)
	if !result.Retry {
		return nil
	}
	return retryError{after: result.After, backoff: result.After <= 0}
}

// enter marks a key as being handled in this process. Redis, which may have been emptied, does not know it for sure.
func (r *run) enter(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.running[key] {
		return false
	}
	r.running[key] = true
	return true
}

func (r *run) leave(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, key)
}

// retryDelay is asynq's question how long an item has to wait after so many failures.
func (r *run) retryDelay(failures int, err error, delivered *asynq.Task) time.Duration {
	after := r.options.Backoff.Delay(failures + 1)
	var retry retryError
	if errors.As(err, &retry) && !retry.backoff {
		after = retry.after
	}
	now := time.Now()
	due := now.Add(after)
	if item, err := itemOf(delivered); err == nil {
		due = item.RetryDue(now, after)
	}
	if due.Sub(now) < pollInterval {
		return 0 // at once, not at the next full second
	}
	return wholeSecond(due).Sub(now)
}

// isFailure tells what makes the next delay longer.
func isFailure(err error) bool {
	var retry retryError
	return !errors.As(err, &retry) || retry.backoff
}

func itemOf(delivered *asynq.Task) (task.Item, error) {
	var item task.Item
	if err := json.Unmarshal(delivered.Payload(), &item); err != nil {
		return item, err
	}
	return item, item.Validate()
}
