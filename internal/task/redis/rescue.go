package redis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// A consumer of asynq 0.26 has a lease on each item for asynqLease, and prolongs it every 5 seconds.
	asynqLease = 30 * time.Second
	// deadAfter is for how long a consumer may have prolonged nothing before it counts as dead.
	deadAfter = 15 * time.Second

	rescueInterval = 5 * time.Second
)

// rescueScript puts back what dead consumers held, with asynq's own data structures: KEYS are the leases, the active
// and the pending items of one queue; ARGV[1] is the time before which a lease counts as dead, ARGV[2] the prefix of
// items. asynq would do the same in the end, but it waits for one to two minutes.
var rescueScript = redis.NewScript(`
local ids = redis.call("ZRANGEBYSCORE", KEYS[1], "-inf", ARGV[1], "LIMIT", 0, 100)
local rescued = 0
for _, id in ipairs(ids) do
	redis.call("ZREM", KEYS[1], id)
	if redis.call("LREM", KEYS[2], 0, id) > 0 then
		redis.call("RPUSH", KEYS[3], id)
		redis.call("HSET", ARGV[2] .. id, "state", "pending")
		rescued = rescued + 1
	end
end
return rescued
`)

// rescueAll looks for dead consumers of the queues until ctx ends.
func (q *Queue) rescueAll(ctx context.Context, queues map[string]int) {
	ticker := time.NewTicker(rescueInterval)
	defer ticker.Stop()
	for {
		for name := range queues {
			rescued, err := q.rescue(ctx, name)
			if err != nil {
				q.log.Debug("cannot look for dead consumers", "error", err)
				break // Redis is away; the next queue is no better
			}
			if rescued > 0 {
				q.log.Info("put back what a dead worker held", "items", rescued)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (q *Queue) rescue(ctx context.Context, name string) (int, error) {
	prefix := "asynq:{" + name + "}:"
	dead := time.Now().Add(asynqLease - deadAfter).Unix()
	return rescueScript.Run(ctx, q.redis, []string{prefix + "lease", prefix + "active", prefix + "pending"}, dead, prefix+"t:").Int()
}
