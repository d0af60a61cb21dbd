package task

import (
	"errors"
	"fmt"
	"slices"
)

// ShardGrowthsMax bounds how often the shards of a lambda may grow. Doubling ten times suffices for
// ShardsMax.
const ShardGrowthsMax = 32

// Refusals to change how many shards a lambda has.
var (
	// ErrShrink means that the number of shards cannot be reduced: the tasks of a shard would have to be
	// moved.
	ErrShrink = errors.New("shards only grow")
	// ErrGrownOften means that a lambda's shards have grown ShardGrowthsMax times.
	ErrGrownOften = errors.New("shards have grown too often")
)

// ShardCount is the number of shards for ids that are made from an instant on.
type ShardCount struct {
	Count uint16  `json:"count"`
	From  Instant `json:"from_us"` // 0 for the first count of a lambda
}

// Partitions returns all partitions of the lambda, including those that are not used yet. When its shards
// grow the new partitions are appended, so that the index of a partition never changes.
func (l *Lambda) Partitions() []Partition {
	all := make([]Partition, 0, len(l.Priorities)*int(l.Shards))
	for shard := range l.Shards {
		for priority := range l.Priorities {
			all = append(all, Partition{Lambda: l.Ref, Priority: uint8(priority), Shard: shard})
		}
	}
	return all
}

// ShardsFor returns the number of shards from which a task with this id got its shard. It never changes for
// an id, provided that the lambda was read recently when the id was made: see docs/adr/0020. Ids without a
// time, as those of tasks with a key, use the first count.
func (l *Lambda) ShardsFor(id ID) uint16 {
	if len(l.ShardHistory) == 0 {
		return l.Shards
	}
	made, timed := id.Made()
	for i := len(l.ShardHistory) - 1; i > 0 && timed; i-- {
		if made >= l.ShardHistory[i].From {
			return l.ShardHistory[i].Count
		}
	}
	return l.ShardHistory[0].Count
}

// ShardsFirst returns the first number of shards that the lambda had. The shard of a task with a limit key
// comes from it, so that all tasks of such a key are in one shard however often the shards grow.
func (l *Lambda) ShardsFirst() uint16 {
	if len(l.ShardHistory) == 0 {
		return l.Shards
	}
	return l.ShardHistory[0].Count
}

// ShardsFrom returns from when on new ids use the newest count; 0 if the lambda always had it.
func (l *Lambda) ShardsFrom() Instant {
	if n := len(l.ShardHistory); n > 0 {
		return l.ShardHistory[n-1].From
	}
	return 0
}

// HadShards reports whether the lambda has, or once had, that many shards.
func (l *Lambda) HadShards(count uint16) bool {
	for _, c := range l.ShardHistory {
		if c.Count == count {
			return true
		}
	}
	return l.Shards == count
}

// Grow gives the lambda more shards from an instant on. The caller chooses it so late that no process has yet
// made an id with that time. The same count again changes nothing.
func (l *Lambda) Grow(count uint16, from Instant) error {
	switch {
	case count == l.Shards:
		return nil
	case count < l.Shards:
		return fmt.Errorf("%w: lambda %s has %d, and %d are asked for", ErrShrink, l.Name, l.Shards, count)
	case len(l.ShardHistory) > ShardGrowthsMax:
		return fmt.Errorf("%w: lambda %s has reached the limit of %d times; create another lambda", ErrGrownOften, l.Name, ShardGrowthsMax)
	}
	history := l.ShardHistory
	if len(history) == 0 {
		history = []ShardCount{{Count: l.Shards}}
	}
	from = max(from, history[len(history)-1].From+1)                     // the clock may have been set back
	l.ShardHistory = slices.Concat(history, []ShardCount{{count, from}}) // a copy: others may share the old one
	l.Shards = count
	return nil
}

// checkShardHistory refuses a history that does not end with the lambda's shards.
func (l *Lambda) checkShardHistory() error {
	var last ShardCount
	for i, c := range l.ShardHistory {
		if c.Count <= last.Count || i > 0 && c.From <= last.From || i == 0 && c.From != 0 {
			return fmt.Errorf("%w history of shards: %d from %d follow %d from %d", ErrInvalid, c.Count, c.From, last.Count, last.From)
		}
		last = c
	}
	if len(l.ShardHistory) > 0 && last.Count != l.Shards {
		return fmt.Errorf("%w history of shards: it ends with %d, and the lambda has %d", ErrInvalid, last.Count, l.Shards)
	}
	return nil
}
