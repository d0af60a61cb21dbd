package chain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// A follow-up with a key becomes the task of that key. Its id says nothing of its parent then, so that an
// ended row which refused a second start may be replaced by another task of the key. Therefore who repeats
// the put counts each task that took the key after the end as the follow-up, or as the one that held it back.

// changeTriesMax bounds how often the row of a parent is read again that changes meanwhile.
const changeTriesMax = 5

func isKeyed(f *followup) bool { return f.keyed != nil }

// takeAll has follow-ups with keys take them, and notes in the row of their parent which were held.
func (k *Keeper) takeAll(ctx context.Context, ended *task.Task, all []*followup, again bool) error {
	if k.takeKey == nil {
		return intake.ErrTakesKey
	}
	var held []task.Held
	for i := range all {
		f := all[i]
		if f.keyed == nil || ended.Chain.HolderOf(f.place.Edge, f.place.Index) != (task.Link{}) {
			continue
		}
		holder, err := k.take(ctx, ended, f, again)
		if err != nil {
			return fmt.Errorf("create follow-up %s by its key: %w", f.place, err)
		}
		if holder != nil {
			k.Log.WarnContext(ctx, "follow-up not created: another task holds its key", slog.String("task_id", ended.ID.String()),
				slog.String("place", f.place.String()), slog.String("holder", holder.ID.String()))
			held = append(held, task.Held{Edge: f.place.Edge, Index: f.place.Index, Holder: task.LinkTo(holder)})
		}
	}
	return k.noteHeld(ctx, ended, held)
}

// take has a follow-up take its key. It returns the task that holds it; nil: the follow-up has it, or had it.
func (k *Keeper) take(ctx context.Context, ended *task.Task, f *followup, again bool) (holder *task.Task, err error) {
	rows, err := k.Tasks(ctx, []task.ID{f.task.ID})
	if err != nil {
		return nil, err
	}
	row := &rows[0]
	switch {
	case row.ID.IsZero(), row.IsBare():
	case row.IsFollowup(ended, f.place.Edge, f.place.Index):
		return nil, nil //nolint:nilnil // it is there
	case again && row.Life >= uint64(ended.Ended): // the key was used since, perhaps by the follow-up first
		return row, nil
	}
	if holder, err = k.takeKey(ctx, f.task, f.keyed); errors.Is(err, intake.ErrTakesKey) {
		return row, nil // two tasks that follow each other by key would wait for each other forever
	}
	return holder, err
}

// noteHeld notes in the row of a task that has ended which of its follow-ups were not created.
func (k *Keeper) noteHeld(ctx context.Context, ended *task.Task, held []task.Held) error {
	for range changeTriesMax {
		if len(held) == 0 {
			return nil
		}
		rows, err := k.Tasks(ctx, []task.ID{ended.ID})
		if err != nil {
			return err
		}
		next := rows[0]
		if next.ID.IsZero() || next.Life != ended.Life || !next.State.IsEnd() || next.Chain == nil || next.Chain.Round != ended.Chain.Round {
			return nil // nobody can see it any more
		}
		chain := *next.Chain
		chain.Held = slices.Concat(chain.Held, held)
		chain.Held = chain.Held[:min(len(chain.Held), task.HeldMax)]
		next.Chain = &chain
		next.Seq++
		outcomes, err := k.Store.Apply(ctx, []store.Op{{Kind: store.ReplaceTask, Task: next, From: rows[0].Seq, Amends: true}})
		if err == nil {
			err = outcomes[0]
		}
		if !errors.Is(err, store.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("%w: the row of task %s changes all the time", store.ErrUnknown, ended.ID)
}
