package inbound

import (
	"context"
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Texts of CancelResult.outcome.
const (
	cancelled  = "cancelled"
	cancelling = "cancelling"
)

var errMoving = api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the task kept moving; try again")

// Cancel makes sure that tasks do not start, or asks running ones to stop. An answer "cancelled"
// is durable: the task's row refuses every later start.
func (in *Inbound) Cancel(ctx context.Context, request *kinesinv1.CancelRequest) (*kinesinv1.CancelResponse, error) {
	if n := len(request.Ids); n == 0 || n > IDsMax {
		return nil, refusal.Invalid("a call names 1 to %d ids, this one has %d", IDsMax, n)
	}
	if err := in.catchUpFor(ctx, request.Ids); err != nil {
		return nil, refusal.Wire(err)
	}
	response, told := &kinesinv1.CancelResponse{}, false
	for _, id := range request.Ids {
		met, outcome, err := in.cancel(ctx, id)
		if isInternal(refusal.Problem(err)) && !told {
			told = true
			in.internal(ctx, kinesinv1connect.TaskServiceCancelProcedure, err)
		}
		r := &kinesinv1.CancelResult{Outcome: outcome, Problem: refusal.Problem(err)}
		if met != task.Unknown {
			r.State = met.String()
		}
		response.Results = append(response.Results, r)
	}
	return response, nil
}

// cancel tries again as long as the task moves in between.
func (in *Inbound) cancel(ctx context.Context, id string) (met task.State, outcome string, err error) {
	token, err := in.open(id)
	if err != nil {
		return met, "", api.ErrorOf(noSuchTask())
	}
	for range casTriesMax {
		t, err := in.find(ctx, token)
		if errors.Is(err, api.ErrNotFound) {
			met, err = in.cancelUnstored(ctx, token)
			if errors.Is(err, store.ErrConflict) {
				continue // it came out of the buffer just now
			}
			if err == nil {
				outcome = cancelled
			}
			return met, outcome, err
		}
		if err != nil {
			return met, "", err
		}
		outcome, err = in.end(ctx, t, task.Cancel)
		switch {
		case errors.Is(err, task.ErrEnded):
			return t.State, "", api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "the task has ended: %s", t.State)
		case errors.Is(err, task.ErrNoEdge):
			return t.State, "", errMayBeDelivered
		case !errors.Is(err, store.ErrConflict):
			return t.State, outcome, err
		}
	}
	return met, "", errMoving
}

// cancelUnstored cancels a task without a row. One of a deliver lambda that is not due and not on its queue
// was cancelled before by somebody who did not come to the end of it.
func (in *Inbound) cancelUnstored(ctx context.Context, token task.Token) (met task.State, err error) {
	t, known := in.unstored(token)
	halfCancelled := in.isDeliver(token.Partition.Lambda) && !token.Direct && in.Clock.Now() < token.Due
	if !known && !halfCancelled {
		return task.Unknown, api.ErrorOf(noSuchTask())
	}
	return t.State, in.leaveTombstone(ctx, token)
}

// found is a task and where its row is.
type found struct {
	task.Task
	waiting bool // it has a wake-up row and no task row
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

// leaveTombstone cancels a task that is in the buffer: its row is there before it comes, in its end, and
// refuses it. The consumer may have put the wake-up row meanwhile: it puts that row first and then looks for
// this one, here it is the other way round, so that at least one of the two sees the other's.
func (in *Inbound) leaveTombstone(ctx context.Context, token task.Token) error {
	t := acceptedTask(token)
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
	if err := in.removePutBack(ctx, &t); err != nil {
		return err
	}
	if in.mayBeDelivered(l, token) {
		return errMayBeDelivered // it took so long that it is not known which was first
	}
	in.ended([]task.Task{tombstone})
	return nil
}

// end applies a Cancel or a Drop. A waiting task gets a task row in its end first: that row refuses
// every later dispatch, also one of a second wake-up row that a repeated call may have left.
func (in *Inbound) end(ctx context.Context, t found, kind task.EventKind) (outcome string, err error) {
	var policy task.Policy
	if l := in.Catalog.ByRef(t.Partition.Lambda); l != nil {
		policy = l.PolicyFor(&t.Task)
	} else {
		policy.Retention = task.RetentionDefault
	}
	if t.waiting && !t.Enqueued.IsZero() && in.isDeliver(t.Partition.Lambda) {
		return "", errMayBeDelivered // its queue, or an earlier call, was asked to take it and did not answer
	}
	if t.waiting {
		t.Task = t.Undispatched()
	}
	next, effect, err := t.Apply(task.Event{Kind: kind}, in.Clock.Now(), policy)
	if err != nil {
		return "", err
	}
	results := in.change(ctx, in.changes(&t, next))
	if results[0] != nil { // what follows is found by a pass over the partition if it failed
		return "", results[0]
	}
	if t.waiting && in.isDeliver(t.Partition.Lambda) {
		return in.endDelivery(ctx, &next, results[1])
	}
	if effect == task.TellWorker {
		in.Workers.CancelRequested(&next)
		return cancelling, nil
	}
	in.ended([]task.Task{next})
	return cancelled, nil
}

// changes are the writes that end a task, or ask it to stop. The first one decides.
func (in *Inbound) changes(t *found, next task.Task) []store.Op {
	if !t.waiting {
		return store.Change(next, false, false)
	}
	if t.Key == "" && in.isDeliver(t.Partition.Lambda) {
		return store.EndUndelivered(next, &t.Task)
	}
	return store.EndWaiting(next, &t.Task)
}

// ended tells those who wait for tasks, and the scheduler, that these have ended.
func (in *Inbound) ended(rows []task.Task) {
	in.Ended()
	in.Scheduler.Done(rows)
}

// change performs writes, with an outcome for each.
func (in *Inbound) change(ctx context.Context, ops []store.Op) []error {
	outcomes, err := in.Store.Apply(ctx, ops)
	results := make([]error, len(ops))
	for k := range ops {
		if outcome := outcomeOf(outcomes, k, err); outcome != nil {
			results[k] = fmt.Errorf("change task %s: %w", ops[k].Task.ID, outcome)
		}
	}
	return results
}
