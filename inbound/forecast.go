package inbound

import (
	"context"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/overview"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// forecastRowsMin is how many rows of a partition a forecast reads, however many partitions share its budget.
const forecastRowsMin = 100

// forecastPart is how far a forecast has read a partition.
type forecastPart struct {
	partition task.Partition
	of        *overview.DueOf
	after     store.WakeKey
}

// Forecast counts the tasks that may start until each of some instants, which are in order, by lambda. It
// reads wake-up rows in the order of time and at most about rowsMax of them, shared by the partitions, and
// says how far its counts are exact. It asks for no grants: who shows it leaves out what may not be seen.
func (in *Inbound) Forecast(ctx context.Context, edges []time.Time, rowsMax int) (f overview.Forecast, err error) {
	leave, err := in.enterWholeSet()
	if err != nil {
		return f, err
	}
	defer leave()
	all := in.Catalog.All()
	f = overview.Forecast{At: in.Clock.Now().Time(), Edges: edges, Lambdas: make([]overview.DueOf, len(all))}
	var parts []*forecastPart
	for i, l := range all {
		f.Lambdas[i] = overview.DueOf{Lambda: l.Name, Due: make([]int64, len(edges))}
		for _, p := range l.Partitions() {
			parts = append(parts, &forecastPart{partition: p, of: &f.Lambdas[i]})
		}
	}
	// Partitions with few rows leave the rest of their shares to the others.
	for share := max(forecastRowsMin, rowsMax/max(1, len(parts))); len(parts) > 0; share = (rowsMax - f.Rows) / max(1, len(parts)) {
		if share < forecastRowsMin {
			break
		}
		unread := parts[:0]
		for _, p := range parts {
			read, more, err := in.forecastPart(ctx, p, edges, share)
			if err != nil {
				return f, err
			}
			if f.Rows += read; more {
				unread = append(unread, p)
			}
		}
		parts = unread
	}
	for _, p := range parts {
		if until := p.after.Wake.Time(); p.of.Until.IsZero() || until.Before(p.of.Until) {
			p.of.Until = until
		}
	}
	return f, nil
}

// forecastPart reads on in a partition, rowsMax rows at most. more: there are further ones.
func (in *Inbound) forecastPart(ctx context.Context, p *forecastPart, edges []time.Time, rowsMax int) (read int, more bool, err error) {
	through := task.InstantOf(edges[len(edges)-1])
	for read < rowsMax {
		limit := min(rowsMax-read, setRowsRead)
		wakeups, err := in.Store.ScanSchedule(ctx, p.partition, p.after, through, limit)
		if err != nil {
			return read, false, err
		}
		if err := in.forecastRows(ctx, wakeups, edges, p.of); err != nil {
			return read, false, err
		}
		if read += len(wakeups); len(wakeups) < limit {
			return read, false, nil
		}
		p.after = store.KeyOf(&wakeups[len(wakeups)-1])
	}
	return read, true, nil
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
