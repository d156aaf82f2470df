// Package redis is a task queue that many processes share, through Redis and asynq.
//
// Redis holds nothing that matters: it may be stopped, lost or emptied, and then items come late. What runs meanwhile
// goes on, and the record's leases, not Redis, see to it that nothing is done twice at once.
//
// What asynq does: storage, dispatch, delays, leases of items. What is added here: one item per key at a time, by a lock
// for each key; priorities, by a queue for each class; shards, by a set of queues for each partition; and quick rescue
// of what a dead process held (asynq itself takes up to two minutes).
package redis

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"golang.org/x/time/rate"

	"plasmacloud.io/plasmacloud/internal/task"
)

// Config is where Redis is and how it is used. Processes that share a queue have the same Prefix and Partitions.
type Config struct {
	// Address is host:port.
	Address string
	// Username and Password of an account that may use the keys asynq:* and <Prefix>:*.
	Username, Password string
	// DB is the number of the database.
	DB int
	// TLS is set where the connection is to be encrypted.
	TLS *tls.Config
	// Prefix tells installations that share a Redis apart; plasmacloud where it is empty.
	Prefix string
	// Partitions is into how many shards the queue can be divided; one where it is zero. More than there are shards
	// have a price: each costs Redis some requests a second, and a consumer of several prefers one of them.
	Partitions int
}

const (
	// pollInterval is how often an idle consumer looks for items. Each look is one cheap request per class and partition.
	pollInterval = 250 * time.Millisecond
	// delayedInterval is how often items whose time has come are moved to where they are polled.
	delayedInterval = 500 * time.Millisecond

	// typeName is what asynq calls our items.
	typeName = "task"
	// forever is how long asynq lets a handler run: deadlines are ours.
	forever = 10 * 365 * 24 * time.Hour
)

// Queue is a task.Queue in Redis.
type Queue struct {
	redis      redis.UniversalClient
	log        *slog.Logger
	prefix     string
	partitions int
}

var _ task.Queue = (*Queue)(nil)

// New returns a queue. Redis need not be there yet.
func New(config Config, log *slog.Logger) (*Queue, error) {
	if config.Address == "" || config.Partitions < 0 {
		return nil, errors.New("open queue: an address is needed, and a number of partitions that is not negative")
	}
	if config.Prefix == "" {
		config.Prefix = "plasmacloud"
	}
	client := redis.NewClient(&redis.Options{
		Addr: config.Address, Username: config.Username, Password: config.Password, DB: config.DB, TLSConfig: config.TLS,
		ContextTimeoutEnabled: true,
	})
	return &Queue{redis: client, log: log.With("queue", "redis"), prefix: config.Prefix, partitions: max(config.Partitions, 1)}, nil
}

// Add implements task.Queue.
func (q *Queue) Add(ctx context.Context, item task.Item) error {
	if err := item.Validate(); err != nil {
		return err
	}
	payload, err := json.Marshal(item)
	if err != nil {
		return fmt.Errorf("queue task %s: %w", item.Task, err)
	}
	// A new client each time: it remembers which queues Redis knows of, which is wrong after Redis was emptied.
	_, err = asynq.NewClientFromRedisClient(q.redis).EnqueueContext(ctx, asynq.NewTask(typeName, payload),
		asynq.Queue(q.queueOf(item)),
		asynq.TaskID(string(item.UID)),
		asynq.ProcessAt(wholeSecond(item.Due())),
		asynq.MaxRetry(math.MaxInt32), // nothing is ever given up here: the record says what has failed
		asynq.Timeout(forever),
	)
	if errors.Is(err, asynq.ErrTaskIDConflict) {
		return q.hasten(item)
	}
	if err != nil {
		return fmt.Errorf("queue task %s: %w", item.Task, err)
	}
	return nil
}

