package ingest

import (
	"context"
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Tasks in the buffer were acknowledged, so a deletion of their lambda must not lose them unseen: a deletion
// that drops no tasks is cancelled when one comes out, and one that drops tasks drops these too, also when
// the lambda is gone.

// decision is what to do with the arrivals of a lambda that is being deleted or gone.
type decision struct {
	drop   bool
	policy task.Policy // for dropped tasks
	err    error       // of arrivals that are not dropped
}

// settleDeleted drops arrivals whose lambda was deleted with its tasks, and cancels deletions that drop none.
// A task that a person retries is never dropped.
func (in *Ingest) settleDeleted(ctx context.Context, b *intake.Batch, arrivals []arrival) {
	decisions := map[uint32]decision{}
	var drops []store.Op
	var of []*intake.Incoming
	for i := range arrivals {
		c := &b.Tasks[i]
		deleted, is := errors.AsType[*deletedError](c.Err)
		if !is || arrivals[i].manual {
			continue
		}
		lambda := deleted.token.Partition.Lambda
		if _, made := decisions[lambda]; !made {
			decisions[lambda] = in.decide(ctx, deleted)
		}
		d := decisions[lambda]
		if c.Err = d.err; !d.drop {
			continue
		}
		t := intake.Buffered(deleted.token)
		t.State = task.Scheduled
		if t, _, c.Err = t.Apply(task.Event{Kind: task.Drop}, b.Now, d.policy); c.Err == nil {
			c.Exists = true
			drops, of = append(drops, store.Op{Kind: store.PutTask, Task: t}), append(of, c)
		}
	}
	if len(drops) == 0 {
		return
	}
	for k, err := range store.Outcomes(ctx, b.Store, drops) {
		if !errors.Is(err, store.ErrConflict) { // a conflict: the task was dropped before
			of[k].Err = err
		}
	}
	if in.Hooks.Ended != nil {
		ids := make([]task.ID, len(drops))
		for k := range drops {
			ids[k] = drops[k].Task.ID
		}
		in.Hooks.Ended(ids)
	}
}

// decide decides what to do with the arrivals of a lambda, of which it first reads the newest state: if the deletion was
// cancelled, tasks that were acknowledged after that must not be dropped.
func (in *Ingest) decide(ctx context.Context, e *deletedError) decision {
	if e.lambda != nil {
		if err := in.Catalog.Refresh(ctx); err != nil {
			return decision{err: fmt.Errorf("%w: %w", store.ErrUnknown, err)}
		}
	}
	l := in.Catalog.ByRef(e.token.Partition.Lambda)
	switch {
	case l == nil:
		return in.decideGone(ctx, e.token)
	case l.Deleting && l.Dropping:
		return decision{drop: true, policy: l.PolicyFor(&task.Task{})}
	case l.Deleting:
		if err := in.Catalog.Unmark(ctx, l); err != nil && !errors.Is(err, catalog.ErrUnknown) {
			return decision{err: fmt.Errorf("%w: %w", store.ErrUnknown, err)}
		}
	}
	return decision{err: &deletedError{e.token, l}} // the lambda is there: the task is taken when it comes again
}

// decideGone decides what to do with the arrivals of a lambda that no longer exists.
func (in *Ingest) decideGone(ctx context.Context, token task.Token) decision {
	dropped, err := in.Catalog.DroppedLambda(ctx, token.Partition.Lambda)
	switch {
	case err != nil:
		return decision{err: fmt.Errorf("%w: %w", store.ErrUnknown, err)}
	case dropped == nil:
		return decision{err: &deletedError{token: token}}
	}
	return decision{drop: true, policy: task.Policy{Retention: dropped.Retention}}
}
