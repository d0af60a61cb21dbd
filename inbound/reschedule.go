package inbound

import (
	"context"

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
	_, due, err := dueOf(b, r.DueMicros, r.DelayMicros)
	if err != nil {
		return nil, err
	}
	return in.changeAll(ctx, kinesinv1connect.TaskServiceRescheduleProcedure, ids, r.IfSeq,
		func(t *task.Task, l *catalog.Entry) (task.Task, []byte, error) {
			next, err := in.rescheduled(t, l, due)
			return next, nil, err
		})
}

// rescheduled returns a task with another due time. An expiry that follows from its lambda moves along; one
// that was asked for does not, since it says until when the task is of use.
func (in *Inbound) rescheduled(t *task.Task, l *catalog.Entry, due task.Instant) (task.Task, error) {
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

// timeForm is RFC 3339 with milliseconds.
const timeForm = "2006-01-02T15:04:05.000Z07:00"
