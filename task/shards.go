package task

import (
	"errors"
	"fmt"
	"slices"
)

// ShardGrowthsMax bounds how often the shards of a lambda may grow: doubled each time, one gets to ShardsMax
// in ten.
const ShardGrowthsMax = 32

// Refusals to change how many shards a lambda has.
var (
	// ErrShrink says that shards never become fewer: what lies in one would have to be moved.
	ErrShrink = errors.New("shards only grow")
	// ErrGrownOften says that a lambda's shards have grown ShardGrowthsMax times.
	ErrGrownOften = errors.New("shards have grown too often")
)

// ShardCount is how many shards a lambda has for the ids that are made from an instant on.
type ShardCount struct {
	Count uint16
	From  Instant // of the first count of a lambda: 0
}

// Partitions lists all partitions of the lambda, also those of a count that is not in force yet. When its
// shards grow the new ones come behind those there were, so that a place in the list stays what it was.
func (l *Lambda) Partitions() []Partition {
	all := make([]Partition, 0, len(l.Priorities)*int(l.Shards))
	for shard := range l.Shards {
		for priority := range l.Priorities {
			all = append(all, Partition{Lambda: l.Ref, Priority: uint8(priority), Shard: shard})
		}
	}
	return all
}

// ShardsFor is the count by which a task of the lambda has its shard. It is the same whenever it is asked
// for, if the lambda's row was read less than a while before the id was made: see docs/adr/0020. An id
// without a time, as that of a key is, goes by the first count.
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

// ShardsFrom is when the newest count comes into force; 0 for a count that the lambda always had.
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

// Grow gives the lambda more shards from an instant on, which the caller chooses so late that nobody has
// placed an id of then. The same count again changes nothing.
func (l *Lambda) Grow(count uint16, from Instant) error {
	switch {
	case count == l.Shards:
		return nil
	case count < l.Shards:
		return fmt.Errorf("%w: lambda %s has %d, and %d are asked for", ErrShrink, l.Name, l.Shards, count)
	case len(l.ShardHistory) > ShardGrowthsMax:
		return fmt.Errorf("%w: those of lambda %s did %d times, which is the most; create another lambda", ErrGrownOften, l.Name, ShardGrowthsMax)
	}
	history := l.ShardHistory
	if len(history) == 0 {
		history = []ShardCount{{Count: l.Shards}}
	}
	from = max(from, history[len(history)-1].From+1)                     // the clock may have been set back
	l.ShardHistory = slices.Concat(history, []ShardCount{{count, from}}) // what others know of it stays
	l.Shards = count
	return nil
}

// checkShardHistory refuses a history that does not lead to the lambda's shards.
func (l *Lambda) checkShardHistory() error {
	var last ShardCount
	for i, c := range l.ShardHistory {
		if c.Count <= last.Count || i > 0 && c.From <= last.From || i == 0 && c.From != 0 {
			return fmt.Errorf("%w history of shards: %d from %d come after %d from %d", ErrInvalid, c.Count, c.From, last.Count, last.From)
		}
		last = c
	}
	if len(l.ShardHistory) > 0 && last.Count != l.Shards {
		return fmt.Errorf("%w history of shards: it ends with %d, and the lambda has %d", ErrInvalid, last.Count, l.Shards)
	}
	return nil
}
