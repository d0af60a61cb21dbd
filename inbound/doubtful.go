package inbound

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// doubtfulRowsMax bounds how many tasks are set aside together, with their payloads.
const doubtfulRowsMax = 16

// SetAside sets tasks aside that wake-up rows hold and that may have run though no row tells. It returns how
// many, from the first on. They are kept as if they had come through the buffer, so that a retry takes them
// in.
func (in *Inbound) SetAside(ctx context.Context, tasks []task.Task) (n int, err error) {
	for chunk := range slices.Chunk(tasks, doubtfulRowsMax) {
		rows := make([]*asideRow, len(chunk))
		whys := make([]error, len(chunk))
		for i := range chunk {
			if rows[i], whys[i], err = in.doubtful(ctx, &chunk[i]); err != nil {
				return n, err
			}
		}
		kept, err := in.aside.putAll(ctx, rows)
		for i := range kept {
			if in.Hooks.SetAside != nil {
				in.Hooks.SetAside(ctx, rows[i].Reason, whys[i])
			}
		}
		if n += kept; err != nil {
			return n, err
		}
	}
	return n, nil
}

// doubtful is a task to be set aside, and why. One whose payload is gone by now can only be deleted.
func (in *Inbound) doubtful(ctx context.Context, t *task.Task) (row *asideRow, why, err error) {
	l := in.Catalog.ByRef(t.Partition.Lambda)
	if l == nil || int(t.Partition.Priority) >= len(l.Priorities) {
		return nil, nil, fmt.Errorf("task %s: %w", t.ID, catalog.ErrUnknown)
	}
	why = &staleError{fmt.Sprintf("no scheduler ran for longer than %v, for which its lambda keeps what ended: it may have run, and no row tells; "+
		"a retry runs it", max(l.Retention, task.EndedMin))}
	payload, err := in.payload(ctx, t)
	gone := errors.Is(err, store.ErrNotFound)
	if err != nil && !gone {
		return nil, nil, err
	}
	row = refusedTask(in.buffered(l, t, payload), fate{rejected, ReasonStale, why})
	if gone {
		row.body = nil
	}
	return row, why, nil
}
