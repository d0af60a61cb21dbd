package inbound

import (
	"context"
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Texts of CancelResult.outcome.
const (
	cancelled  = "cancelled" // also the text of the state
	cancelling = "cancelling"
)

var (
	errMoving         = api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the task kept moving; try again")
	errMayBeDelivered = api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "the task is, or is about to be, on the queue of its lambda")
)

// Cancel makes sure that tasks do not start, or asks running ones to stop. An answer "cancelled" is durable:
// the task's row refuses every later start.
func (in *Inbound) Cancel(ctx context.Context, request *kinesinv1.CancelRequest) (*kinesinv1.CancelResponse, error) {
	ids, err := in.withKeys(ctx, request.Ids, request.Keys)
	if err != nil {
		return nil, err
	}
	if request.IfSeq != 0 && len(ids) != 1 {
		return nil, refusal.Invalid("if_seq is for a single task; this call names %d", len(ids))
	}
	if err := in.refreshFor(ctx, ids); err != nil {
		return nil, refusal.Wire(err)
	}
	response := &kinesinv1.CancelResponse{}
	tellInternal := in.internalOnce(ctx, kinesinv1connect.TaskServiceCancelProcedure)
	done := make([]*kinesinv1.CancelResult, len(ids))
	if request.IfSeq == 0 {
		done = in.cancelTogether(ctx, ids)
	}
	for i, id := range ids {
		if done[i] != nil {
			done[i].Id = id
			response.Results = append(response.Results, done[i])
			continue
		}
		found, outcome, err := in.cancel(ctx, id, request.IfSeq, false)
		r := &kinesinv1.CancelResult{Id: id, Outcome: outcome, Problem: refusal.Problem(err)}
		tellInternal(r.Problem, err)
		if found != task.Unknown {
			r.State = found.String()
		}
		response.Results = append(response.Results, r)
	}
	return response, nil
}

// cancel tries again as long as the task moves in between. It returns the state in which it found the task.
// tried says that a cancel was written before, and that its outcome is not known to be one.
func (in *Inbound) cancel(ctx context.Context, id string, ifSeq uint64, tried bool) (state task.State, outcome string, err error) {
	token, err := in.open(ctx, id)
	if err != nil {
		return state, "", api.ErrorOf(noSuchTask())
	}
	for tries := range casTriesMax {
		t, err := in.find(ctx, token)
		if errors.Is(err, api.ErrNotFound) {
			state, err = in.cancelUnstored(ctx, token)
			if errors.Is(err, store.ErrConflict) {
				continue // it came out of the buffer just now
			}
			if err == nil {
				outcome = cancelled
			}
			return state, outcome, err
		}
		if err != nil {
			return state, "", err
		}
		if ifSeq != 0 && t.Seq != ifSeq {
			return t.State, "", staleSeq(t.Seq, ifSeq)
		}
		outcome, err = in.end(ctx, t)
		switch {
		case errors.Is(err, task.ErrEnded) && t.State == task.Cancelled && (tries > 0 || tried):
			// The write of an earlier try conflicts with its own effect when its answer was lost and the task
			// has moved on since.
			return t.State, cancelled, nil
		case errors.Is(err, task.ErrEnded):
			return t.State, "", api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "the task has ended: %s", t.State)
		case errors.Is(err, task.ErrNoEdge):
			return t.State, "", errMayBeDelivered
		case !errors.Is(err, store.ErrConflict):
			return t.State, outcome, err
		}
	}
	return state, "", errMoving
}

func (in *Inbound) find(ctx context.Context, token task.Token) (found, error) {
	rows, err := in.rows(ctx, []task.Token{token})
	if err != nil {
		return found{}, err
	}
	if rows[0].ID.IsZero() {
		return found{}, api.ErrorOf(noSuchTask())
	}
	return rows[0], nil
}

// cancelUnstored cancels a task without a row. One of a deliver lambda that is neither due nor on its queue
// was cancelled before by a caller that did not get to the end.
func (in *Inbound) cancelUnstored(ctx context.Context, token task.Token) (state task.State, err error) {
	t, known := in.unstored(token)
	halfCancelled := in.isDeliver(token.Partition.Lambda) && !token.Direct && in.Clock.Now() < token.Due
	if !known && !halfCancelled {
		return task.Unknown, api.ErrorOf(noSuchTask())
	}
	return t.State, in.putTombstone(ctx, token)
}

// putTombstone cancels a task that is in the buffer: its ended row exists before it comes out, and refuses
// it. The consumer may have put the wake-up row meanwhile. It puts that row and then looks for the tombstone;
// here it is the other way round, so that at least one of the two sees the other's row.
func (in *Inbound) putTombstone(ctx context.Context, token task.Token) error {
	t := intake.Buffered(token)
	t.State, t.Seq = task.Scheduled, 0
	l := in.Catalog.ByRef(t.Partition.Lambda)
	if l == nil {
		return api.ErrorOf(noSuchTask())
	}
	if in.mayBeDelivered(l, token) {
		return errMayBeDelivered
	}
	tombstone, _, err := t.Apply(task.Event{Kind: task.Cancel}, in.Clock.Now(), l.PolicyFor(&t))
	if err != nil {
		return err
	}
	if err := in.change(ctx, []store.Op{{Kind: store.PutTask, Task: tombstone}})[0]; err != nil {
		return err
	}
	if err := in.removeWakeup(ctx, &t); err != nil {
		return err
	}
	if in.mayBeDelivered(l, token) {
		return errMayBeDelivered // this took so long that it is unknown which was first
	}
	in.ended([]task.Task{tombstone})
	return nil
}

// end cancels a task that has a row.
func (in *Inbound) end(ctx context.Context, t found) (outcome string, err error) {
	e, err := in.ending(t, task.Cancel)
	if err != nil {
		return "", err
	}
	return in.finish(ctx, e, in.change(ctx, e.writes), in.ended)
}

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

// endDelivery finishes cancelling a task of a deliver lambda whose wake-up row is deleted; put is the outcome
// of its task row. A process that dies between the two writes has cancelled the task and told nobody. The
// look after that is for a wake-up row that came out of the buffer once more meanwhile.
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
	in.Ended(ids)
	in.Scheduler.Done(rows)
}

// change performs writes, with an outcome for each.
func (in *Inbound) change(ctx context.Context, ops []store.Op) []error {
	results := store.Outcomes(ctx, in.Store, ops)
	for k := range ops {
		if results[k] != nil {
			results[k] = fmt.Errorf("change task %s: %w", ops[k].Task.ID, results[k])
		}
	}
	return results
}
