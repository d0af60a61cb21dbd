package inbound

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/task"
)

// admit checks a task of a call, gives it an id and plans its rows. take asks the admission quota of a lambda for one task.
func admit(ctx context.Context, b *intake.Batch, c *intake.Incoming, take func(*catalog.Entry) error) error {
	l, err := b.FindLambda(ctx, c.Item.Lambda)
	if err != nil {
		return err
	}
	requested, due := c.Due, c.Due
	if due.IsZero() {
		if requested, due, err = dueOf(b, c.Item.Due, c.Item.Delay); err != nil {
			return err
		}
	}
	t, err := b.Build(l, c.Item)
	if err != nil {
		return err
	}
	t.Due = due
	if err := b.SetExpiry(l, t, c.Item); err != nil {
		return err
	}
	t.Member, t.GroupEnd = c.Member, c.After
	if err := identify(b, t, l, c.Item); err != nil {
		return err
	}
	if err := b.Follow(ctx, c, l, t); err != nil {
		return err
	}
	if t.Key != "" && t.Chain != nil {
		t.Digest = intake.Digest(t, c.Item.Payload)
	}
	if err := take(l); err != nil {
		return err
	}
	t.Partition = intake.PartitionOf(l, t.Partition.Priority, t.ID, t.LimitKey)
	if b.Again && l.Mode == task.Deliver && t.Key == "" && c.Item.Due == 0 {
		// The earlier call may have stored a row with another due time, which a cancel would not find.
		t.Enqueued = b.Now
	}
	c.WithRow = isRepeatable(b, c, l)
	return b.Plan(ctx, c, l, t, requested)
}

// isRepeatable reports whether a task may have been stored by an earlier call, in a wake-up row of another due time
// and so under another public id. Then it gets a task row too: whichever row is there first decides which of these
// ids the task has, and each later call answers with that one, as a handler has it. A due time to come is the same in
// all calls, and so is their wake-up row.
func isRepeatable(b *intake.Batch, c *intake.Incoming, l *catalog.Entry) bool {
	return !b.First && len(c.Item.RequestId) > 0 && l.Mode == task.Managed && c.Due.IsZero() && task.Instant(c.Item.Due) <= b.Now
}

// dueMin is 2001-01-01T00:00:00Z in microseconds. The seconds and milliseconds of this century are below it.
const dueMin = 978_307_200_000_000

// dueOf returns the due time that a call asks for, counted from this server's clock for a delay, and that
// rounded up to a millisecond; a time in the past means now.
func dueOf(b *intake.Batch, dueMicros, delayMicros int64) (requested, due task.Instant, err error) {
	if dueMicros != 0 && delayMicros != 0 {
		return 0, 0, refusal.Invalid("a task has a due time or a delay, not both")
	}
	if dueMicros != 0 && dueMicros < dueMin {
		return 0, 0, refusal.Invalid("due time %s (due %d) is before 2001, which is a mistake of unit: want microseconds since 1970, not seconds or milliseconds",
			time.UnixMicro(dueMicros).UTC().Format(time.RFC3339), dueMicros)
	}
	requested = task.Instant(dueMicros)
	if dueMicros == 0 {
		requested = b.Now.Add(max(0, task.Micros(delayMicros)-b.Elapsed))
	}
	if err := b.CheckHorizon(requested); err != nil {
		return 0, 0, err
	}
	if requested <= b.Now {
		return requested, task.FromMillis(b.Now.Millis()), nil // it is due already, so that rounding down is not early
	}
	return requested, requested.CeilMillis(), nil
}

// identify gives the task its id: derived from the key, or from a request id so that a repeated call is
// harmless, or new.
func identify(b *intake.Batch, t *task.Task, l *catalog.Entry, item *kinesinv1.ScheduleItem) error {
	switch {
	case item.Key != "":
		t.ID = task.KeyedID(l.Ref, item.Key)
		if m := t.Member; m != nil {
			t.ID = m.ID()
		}
		t.Seq = b.SeqOfKeyed()
		t.Life = t.Seq
		t.Digest = intake.Digest(t, item.Payload)
	case t.Request.IsZero():
		t.ID = task.NewID(b.Now, b.Clock.Uint64(), b.Clock.Uint64())
	default:
		t.ID, t.Request = t.Request, task.ID{}
		// The id of what follows after a group is of this server's making, before its clock was set back.
		if t.GroupEnd == nil && intake.IsAhead(t.ID, b.Now) {
			return refusal.Invalid("request id: its time is more than %v ahead of the server's clock", catalog.IDAheadMax)
		}
	}
	return nil
}

// callQuota asks the admission quotas for the tasks of one call.
type callQuota struct {
	in       *Inbound
	identity string
	refused  int
}

// take admits one more task of the call.
func (q *callQuota) take(l *catalog.Entry) error {
	if q.in.Admission == nil {
		return nil
	}
	after, ok := q.in.Admission.Take(l.Ref, q.identity, q.refused)
	if ok {
		return nil
	}
	q.refused++
	if q.in.Hooks.Throttled != nil {
		q.in.Hooks.Throttled(l.Ref)
	}
	return api.Errorf(kinesinv1.Reason_REASON_THROTTLED,
		"the admission quota of lambda %s is used up; try again in %v (kinesin quota get %s shows it)", l.Name, after.Round(time.Millisecond), l.Name).After(after)
}
