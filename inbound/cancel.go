package inbound

import (
	"cmp"
	"context"
	"errors"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
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
	done, tried := make([]*kinesinv1.CancelResult, len(ids)), make([]*task.Task, len(ids))
	if request.IfSeq == 0 {
		done, tried = in.cancelTogether(ctx, ids)
	}
	for i, id := range ids {
		if done[i] != nil {
			done[i].Id = id
			response.Results = append(response.Results, done[i])
			continue
		}
		found, outcome, err := in.cancel(ctx, id, request.IfSeq, tried[i])
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
// tried is the task as it was when a cancel was written before that may have been applied; nil: none was
// written; zero: it had no row then.
func (in *Inbound) cancel(ctx context.Context, id string, ifSeq uint64, tried *task.Task) (state task.State, outcome string, err error) {
	token, err := in.Open(ctx, id)
	if err != nil {
		return state, "", api.ErrorOf(noSuchTask())
	}
	for range casTriesMax {
		t, err := in.find(ctx, token)
		if errors.Is(err, api.ErrNotFound) {
			state, err = in.cancelUnstored(ctx, token)
			if errors.Is(err, store.ErrConflict) {
				tried = cmp.Or(tried, &task.Task{}) // it came out of the buffer just now
				continue
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
		if tried != nil && wasEndedAndRedriven(tried, &t.Task) {
			return tried.State, cancelled, nil // by an earlier try; the redrive that followed it stays done
		}
		outcome, err = in.end(ctx, t)
		switch {
		case errors.Is(err, task.ErrEnded) && t.State == task.Cancelled && tried != nil:
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
		tried = &t.Task
	}
	return state, "", errMoving
}

// wasEndedAndRedriven reports whether a task that waited as it was seen has ended since without an attempt
// and without expiring, so by a cancel, and was redriven.
func wasEndedAndRedriven(seen, row *task.Task) bool {
	waited := seen.State.IsWaiting() || seen.State == task.Enqueued
	return waited && !seen.MayExpire() && row.Life == seen.Life && row.Attempt == seen.Attempt && row.RedriveRequest != seen.RedriveRequest
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

// CancelRows cancels tasks of a set in one write, and asks running ones to stop. A task that was cancelled
// already counts as cancelled.
func (in *Inbound) CancelRows(ctx context.Context, rows []Row) []Changed {
	changed := in.endRows(ctx, rows, task.Cancel)
	for i := range changed {
		if !isMoving(changed[i].Err) {
			continue
		}
		state, outcome, err := in.cancel(ctx, in.PublicID(&rows[i]), 0, &rows[i].Task)
		if changed[i] = (Changed{outcome, err}); err != nil && state == task.Cancelled {
			changed[i] = Changed{Outcome: cancelled}
		}
	}
	return changed
}

// cancelTogether cancels the tasks of a call that have rows in one write. It returns a nil result for each
// that has to be looked at alone: one without a row, or that moved; of the latter also how it was seen.
func (in *Inbound) cancelTogether(ctx context.Context, ids []string) (results []*kinesinv1.CancelResult, tried []*task.Task) {
	results, tried = make([]*kinesinv1.CancelResult, len(ids)), make([]*task.Task, len(ids))
	rows, at := in.rowsTogether(ctx, ids, func(row *task.Task) bool { return !row.State.IsEnd() })
	for k, c := range in.endRows(ctx, rows, task.Cancel) {
		if c.Err == nil {
			results[at[k]] = &kinesinv1.CancelResult{Outcome: c.Outcome, State: rows[k].State.String()}
		} else {
			tried[at[k]] = &rows[k].Task
		}
	}
	return results, tried
}
