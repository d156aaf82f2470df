package task

import (
	"fmt"
	"hash/fnv"
)

// Shard is one of Count equal parts of all keys, numbered from zero. The zero value is the whole. All tasks of a
// resource are in one shard, so workers of different shards never get into each other's way.
type Shard struct {
	Index, Count int
}

// Owns tells whether a key belongs to the shard.
func (s Shard) Owns(key string) bool {
	return s.Count <= 1 || Slot(key, s.Count) == s.Index
}

// Validate tells whether there can be such a shard.
func (s Shard) Validate() error {
	if s == (Shard{}) {
		return nil
	}
	if s.Count < 1 || s.Index < 0 || s.Index >= s.Count {
		return fmt.Errorf("shard %d of %d: shards are numbered from 0 to one less than their count", s.Index, s.Count)
	}
	return nil
}

// Slot spreads keys evenly over n slots, the same way in every process and version.
func Slot(key string, n int) int {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(key)) // cannot fail
	return int(hash.Sum32() % uint32(n))
}
