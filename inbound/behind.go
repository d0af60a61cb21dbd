package inbound

import (
	"context"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// behind is the task that a wake-up row stands for; its ID is zero when the row is bare and there is no task
// row.
type behind struct {
	found
	conclusion store.Conclusion
}

// tasksBehind reads the tasks of wake-up rows. A task row is the truth where there is one; else the wake-up
// row is.
func (in *Inbound) tasksBehind(ctx context.Context, wakeups []task.Task) ([]behind, error) {
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
