package inbound

import (
	"context"
	"errors"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// dropRowsMax is about how many tasks are dropped in one write.
const dropRowsMax = 500

// AnyLive reports whether any task of some partitions lives.
func (in *Inbound) AnyLive(ctx context.Context, some []task.Partition) (bool, error) {
	live, err := in.live(ctx, some, 1)
	return len(live) > 0, err
}

// DropLive ends the waiting tasks of some partitions of a lambda that is being deleted, and asks running ones
// to stop. It returns how many ended, how many were told to stop, and the partitions of all of them; none
// only if no task lives.
func (in *Inbound) DropLive(ctx context.Context, l *catalog.Entry, some []task.Partition) (ended, told int, of []task.Partition, err error) {
	live, err := in.live(ctx, some, dropRowsMax/len(some))
	if err != nil || len(live) == 0 {
		return 0, 0, nil, err
	}
	for i := range live {
		if p := live[i].Partition; !slices.Contains(of, p) {
			of = append(of, p)
		}
	}
	ended, told, err = in.drop(ctx, l, live)
	return ended, told, of, err
}

// live returns live tasks of some partitions, about limit of each at most; none only if there is none.
func (in *Inbound) live(ctx context.Context, some []task.Partition, limit int) ([]found, error) {
	each := make([][]found, len(some))
	group, ctx := errgroup.WithContext(ctx)
	for i, p := range some {
		group.Go(func() (err error) {
			each[i], err = in.liveIn(ctx, p, limit)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return slices.Concat(each...), nil
}

// liveIn returns live tasks of a partition, up to limit; none only if there is none. It deletes the leftover
// rows that it meets, since nobody goes over the partitions of a lambda that is being deleted. A task that
// moves may come twice.
func (in *Inbound) liveIn(ctx context.Context, p task.Partition, limit int) ([]found, error) {
	var after store.WakeKey
	for {
		wakeups, err := in.Store.ScanSchedule(ctx, p, after, math.MaxInt64, limit)
		if err != nil {
			return nil, err
		}
		all, err := in.tasksBehind(ctx, wakeups)
		if err != nil {
			return nil, err
		}
		live := make([]found, 0, len(all))
		var leftovers []store.Op
		for i := range all {
			if b := &all[i]; !b.ID.IsZero() && !b.State.IsEnd() {
				live = append(live, b.found)
			}
			if all[i].conclusion == store.Leftover {
				leftovers = append(leftovers, store.Remove(&wakeups[i]))
			}
		}
		if len(leftovers) > 0 {
			_, _ = in.Store.Apply(ctx, leftovers) // the next round deletes what is left
		}
		if len(live) > 0 || len(wakeups) < limit {
			return live, nil
		}
		after, limit = store.KeyOf(&wakeups[len(wakeups)-1]), listRowsRead
	}
}

// drop ends waiting tasks in one write and asks running ones to stop. It returns how many ended and how many
// were told to stop. A task that moved in between is met again in the next round.
func (in *Inbound) drop(ctx context.Context, entry *catalog.Entry, live []found) (ended, told int, err error) {
	now := in.Clock.Now()
	ops := make([]store.Op, 0, 2*len(live))
	nexts := make([]task.Task, 0, len(live))
	firsts := make([]int, 0, len(live)) // index of the first op of each, which decides
	for i := range live {
		t := &live[i]
		next, err := dropped(t, now, entry.PolicyFor(&t.Task))
		if err != nil || t.CancelRequested {
			continue
		}
		nexts, firsts = append(nexts, next), append(firsts, len(ops))
		ops = append(ops, in.endingWrites(t, next)...)
	}
	outcomes, err := in.Store.Apply(ctx, ops)
	if err != nil {
		return 0, 0, err
	}
	gone := make([]task.Task, 0, len(nexts))
	for i := range nexts {
		switch t := &nexts[i]; {
		case outcomes[firsts[i]] != nil:
		case t.State.IsEnd():
			gone = append(gone, *t)
		default:
			told++
			in.Workers.CancelRequested(t)
		}
	}
	if len(gone) > 0 {
		in.ended(gone)
	}
	return len(gone), told, nil
}

// dropped returns a task after it was dropped, or told to stop if it runs.
func dropped(t *found, now task.Instant, policy task.Policy) (task.Task, error) {
	row, event := t.Task, task.Event{Kind: task.Drop}
	switch {
	case t.waiting:
		row = row.Undispatched()
	case row.State.IsRunning():
		event.Kind = task.Cancel
	}
	next, _, err := row.Apply(event, now, policy)
	return next, err
}

// ExpireRows ends tasks of a set that no worker has as expired, in one write.
func (in *Inbound) ExpireRows(ctx context.Context, rows []Row) []Changed {
	changed := in.endRows(ctx, rows, task.Expire)
	for i := range changed {
		for tries := 0; isMoving(changed[i].Err) && tries < casTriesMax; tries++ {
			changed[i] = in.expireAgain(ctx, &rows[i])
		}
		switch {
		case isMoving(changed[i].Err):
			changed[i].Err = errMoving
		case errors.Is(changed[i].Err, task.ErrNoEdge):
			changed[i].Err = api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "a worker has the task, or it may be on the queue of its lambda: only what waits can expire")
		}
	}
	return changed
}

// expireAgain expires a task that moved.
func (in *Inbound) expireAgain(ctx context.Context, row *Row) Changed {
	t, err := in.find(ctx, task.TokenOf(&row.Task))
	switch {
	case err != nil:
		return Changed{Err: err}
	case t.State == task.Expired:
		return Changed{Outcome: t.State.String()} // by a write whose answer was lost
	}
	return in.endRows(ctx, []Row{t}, task.Expire)[0]
}
