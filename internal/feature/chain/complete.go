package chain

import (
	"context"
	"fmt"
	"log/slog"

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
	if row.ID.IsZero() || !row.State.IsEnd() || !row.HasFollowups() {
		return nil
	}
	wakeups, err := k.Wakeups(ctx, []store.WakeKey{store.KeyOf(row)})
	if err != nil {
		return fmt.Errorf("look for the wake-up row of task %s: %w", row.ID, err)
	}
	if wakeups[0].ID.IsZero() {
		return nil
	}
	all, err := k.followups(ctx, row)
	if err != nil {
		return err
	}
	return k.put(ctx, row, all, true)
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
