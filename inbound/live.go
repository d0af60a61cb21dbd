package inbound

import (
	"context"
	"math"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// behind is the task that a wake-up row stands for; its ID is zero when the row is bare and there is no task
// row.
type behind struct {
	found
	conclusion store.Conclusion
}

// lookBehind reads the tasks of wake-up rows. A task row is the truth where there is one, else the task in
// the wake-up row is.
func (in *Inbound) lookBehind(ctx context.Context, wakeups []task.Task) ([]behind, error) {
	if len(wakeups) == 0 {
		return nil, nil
	}
	ids := make([]task.ID, len(wakeups))
	for i := range wakeups {
		ids[i] = wakeups[i].ID
	}
	rows, err := in.Store.Tasks(ctx, ids)
	if err != nil {
		return nil, err
	}
	now := in.Clock.Now()
	all := make([]behind, len(wakeups))
	for i := range wakeups {
		row, wakeup := &rows[i], &wakeups[i]
		all[i].conclusion = store.Conclude(wakeup, row, now)
		if all[i].Task = *row; all[i].conclusion == store.Undispatched {
			all[i].found = found{Task: *wakeup, waiting: true}
		}
	}
	return all, nil
}

// needs reports whether a task row needs that wake-up row of its task. All that is stored for the same
// instant is one row, whatever its seq.
func needs(row, wakeup *task.Task) bool {
	return !row.State.IsEnd() && store.KeyOf(row) == store.KeyOf(wakeup)
}

// liveIn returns live tasks of a partition, up to limit; none only if there is none. It deletes the remnants
// that it meets, since nobody goes over the partitions of a lambda that is deleted. A task may come twice
// while it moves.
func (in *Inbound) liveIn(ctx context.Context, p task.Partition, limit int) ([]found, error) {
	var after store.WakeKey
	for {
		wakeups, err := in.Store.ScanSchedule(ctx, p, after, math.MaxInt64, limit)
		if err != nil {
			return nil, err
		}
		all, err := in.lookBehind(ctx, wakeups)
		if err != nil {
			return nil, err
		}
		live := make([]found, 0, len(all))
		var over []store.Op
		for i := range all {
			if b := &all[i]; !b.ID.IsZero() && !b.State.IsEnd() {
				live = append(live, b.found)
			}
			if all[i].conclusion == store.Remnant {
				over = append(over, store.Remove(&wakeups[i]))
			}
		}
		if len(over) > 0 {
			_, _ = in.Store.Apply(ctx, over) // who looks again deletes what is left
		}
		if len(live) > 0 || len(wakeups) < limit {
			return live, nil
		}
		after, limit = store.KeyOf(&wakeups[len(wakeups)-1]), listRowsRead
	}
}
