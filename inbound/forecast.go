package inbound

import (
	"context"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/overview"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// forecastRowsMin is how many rows of a partition a forecast reads, however many partitions share its budget.
const forecastRowsMin = 100

// Forecast counts the tasks that may start until each of some instants, which are in order, by lambda. It
// reads wake-up rows in the order of time and at most about rowsMax of them, shared evenly by the partitions,
// and says how far its counts are exact. It asks for no grants: who shows it leaves out what may not be seen.
func (in *Inbound) Forecast(ctx context.Context, edges []time.Time, rowsMax int) (f overview.Forecast, err error) {
	leave, err := in.enterWholeSet()
	if err != nil {
		return f, err
	}
	defer leave()
	f = overview.Forecast{At: in.Clock.Now().Time(), Edges: edges}
	all := in.Catalog.All()
	partitions := 0
	for _, l := range all {
		partitions += len(l.Partitions())
	}
	each := max(forecastRowsMin, rowsMax/max(1, partitions))
	for _, l := range all {
		of := overview.DueOf{Lambda: l.Name, Due: make([]int64, len(edges))}
		read, err := in.forecastOf(ctx, l, edges, each, &of)
		if err != nil {
			return f, err
		}
		f.Rows += read
		f.Lambdas = append(f.Lambdas, of)
	}
	return f, nil
}

func (in *Inbound) forecastOf(ctx context.Context, l *catalog.Entry, edges []time.Time, rowsMax int, of *overview.DueOf) (read int, err error) {
	through := task.InstantOf(edges[len(edges)-1])
	for _, p := range l.Partitions() {
		var after store.WakeKey
		for left := rowsMax; ; {
			limit := min(left, setRowsRead)
			if limit == 0 {
				until := after.Wake.Time()
				if of.Until.IsZero() || until.Before(of.Until) {
					of.Until = until
				}
				break
			}
			wakeups, err := in.Store.ScanSchedule(ctx, p, after, through, limit)
			if err != nil {
				return read, err
			}
			if err := in.forecastRows(ctx, wakeups, edges, of); err != nil {
				return read, err
			}
			read, left = read+len(wakeups), left-len(wakeups)
			if len(wakeups) < limit {
				break
			}
			after = store.KeyOf(&wakeups[len(wakeups)-1])
		}
	}
	return read, nil
}

// forecastRows puts the tasks of wake-up rows into their buckets.
func (in *Inbound) forecastRows(ctx context.Context, wakeups []task.Task, edges []time.Time, of *overview.DueOf) error {
	tasks, err := in.tasksBehind(ctx, wakeups)
	if err != nil {
		return err
	}
	for i := range tasks {
		if tasks[i].ID.IsZero() {
			continue
		}
		start, waits := startOf(&tasks[i].Task)
		if !waits {
			continue
		}
		at, _ := slices.BinarySearchFunc(edges, start.Time(), time.Time.Compare)
		if at < len(edges) {
			of.Due[at]++
		}
	}
	return nil
}
