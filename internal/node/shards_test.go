package node

import (
	"context"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/partition"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// late is a store whose reads of lambdas return late, with the state from when they were asked.
type late struct {
	store.Driver

	mu sync.Mutex // guards by
	by time.Duration
}

func (l *late) set(by time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.by = by
}

func (l *late) Controls(ctx context.Context, kind, name string) ([]store.Control, error) {
	rows, err := l.Driver.Controls(ctx, kind, name)
	l.mu.Lock()
	by := l.by
	l.mu.Unlock()
	if kind == catalog.Kind && name == "" {
		time.Sleep(by)
	}
	return rows, err
}

// shardsOf counts the wake-up rows in each shard of a lambda, and fails unless each is where its id says.
func (r *rig) shardsOf(l *catalog.Entry) map[uint16]int {
	r.Helper()
	shards := map[uint16]int{}
	for _, p := range l.Partitions() {
		rows, err := r.store.ScanSchedule(r.ctx, p, store.WakeKey{}, task.InstantOf(time.Now().Add(24*time.Hour)), 10_000)
		if err != nil {
			r.Fatal(err)
		}
		for i := range rows {
			shards[p.Shard]++
			if want := partition.ShardOf(rows[i].ID, l.ShardsFor(rows[i].ID)); p.Shard != want {
				r.Errorf("task %s is in shard %d, and nobody looks for it there but in %d", rows[i].ID, p.Shard, want)
			}
		}
	}
	return shards
}
