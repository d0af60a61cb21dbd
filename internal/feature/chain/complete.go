package chain

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// isLeftover reports whether an op deletes a wake-up row that is thought to be of no use, of a task that
// something may follow.
func isLeftover(op *store.Op) bool {
	return op.Kind == store.DeleteWakeup && op.Lazy && !op.Follows && !op.Alone
}

// Complete puts the follow-ups of a task that has ended, unless all are put: then its wake-up row is gone.
// It is called before the wake-up row is deleted as a leftover, and before the ended row is replaced.
func (k *Keeper) Complete(ctx context.Context, row *task.Task) error {
	return k.completeAll(ctx, []*task.Task{row})
}

// completeAll is Complete for several tasks. It may change the list.
func (k *Keeper) completeAll(ctx context.Context, rows []*task.Task) error {
	rows = slices.DeleteFunc(rows, func(row *task.Task) bool { return row.ID.IsZero() || !row.State.IsEnd() || !row.HasFollowups() })
	if len(rows) == 0 {
		return nil
	}
	keys := make([]store.WakeKey, len(rows))
	for i := range rows {
		keys[i] = store.KeyOf(rows[i])
	}
	wakeups, err := k.Wakeups(ctx, keys)
	if err != nil {
		return fmt.Errorf("look for the wake-up rows of task %s and %d others: %w", rows[0].ID, len(rows)-1, err)
	}
	for i := range rows {
		if wakeups[i].ID.IsZero() {
			continue
		}
		all, err := k.followups(ctx, rows[i])
		if err == nil {
			err = k.put(ctx, rows[i], all, true)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// CompleteBy is Complete with follow-ups that take their keys by take.
func (k *Keeper) CompleteBy(ctx context.Context, row *task.Task, take intake.Taker) error {
	return k.Taking(take).Complete(ctx, row)
}

// completeLeftovers completes the ends of which a call deletes the wake-up row as a leftover. It returns the
// tasks whose row has to stay.
func (k *Keeper) completeLeftovers(ctx context.Context, ops []store.Op) (keeps map[task.ID]bool) {
	var ids []task.ID
	for i := range ops {
		if isLeftover(&ops[i]) {
			ids = append(ids, ops[i].Task.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	rows, err := k.Tasks(ctx, ids)
	keeps = map[task.ID]bool{}
	for i, id := range ids {
		if err != nil {
			keeps[id] = true
			continue
		}
		if one := k.Complete(ctx, &rows[i]); one != nil {
			k.Log.WarnContext(ctx, "follow-ups not created yet", slog.String("task_id", id.String()), slog.Any("error", one))
			keeps[id] = true
		}
	}
	return keeps
}
