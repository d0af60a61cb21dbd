package chain

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

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
