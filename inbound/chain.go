package inbound

import (
	"context"
	"errors"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// PauseInChain has a task wait until then for the resumption of its chain or, with no time, go on as if
// there had been no pause. The follow-ups of a task that runs wait instead. changed is false of a task that
// was so already, or has ended.
func (in *Inbound) PauseInChain(ctx context.Context, id string, until task.Instant) (changed bool, err error) {
	for range casTriesMax {
		token, err := in.open(ctx, id)
		if err != nil {
			return false, api.ErrorOf(noSuchTask())
		}
		t, err := in.findStored(ctx, token)
		if err != nil {
			return false, err
		}
		if paused := t.Chain != nil && t.Chain.Paused; t.State.IsEnd() || paused == !until.IsZero() {
			return false, nil
		}
		if t.State.IsRunning() {
			err = in.markPaused(ctx, &t, until)
		} else {
			_, err = in.changeTask(ctx, id, t.Seq, trial{}, func(t *task.Task, l *catalog.Entry) (task.Task, []byte, error) {
				next, err := in.pausedUntil(t, until, l.PolicyFor(t))
				return next, nil, err
			})
		}
		if err == nil {
			return true, nil
		}
		if moved := errors.Is(err, store.ErrConflict) || errors.Is(err, api.ErrStaleSeq) || errors.Is(err, api.ErrTooLate); !moved {
			return false, err
		}
	}
	return false, errMoving
}

// markPaused notes in the row of a task that a worker has that what follows it waits, or does not any more.
func (in *Inbound) markPaused(ctx context.Context, t *found, until task.Instant) error {
	next := t.Task
	next.Seq++
	next.Chain = pausedChain(t.Chain, until, 0)
	return in.change(ctx, store.Change(next, false, false))[0]
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
