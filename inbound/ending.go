package inbound

import (
	"context"
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Texts of CancelResult.outcome.
const (
	cancelled  = "cancelled" // also the text of the state
	cancelling = "cancelling"
)

// ending is a change that ends a task, or asks its worker to stop it.
type ending struct {
	found  found
	next   task.Task
	effect task.Effect
	writes []store.Op
}

// ending plans the end of a task that has a row. A waiting task gets an ended task row first: that row
// refuses every later dispatch, also one of a second wake-up row that a repeated call may have left.
func (in *Inbound) ending(t found, event task.EventKind) (*ending, error) {
	if t.waiting && !t.Enqueued.IsZero() && in.isDeliver(t.Partition.Lambda) {
		return nil, errMayBeDelivered // its queue, or an earlier call, was asked to take it and did not answer
	}
	policy := task.Policy{Retention: task.RetentionDefault}
	if l := in.Catalog.ByRef(t.Partition.Lambda); l != nil {
		policy = l.PolicyFor(&t.Task)
	}
	if t.waiting {
		t.Task = t.Undispatched()
	}
	next, effect, err := t.Apply(task.Event{Kind: event}, in.Clock.Now(), policy)
	if err != nil {
		return nil, err
	}
	return &ending{t, next, effect, in.endingWrites(&t, next)}, nil
}

// endingWrites returns the writes that end a task, or ask it to stop. The first one decides.
func (in *Inbound) endingWrites(t *found, next task.Task) []store.Op {
	if !t.waiting {
		return store.Change(next, false, false)
	}
	if t.Key == "" && in.isDeliver(t.Partition.Lambda) {
		return store.EndUndelivered(next, &t.Task)
	}
	return store.EndWaiting(next, &t.Task)
}

// finish does what follows the writes of an ending, whose results it gets. ended is called with the tasks
// that ended.
func (in *Inbound) finish(ctx context.Context, e *ending, results []error, ended func([]task.Task)) (outcome string, err error) {
	switch {
	case results[0] != nil: // a full scan of the partition finds what is left if a later write failed
		return "", results[0]
	case e.found.waiting && in.isDeliver(e.next.Partition.Lambda):
		err = in.endDelivery(ctx, &e.next, results[1])
	case e.effect == task.TellWorker:
		in.Workers.CancelRequested(&e.next)
		return cancelling, nil
	}
	if err != nil {
		return "", err
	}
	ended([]task.Task{e.next})
	return e.next.State.String(), nil
}

// endDelivery finishes cancelling a task of a deliver lambda whose wake-up row is deleted; put is the outcome
// of its task row. A process that dies between the two writes has cancelled the task and told nobody. With a
// buffer endDelivery then deletes a wake-up row that came out of the buffer once more meanwhile.
func (in *Inbound) endDelivery(ctx context.Context, next *task.Task, put error) error {
	if put != nil && !errors.Is(put, store.ErrConflict) {
		return put
	}
	if in.Buffering.Buffer != nil {
		return in.removeWakeup(ctx, next)
	}
	return nil
}

// removeWakeup deletes the wake-up row of a cancelled task that came out of the buffer before the consumer
// could see its tombstone. The scheduler would meet the row of a managed task and delete it too; for a
// deliver lambda it would send the task.
func (in *Inbound) removeWakeup(ctx context.Context, t *task.Task) error {
	isDeliver := in.isDeliver(t.Partition.Lambda)
	rows, err := in.Store.Wakeups(ctx, []store.WakeKey{store.KeyOf(t)})
	switch {
	case err != nil && isDeliver:
		return errMayBeDelivered
	case err != nil:
		return fmt.Errorf("look for the wake-up row of task %s: %w", t.ID, err)
	case rows[0].ID.IsZero():
		return nil
	case !isDeliver:
		_ = in.change(ctx, []store.Op{store.Remove(&rows[0])})
		return nil
	case rows[0].State != task.Scheduled: // it is being sent
		return errMayBeDelivered
	}
	if err := in.change(ctx, []store.Op{store.RemoveLast(&rows[0])})[0]; err != nil {
		return errMayBeDelivered
	}
	return nil
}

// ended tells waiting calls and the scheduler that tasks have ended.
func (in *Inbound) ended(rows []task.Task) {
	ids := make([]task.ID, len(rows))
	for i := range rows {
		ids[i] = rows[i].ID
		if in.Hooks.Ended != nil {
			in.Hooks.Ended(&rows[i])
		}
	}
	in.Waits.Ended(ids)
	in.Scheduler.Done(rows)
}

// endRows ends tasks in one write. Those that moved have ErrConflict.
func (in *Inbound) endRows(ctx context.Context, rows []Row, event task.EventKind) []Changed {
	changed := make([]Changed, len(rows))
	endings := make([]*ending, len(rows))
	var ops []store.Op
	for i := range rows {
		switch e, err := in.ending(rows[i], event); {
		case errors.Is(err, task.ErrEnded) && event == task.Cancel && rows[i].State == task.Cancelled:
			changed[i].Outcome = cancelled
		case errors.Is(err, task.ErrEnded):
			changed[i].Err = api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "the task has ended: %s", rows[i].State)
		case errors.Is(err, task.ErrNoEdge) && event == task.Cancel:
			changed[i].Err = errMayBeDelivered
		case err != nil:
			changed[i].Err = err
		case rows[i].CancelRequested && e.effect == task.TellWorker:
			changed[i].Outcome = cancelling // its worker knows
		default:
			endings[i] = e
			ops = append(ops, e.writes...)
		}
	}
	if len(ops) == 0 {
		return changed
	}
	results := in.change(ctx, ops)
	var gone []task.Task
	for i, e := range endings {
		if e == nil {
			continue
		}
		n := len(e.writes)
		changed[i].Outcome, changed[i].Err = in.finish(ctx, e, results[:n], func(ended []task.Task) { gone = append(gone, ended...) })
		results = results[n:]
	}
	if len(gone) > 0 {
		in.ended(gone)
	}
	return changed
}
