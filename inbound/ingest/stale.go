package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// staleRowsMax bounds how many tasks SetAside keeps in one write, with their payloads.
const staleRowsMax = 16

// SetAside keeps tasks that wake-up rows hold and that may have run though no row tells. It returns how many,
// from the first on. They are kept as if they had come through the buffer, so that a retry takes them in.
func (r *Rejected) SetAside(ctx context.Context, tasks []task.Task) (n int, err error) {
	for chunk := range slices.Chunk(tasks, staleRowsMax) {
		rows := make([]*rejectedRow, len(chunk))
		whys := make([]error, len(chunk))
		for i := range chunk {
			if rows[i], whys[i], err = r.stale(ctx, &chunk[i]); err != nil {
				return n, err
			}
		}
		kept, err := r.putAll(ctx, rows)
		for i := range kept {
			r.tell(ctx, rows[i], whys[i])
		}
		if n += kept; err != nil {
			return n, err
		}
	}
	return n, nil
}

// stale returns the row of a task that may have run, and why it is rejected. If its payload is gone, the row
// can only be deleted.
func (r *Rejected) stale(ctx context.Context, t *task.Task) (row *rejectedRow, why, err error) {
	l := r.Catalog.ByRef(t.Partition.Lambda)
	if l == nil || int(t.Partition.Priority) >= len(l.Priorities) {
		return nil, nil, fmt.Errorf("task %s: %w", t.ID, catalog.ErrUnknown)
	}
	why = &staleError{fmt.Sprintf("no scheduler ran for longer than %v, for which its lambda keeps ended tasks: it may have run already; "+
		"a retry runs it", max(l.Retention, task.EndedMin))}
	payload, err := r.Payload(ctx, t)
	gone := errors.Is(err, store.ErrNotFound)
	if err != nil && !gone {
		return nil, nil, err
	}
	row = rejectedTask(r.BufferedTask(l, t, payload), result{rejected, ReasonStale, why})
	if gone {
		row.body = nil
	}
	return row, why, nil
}
