package inbound

import (
	"context"
	"errors"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// PauseInChain has a task wait until then for the resumption of its chain or, with no time, go on as if
// there had been no pause. The follow-ups of a task that runs wait instead. changed is false of a task that
// was so already, or has ended.
func (in *Inbound) PauseInChain(ctx context.Context, id string, until task.Instant) (changed bool, err error) {
	return in.changeInChain(ctx, id, func(t *task.Task, l *catalog.Entry) (next task.Task, err error) {
		paused := t.Chain != nil && t.Chain.Paused
		switch {
		case paused == !until.IsZero():
			return next, errDone
		case t.State.IsRunning():
			next = *t
			next.Chain = pausedChain(t.Chain, until, 0)
			return next, nil
		}
		return in.pausedUntil(t, until, l.PolicyFor(t))
	})
}

// ExtendInChain has a task expire then, unless it has started, and so those that come later in its chain.
// changed is false of a task that was so already, or has ended.
func (in *Inbound) ExtendInChain(ctx context.Context, id string, startBefore task.Instant) (changed bool, err error) {
	return in.changeInChain(ctx, id, func(t *task.Task, l *catalog.Entry) (next task.Task, err error) {
		next = *t
		waits := !t.State.IsRunning() && t.FirstStarted.IsZero() && l.Mode == task.Managed
		if t.Chain != nil && t.Chain.StartBefore == startBefore && (!waits || t.StartBefore == startBefore) {
			return next, errDone
		}
		if waits {
			if due := t.PlannedDue(); startBefore <= due {
				return next, refusal.Invalid("start_before %s is not after the due time %s", startBefore.Time().Format(timeForm), due.Time().Format(timeForm))
			}
			if next, _, err = t.Apply(task.Event{Kind: task.Update}, in.Clock.Now(), l.PolicyFor(t)); err != nil {
				return next, err
			}
			next.StartBefore = startBefore
		}
		chain := task.Chain{}
		if t.Chain != nil {
			chain = *t.Chain
		}
		chain.StartBefore = startBefore
		next.Chain = &chain
		return next, nil
	})
}

// errDone says that a task of a chain is as it was to be.
var errDone = errors.New("nothing to change")

// changeInChain changes a task of a chain unless it has ended. Of one that a worker has, only its chain.
func (in *Inbound) changeInChain(ctx context.Context, id string, edit func(t *task.Task, l *catalog.Entry) (task.Task, error)) (changed bool, err error) {
	for range casTriesMax {
		token, err := in.Open(ctx, id)
		if err != nil {
			return false, api.ErrorOf(noSuchTask())
		}
		t, err := in.findStored(ctx, token)
		if err != nil {
			return false, err
		}
		l := in.Catalog.ByRef(t.Partition.Lambda)
		if t.State.IsEnd() || l == nil {
			return false, nil
		}
		if t.State.IsRunning() {
			var next task.Task
			if next, err = edit(&t.Task, l); err == nil {
				next.Seq = t.Seq + 1
				err = in.change(ctx, store.Change(next, false, false))[0]
			}
		} else {
			_, err = in.changeTask(ctx, id, t.Seq, trial{}, func(t *task.Task, l *catalog.Entry) (task.Task, []byte, error) {
				next, err := edit(t, l)
				return next, nil, err
			})
		}
		if err == nil || errors.Is(err, errDone) {
			return err == nil, nil
		}
		if moved := errors.Is(err, store.ErrConflict) || errors.Is(err, api.ErrStaleSeq) || errors.Is(err, api.ErrTooLate); !moved {
			return false, err
		}
	}
	return false, errMoving
}

// pausedUntil returns a waiting task as paused until then, or as resumed.
func (in *Inbound) pausedUntil(t *task.Task, until task.Instant, p task.Policy) (task.Task, error) {
	due := until
	if until.IsZero() {
		due = max(t.Chain.PausedDue, task.FromMillis(in.Clock.Now().Millis()))
	}
	next, _, err := t.Apply(task.Event{Kind: task.Reschedule, Due: due}, in.Clock.Now(), p)
	due = t.Due
	if t.State == task.RetriableFailure {
		due = max(due, t.Wake) // the wake-up of others only guards their dispatch
	}
	next.Chain = pausedChain(t.Chain, until, due)
	return next, err
}

func pausedChain(c *task.Chain, until, due task.Instant) *task.Chain {
	next := task.Chain{}
	if c != nil {
		next = *c
	}
	next.Paused, next.PausedDue = !until.IsZero(), 0
	if next.Paused {
		next.PausedDue = due
	}
	return &next
}
