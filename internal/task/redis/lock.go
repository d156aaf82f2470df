package redis

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"
)

const (
	// lockDuration is how long the lock of a process that died stays.
	lockDuration = 15 * time.Second
	lockTimeout  = 3 * time.Second
)

// takeScript takes a lock, or prolongs it: KEYS[1] the lock, ARGV[1] who takes it, ARGV[2] for how many milliseconds.
// A lock that is gone, because Redis was emptied, is taken anew.
var takeScript = redis.NewScript(`
local holder = redis.call("GET", KEYS[1])
if holder and holder ~= ARGV[1] then
	return 0
end
redis.call("SET", KEYS[1], ARGV[1], "PX", ARGV[2])
return 1
`)

// dropScript gives a lock back.
var dropScript = redis.NewScript(`
if redis.call("GET", KEYS[1]) == ARGV[1] then
	redis.call("DEL", KEYS[1])
end
return 1
`)

// lock keeps other consumers from handling items of the same key. It is a courtesy, which saves the record's leases
// from being fought over; it is no guarantee.
type lock struct {
	redis  redis.UniversalClient
	name   string
	holder string
}

func (q *Queue) newLock(key string) *lock {
	return &lock{redis: q.redis, name: q.prefix + ":lock:" + key, holder: uuid.NewString()}
}

func (l *lock) take() (bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	held, err := takeScript.Run(ctx, l.redis, []string{l.name}, l.holder, lockDuration.Milliseconds()).Bool()
	return held, err
}

// keep prolongs the lock until the returned function is called, which gives it back.
func (l *lock) keep(log *slog.Logger) (stop func()) {
	stopping := make(chan struct{})
	var keeper sync.WaitGroup
	keeper.Go(func() {
		ticker := time.NewTicker(lockDuration / 3)
		defer ticker.Stop()
		for {
			select {
			case <-stopping:
				return
			case <-ticker.C:
				if held, err := l.take(); err != nil || !held {
					log.Debug("cannot prolong the lock of a resource", "lock", l.name, "held", held, "error", err)
				}
			}
		}
	})
	return func() {
		close(stopping)
		keeper.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
		defer cancel()
		if err := dropScript.Run(ctx, l.redis, []string{l.name}, l.holder).Err(); err != nil {
			log.Debug("cannot give back the lock of a resource; it ends by itself", "lock", l.name, "error", err)
		}
	}
}