// hasten lets an item that waits for its time wait no longer, if it is due now.
func (q *Queue) hasten(item task.Item) error {
	if item.Due().After(time.Now()) {
		return nil
	}
	inspector := asynq.NewInspectorFromRedisClient(q.redis)
	info, err := inspector.GetTaskInfo(q.queueOf(item), string(item.UID))
	if err == nil && (info.State == asynq.TaskStateScheduled || info.State == asynq.TaskStateRetry) {
		err = inspector.RunTask(q.queueOf(item), string(item.UID))
	}
	if err == nil || errors.Is(err, asynq.ErrTaskNotFound) {
		return nil // in the latter case it was done just now
	}
	if again, infoErr := inspector.GetTaskInfo(q.queueOf(item), string(item.UID)); infoErr == nil &&
		(again.State == asynq.TaskStatePending || again.State == asynq.TaskStateActive) {
		return nil // its time came just now
	}
	return fmt.Errorf("queue task %s: %w", item.Task, err)
}

// Depths tells how many items there are, in all partitions.
func (q *Queue) Depths(ctx context.Context) ([]task.Depth, error) {
	if err := q.Ping(ctx); err != nil { // which ends with ctx, unlike an inspector
		return nil, fmt.Errorf("count items: %w", err)
	}
	inspector := asynq.NewInspectorFromRedisClient(q.redis)
	known, err := inspector.Queues()
	if err != nil {
		return nil, fmt.Errorf("count items: %w", err)
	}
	var depths []task.Depth
	for partition := range q.partitions {
		for class := task.MinClass; class <= task.MaxClass; class++ {
			info := &asynq.QueueInfo{}
			if queue := q.queueName(partition, class); slices.Contains(known, queue) { // otherwise nothing was ever added to it
				if info, err = inspector.GetQueueInfo(queue); err != nil {
					return nil, fmt.Errorf("count items: %w", err)
				}
			}
			name := fmt.Sprintf("%d.%s", partition, class)
			depths = append(depths,
				task.Depth{Queue: name, State: task.DepthReady, Items: info.Pending},
				task.Depth{Queue: name, State: task.DepthDelayed, Items: info.Scheduled + info.Retry},
				task.Depth{Queue: name, State: task.DepthRunning, Items: info.Active})
		}
	}
	return depths, nil
}

// Ping tells whether Redis answers.
func (q *Queue) Ping(ctx context.Context) error { return q.redis.Ping(ctx).Err() }

// Close implements task.Queue.
func (q *Queue) Close() error { return q.redis.Close() }

func (q *Queue) queueOf(item task.Item) string {
	return q.queueName(task.Slot(item.Key, q.partitions), item.Class())
}

func (q *Queue) queueName(partition int, class task.Class) string {
	return fmt.Sprintf("%s.%d.%s", q.prefix, partition, class)
}

// queues returns the names of the queues that hold a shard's keys, with their weights.
func (q *Queue) queues(shard task.Shard) (map[string]int, error) {
	count := max(shard.Count, 1)
	if q.partitions%count != 0 {
		return nil, fmt.Errorf("run queue: %d partitions cannot be divided into %d shards; use a multiple of %d", q.partitions, count, count)
	}
	queues := map[string]int{}
	for partition := range q.partitions {
		if partition%count != shard.Index {
			continue
		}
		for class := task.MinClass; class <= task.MaxClass; class++ {
			queues[q.queueName(partition, class)] = int(class-task.MinClass) + 1
		}
	}
	return queues, nil
}

// wholeSecond rounds up: asynq cuts off what is less than a second, and would be too early.
func wholeSecond(t time.Time) time.Time {
	if whole := t.Truncate(time.Second); whole.Before(t) {
		return whole.Add(time.Second)
	}
	return t
}

// logger makes asynq write to the platform's log, and not too often: without Redis it has much to say.
type logger struct {
	log   *slog.Logger
	limit *rate.Limiter
}

func newLogger(log *slog.Logger) *logger {
	return &logger{log: log, limit: rate.NewLimiter(rate.Every(10*time.Second), 3)}
}

func (l *logger) Debug(args ...any) { l.log.Debug("asynq", "message", fmt.Sprint(args...)) }
func (l *logger) Info(args ...any)  { l.log.Debug("asynq", "message", fmt.Sprint(args...)) }
func (l *logger) Warn(args ...any) {
	if l.limit.Allow() {
		l.log.Warn("asynq", "message", fmt.Sprint(args...))
	}
}
func (l *logger) Error(args ...any) {
	if l.limit.Allow() {
		l.log.Error("asynq", "message", fmt.Sprint(args...))
	}
}
func (l *logger) Fatal(args ...any) { l.log.Error("asynq", "message", fmt.Sprint(args...)) }
