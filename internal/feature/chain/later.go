package chain

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// pendingMax bounds the ends that are completed later by this process. Others wait for a full scan of
	// their partition.
	pendingMax = 10_000
	// pendingEvery is how often a process tries to complete them.
	pendingEvery = time.Second
)

// pendingBackoff are the pauses while that fails.
var pendingBackoff = backoff.Policy{Min: pendingEvery, Max: 30 * time.Second} //nolint:gochecknoglobals // a policy

// later notes an end that is to be completed.
func (k *Keeper) later(id task.ID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.pending) < pendingMax {
		k.pending[id] = struct{}{}
	}
}

// Run completes ends whose follow-ups could not be put at once, until ctx ends.
func (k *Keeper) Run(ctx context.Context) error {
	for failures := 0; clock.Sleep(ctx, k.Clock, k.pauseAfter(failures)) == nil; failures++ {
		if k.completePending(ctx) == nil {
			failures = -1
		}
	}
	return nil
}

func (k *Keeper) pauseAfter(failures int) time.Duration {
	if failures == 0 {
		return pendingEvery
	}
	return pendingBackoff.Pause(k.Clock, failures-1)
}

func (k *Keeper) completePending(ctx context.Context) error {
	k.mu.Lock()
	ids := make([]task.ID, 0, len(k.pending))
	for id := range k.pending {
		ids = append(ids, id)
	}
	k.mu.Unlock()
	if len(ids) == 0 {
		return nil
	}
	rows, err := k.Tasks(ctx, ids)
	if err != nil {
		return err
	}
	for i, id := range ids {
		switch one := k.finish(ctx, &rows[i]); {
		case one == nil:
		case store.IsUnreadable(one): // at each try; the wake-up row stays for whoever can read it
			k.Log.ErrorContext(ctx, "follow-ups not created: they cannot be read", slog.String("task_id", id.String()), slog.Any("error", one))
		default:
			err = errors.Join(err, one)
			continue
		}
		k.mu.Lock()
		delete(k.pending, id)
		k.mu.Unlock()
	}
	return err
}

// finish completes an end and deletes its wake-up row. The outcome of the first try may be unknown, so the
// scheduler is told in any case.
func (k *Keeper) finish(ctx context.Context, row *task.Task) error {
	if row.ID.IsZero() || !row.State.IsEnd() || !row.HasFollowups() {
		return nil
	}
	all, err := k.followups(ctx, row)
	if err != nil {
		return err
	}
	if err := k.Complete(ctx, row); err != nil {
		return err
	}
	all = slices.DeleteFunc(all, isKeyed) // of which the scheduler is told when they take their key
	keys := make([]store.WakeKey, len(all))
	for i := range all {
		keys[i] = store.KeyOf(&all[i].task)
	}
	there, err := k.Wakeups(ctx, keys)
	if err != nil {
		return err
	}
	for i := range there {
		if !there[i].ID.IsZero() {
			k.tell(all[i : i+1])
		}
	}
	_, err = k.Store.Apply(ctx, []store.Op{store.Remove(row)})
	return err
}

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

// noteEnd notes in a task that starts anew the end from which it does.
func (k *Keeper) noteEnd(ctx context.Context, ended, next *task.Task) error {
	end := task.Earlier{Round: ended.Chain.Round, Ended: ended.Ended, Succeeded: ended.Succeeded(), Paused: ended.Chain.Paused}
	if ended.HasAdded() {
		all, f, err := k.Followups(ctx, ended)
		if err != nil {
			return err
		}
		for i := range all {
			one := &all[i]
			if isAdded := int(one.Index) >= len(On(f, one.Edge))-int(ended.Chain.Added[one.Edge-task.Then]); isAdded && !one.Task.ID.IsZero() && len(end.Added) < task.EarlierAddedMax {
				end.Added = append(end.Added, task.Added{Edge: one.Edge, Index: one.Index, Task: task.LinkTo(&one.Task)})
			}
		}
	}
	chain := *next.Chain
	chain.Earlier = append(slices.Clone(chain.Earlier[max(0, len(chain.Earlier)-task.EarlierMax+1):]), end)
	next.Chain = &chain
	return nil
}

// EarlierEnd is a task as it had ended before it was redriven, with what followed that.
type EarlierEnd struct {
	Ended     task.Task
	Followups []Followup
}

// Earlier returns what followed the ends of a task from which it was redriven, the oldest end first. A
// follow-up whose lambda was deleted is left out. Not all of them need be there any more.
func (k *Keeper) Earlier(ctx context.Context, t *task.Task) ([]EarlierEnd, error) {
	if t.Chain == nil || len(t.Chain.Earlier) == 0 {
		return nil, nil
	}
	encoded, err := encodedOf(ctx, k.Store, t)
	if err != nil {
		return nil, err
	}
	branches, err := split(encoded)
	if err != nil {
		return nil, err
	}
	branches = withoutAdded(branches, t.Chain)
	ends := make([]EarlierEnd, len(t.Chain.Earlier))
	for i := range ends {
		e, end := &t.Chain.Earlier[i], &ends[i]
		end.Ended = t.EarlierEnd(e)
		for at := range branches {
			if !end.Ended.Follows(branches[at].place.Edge) {
				continue
			}
			one, err := k.build(ctx, &end.Ended, &branches[at])
			if err != nil {
				return nil, err
			}
			if one != nil {
				end.Followups = append(end.Followups, Followup{one.place, one.task})
			}
		}
		for _, a := range e.Added {
			row := task.Task{ID: a.Task.ID, Partition: a.Task.Partition, Due: a.Task.Due, Wake: a.Task.Due, WakeRow: task.WakeRow{At: a.Task.Due}}
			end.Followups = append(end.Followups, Followup{Place{a.Edge, a.Index}, row})
		}
	}
	return ends, nil
}

// withoutAdded leaves out the branches that the handler added, which are the last ones on their edge.
func withoutAdded(all []branch, c *task.Chain) []branch {
	var counts [task.Finally + 1]uint32
	for i := range all {
		counts[all[i].place.Edge]++
	}
	return slices.DeleteFunc(all, func(b branch) bool {
		e := b.place.Edge
		return b.place.Index >= counts[e]-min(counts[e], c.Added[e-task.Then])
	})
}
