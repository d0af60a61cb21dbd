package inbound

import (
	"context"
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Tasks were acknowledged before they come out of the buffer, so whoever deletes their lambda meanwhile hears
// of them: a deletion that is to drop nothing is taken back, and for one that drops tasks these are dropped
// too, also when the lambda is gone by then.

// deletedError is an arrival whose lambda is being deleted, or is gone, or is not known yet.
type deletedError struct {
	token  task.Token
	lambda *catalog.Entry // nil: gone, or not known yet
}

func (e *deletedError) Error() string {
	if e.lambda != nil {
		return fmt.Sprintf("%v: %s", catalog.ErrDeleting, e.lambda.Name)
	}
	return fmt.Sprintf("%v: the one it was accepted for was deleted, or was created just now; create one of its name", catalog.ErrUnknown)
}

// Is makes it one of the sentinels of the catalog.
func (e *deletedError) Is(target error) bool {
	if e.lambda != nil {
		return target == catalog.ErrDeleting
	}
	return target == catalog.ErrUnknown
}

// lookedUp is what is to become of the arrivals of a lambda that is being deleted or gone.
type lookedUp struct {
	drop   bool
	policy task.Policy // for what is dropped
	err    error       // why they come again; nil: as it was said
}

// settleDeleted decides about the arrivals whose lambda is being deleted or gone. What a person retries is
// never dropped.
func (b *intake) settleDeleted(ctx context.Context, arrivals []arrival) {
	known := map[uint32]lookedUp{}
	var drops []store.Op
	var of []*incoming
	for i := range arrivals {
		c := &b.tasks[i]
		deleted, is := errors.AsType[*deletedError](c.err)
		if !is || arrivals[i].forced {
			continue
		}
		ref := deleted.token.Partition.Lambda
		if _, looked := known[ref]; !looked {
			known[ref] = b.lookUpDeleted(ctx, deleted)
		}
		switch l := known[ref]; {
		case l.err != nil:
			c.err = l.err
		case l.drop:
			t := acceptedTask(deleted.token)
			t.State = task.Scheduled
			if t, _, c.err = t.Apply(task.Event{Kind: task.Drop}, b.now, l.policy); c.err == nil {
				c.known = true
				drops, of = append(drops, store.Op{Kind: store.PutTask, Task: t}), append(of, c)
			}
		}
	}
	if len(drops) == 0 {
		return
	}
	outcomes, err := b.Store.Apply(ctx, drops)
	for k, c := range of {
		if outcome := outcomeOf(outcomes, k, err); !errors.Is(outcome, store.ErrConflict) { // then it came before
			c.err = outcome
		}
	}
	b.Ended()
}

// lookUpDeleted reads again what is known of the lambda: what was acknowledged after a deletion was taken
// back is not dropped.
func (b *intake) lookUpDeleted(ctx context.Context, e *deletedError) lookedUp {
	if e.lambda != nil {
		if err := b.Catalog.Refresh(ctx); err != nil {
			return lookedUp{err: fmt.Errorf("%w: %w", store.ErrUnknown, err)}
		}
	}
	switch l := b.Catalog.ByRef(e.token.Partition.Lambda); {
	case l == nil:
		return b.lookUpGone(ctx, e.token)
	case l.Deleting && l.Dropping:
		return lookedUp{drop: true, policy: l.PolicyFor(&task.Task{})}
	case l.Deleting:
		if err := b.Catalog.Unmark(ctx, l); err != nil && !errors.Is(err, catalog.ErrUnknown) {
			return lookedUp{err: fmt.Errorf("%w: %w", store.ErrUnknown, err)}
		}
		return lookedUp{err: &deletedError{e.token, l}} // it is taken when it comes again
	default:
		return lookedUp{err: &deletedError{e.token, l}} // it is not being deleted any more
	}
}

// lookUpGone is lookUpDeleted for a lambda that is not there.
func (b *intake) lookUpGone(ctx context.Context, token task.Token) lookedUp {
	dropped, err := b.Catalog.DroppedLambda(ctx, token.Partition.Lambda)
	switch {
	case err != nil:
		return lookedUp{err: fmt.Errorf("%w: %w", store.ErrUnknown, err)}
	case dropped == nil:
		return lookedUp{err: &deletedError{token: token}}
	}
	return lookedUp{drop: true, policy: task.Policy{Retention: dropped.Retention}}
}
