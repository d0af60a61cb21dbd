package inbound

import (
	"context"
	"errors"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

// Reschedule moves tasks that no worker has to another time, or has them start now.
func (in *Inbound) Reschedule(ctx context.Context, r *kinesinv1.RescheduleRequest) (*kinesinv1.ChangeResponse, error) {
	ids, err := in.withKeys(ctx, r.Ids, r.Keys)
	if err != nil {
		return nil, err
	}
	b, end := in.Begin(0)
	defer end()
	_, due, err := dueOf(b, r.Due, r.Delay)
	if err != nil {
		return nil, err
	}
	return in.changeAll(ctx, kinesinv1connect.TaskServiceRescheduleProcedure, ids, r.IfSeq, task.ID{},
		func(t *task.Task, l *catalog.Entry) (task.Task, []byte, error) {
			next, err := in.rescheduled(t, l, due)
			return next, nil, err
		})
}

// rescheduled returns a task with another due time. An expiry that follows from its lambda moves along; one
// that was asked for does not, since it says until when the task is of use.
func (in *Inbound) rescheduled(t *task.Task, l *catalog.Entry, due task.Instant) (task.Task, error) {
	if t.Chain != nil && t.Chain.Paused && !t.State.IsEnd() && !t.State.IsRunning() {
		return *t, refusal.Invalid("the chain of the task is paused, and no task of it starts until then: resume the chain first")
	}
	next, _, err := t.Apply(task.Event{Kind: task.Reschedule, Due: due}, in.Clock.Now(), l.PolicyFor(t))
	if err != nil || t.StartBefore.IsZero() {
		return next, err
	}
	if l.StartWithin > 0 && t.StartBefore == t.Due.Add(l.StartWithin) {
		next.StartBefore = due.Add(l.StartWithin)
	}
	if next.StartBefore <= due {
		return next, refusal.Invalid("the task expires at %s, which is not after the new due time; change its start_before first",
			next.StartBefore.Time().Format(timeForm))
	}
	return next, nil
}

// RescheduleRows moves tasks of a set that no worker has, in one write, each to the time that to returns. It
// asks again for a task that moved between the read and the write. An error of to refuses the task. A time in
// the past means now, and a task that is due then already stays as it is.
func (in *Inbound) RescheduleRows(ctx context.Context, rows []Row, to func(t *task.Task) (task.Instant, error)) []Changed {
	b, end := in.Begin(0)
	defer end()
	now := task.FromMillis(b.Now.Millis())
	changed := in.changeRows(ctx, rows, "rescheduled", func(t *task.Task, l *catalog.Entry) (next task.Task, _ []byte, err error) {
		due, err := to(t)
		switch {
		case err != nil:
			return next, nil, err
		case due == t.Due || max(due, t.Due, t.WakeRow.At) <= now:
			return next, nil, errAsItIs
		}
		if err := b.CheckHorizon(due); err != nil {
			return next, nil, err
		}
		next, err = in.rescheduled(t, l, max(due, now))
		return next, nil, err
	})
	for i := range changed {
		if errors.Is(changed[i].Err, errAsItIs) {
			changed[i] = Changed{Outcome: Unchanged}
		}
	}
	return changed
}

// Unchanged is the outcome of a task that was as the job wants it already.
const Unchanged = "unchanged"

var errAsItIs = errors.New("the task is due then already")

// timeForm is RFC 3339 with milliseconds.
const timeForm = "2006-01-02T15:04:05.000Z07:00"
