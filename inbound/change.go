package inbound

import (
	"context"
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// This file changes single tasks that no worker has. Each change is one conditional write of the task row, so
// that of a change and a claim only one happens.

// edit computes what a task becomes. A payload that is not nil replaces the task's.
type edit func(t *task.Task, l *catalog.Entry) (next task.Task, payload []byte, err error)

// changeTask applies an edit to the task with an id, and tries again as long as the task moves in between.
// It returns the task as changed, or as it was found when the change is refused. tried is a change that may have been
// written before.
func (in *Inbound) changeTask(ctx context.Context, id string, ifSeq uint64, tried trial, e edit) (task.Task, error) {
	token, err := in.Open(ctx, id)
	if err != nil {
		return task.Task{}, api.ErrorOf(noSuchTask())
	}
	for range casTriesMax {
		t, err := in.findStored(ctx, token)
		switch {
		case err != nil:
			return task.Task{}, err
		case tried.isEffectOn(&t.Task):
			in.tidy(ctx, &tried.seen, &t.Task)
			return t.Task, nil
		case ifSeq != 0 && t.Seq != ifSeq:
			return t.Task, staleSeq(t.Seq, ifSeq)
		}
		next, err := in.changeOnce(ctx, &t, e)
		switch {
		case errors.Is(err, errHasRow):
		case errors.Is(err, store.ErrConflict):
			tried.seen, tried.next = t.Task, next
		default:
			return next, err
		}
	}
	return task.Task{}, errMoving
}

// trial is a change that may have been written already.
type trial struct {
	seen, next task.Task // as it was, and as it was to be
	request    task.ID   // of the call, which may have been tried before; zero: it has none
}

// isEffectOn reports whether a row became what it is from the one that the trial wrote. Such a write
// conflicts with its own effect when its answer was lost and the task has moved on since. The row still
// names the wake-up row, or the payload, that only this trial can have put, or the request of the call.
func (tried *trial) isEffectOn(row *task.Task) bool {
	next := &tried.next
	switch {
	case !tried.request.IsZero() && row.RedriveRequest == tried.request:
		return true
	case next.ID.IsZero() || row.Life != next.Life || row.Seq < next.Seq:
		return false
	case next.WakeRow.Seq == next.Seq && row.WakeRow == next.WakeRow:
		return true
	}
	return next.PayloadRev != 0 && next.PayloadRev == tried.seen.Seq && row.PayloadID() == next.PayloadID()
}

// findStored finds a task that has a row. A task in the inbound buffer gets one within moments.
func (in *Inbound) findStored(ctx context.Context, token task.Token) (found, error) {
	t, err := in.find(ctx, token)
	if !errors.Is(err, api.ErrNotFound) {
		return t, err
	}
	if unstored, known := in.unstored(token); known {
		if unstored.State == task.Accepted {
			return t, api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "the task is in the inbound buffer and not in the store yet; try again in a moment")
		}
		return t, errMayBeDelivered
	}
	return t, err
}

// changeOnce tries a change once. It returns the task as changed; with a conflict as it was to be, and with any other error
// as it is.
func (in *Inbound) changeOnce(ctx context.Context, t *found, e edit) (task.Task, error) {
	ops, err := in.decideChange(ctx, t, e)
	if err != nil {
		return t.Task, err
	}
	changed, err := outcomeOfChange(ops, in.change(ctx, ops))
	if errors.Is(err, store.ErrConflict) {
		return changed, err
	}
	if err != nil {
		return t.Task, err
	}
	in.announceChange(ctx, t, &changed)
	return changed, nil
}

// decideChange returns the writes that an edit of a task leads to, or why it is refused. It stores the payload that the edit
// gives the task.
func (in *Inbound) decideChange(ctx context.Context, t *found, e edit) ([]store.Op, error) {
	l := in.Catalog.ByRef(t.Partition.Lambda)
	switch {
	case l == nil || l.Deleting:
		return nil, api.Errorf(kinesinv1.Reason_REASON_UNKNOWN_LAMBDA, "the lambda of the task was deleted, or is being deleted")
	case l.Mode == task.Deliver && t.Key == "":
		return nil, api.Errorf(kinesinv1.Reason_REASON_UNSUPPORTED,
			"a task of a deliver lambda that has no key cannot be changed; cancel it and schedule it again, or schedule such tasks with keys")
	case t.waiting:
		t.Task = t.Undispatched()
	}
	next, payload, err := e(&t.Task, l)
	if err != nil {
		return nil, changeRefusal(&t.Task, err)
	}
	if t.waiting && next.Partition != t.Partition {
		return nil, in.giveRow(ctx, &t.Task)
	}
	next.Seq = store.SeqAfter(t.Seq, in.Clock.Now())
	if payload != nil {
		if err := in.replacePayload(ctx, &t.Task, &next, l, payload); err != nil {
			return nil, err
		}
	}
	return changingWrites(t, next), nil
}

// errHasRow means that a task which had only a wake-up row has a task row now, so that a change is to be decided anew.
var errHasRow = fmt.Errorf("the task has a task row now: %w", store.ErrConflict)

// giveRow gives a task that has only a wake-up row its task row, in a write of its own: the write of a move to another
// partition cannot follow it. It returns errHasRow, also if somebody else has put a task row.
func (in *Inbound) giveRow(ctx context.Context, t *task.Task) error {
	err := in.change(ctx, []store.Op{{Kind: store.PutTask, Task: *t}})[0]
	if err == nil || errors.Is(err, store.ErrConflict) {
		return errHasRow
	}
	return err
}

// changingWrites returns the writes of a change. A task that has only a wake-up row gets a task row first.
func changingWrites(t *found, next task.Task) []store.Op {
	switch {
	case t.waiting:
		return store.Materialize(&t.Task, next)
	case t.State.IsEnd():
		return store.Redrive(&t.Task, next)
	}
	return store.Reschedule(&t.Task, next)
}

// outcomeOfChange returns the task row as it is stored now, or was to be. The replacement of that row
// decides; of an earlier write only the failure matters that kept it from being tried.
func outcomeOfChange(ops []store.Op, results []error) (task.Task, error) {
	var before error
	for i := range ops {
		switch err := results[i]; {
		case ops[i].Kind != store.ReplaceTask:
			if err != nil && before == nil && !ops[i].Holds(err) {
				before = err
			}
		case errors.Is(err, store.ErrSkipped) && before != nil:
			return ops[i].Task, before
		default:
			return ops[i].Task, err
		}
	}
	return task.Task{}, store.ErrUnknown // there is always one
}

// announceChange tells the scheduler where the task waits now, and deletes what the task needs no more.
func (in *Inbound) announceChange(ctx context.Context, t *found, changed *task.Task) {
	if t.WakeRow.At != changed.WakeRow.At || t.Partition != changed.Partition {
		in.Scheduler.Done([]task.Task{t.Task})
	}
	in.Scheduler.Awake(changed)
	in.tidy(ctx, &t.Task, changed)
}

// tidy deletes what a change made needless: the payload and the follow-ups that the task had, and its wake-up row in another
// partition. A crash before that leaves them; a full scan of the partition then deletes the row.
func (in *Inbound) tidy(ctx context.Context, t, changed *task.Task) {
	if t.Partition != changed.Partition {
		_ = in.change(ctx, []store.Op{store.Remove(t)}) // see above
	}
	if t.PayloadStoredApart() && t.PayloadID() != changed.PayloadID() {
		in.ForgetPayload(ctx, t)
	}
	if t.Chain != nil && changed.Chain != nil && t.Chain.FollowID != changed.Chain.FollowID {
		in.ForgetFollow(ctx, t)
	}
}

// replacePayload gives next another payload, which is stored before any row names it.
func (in *Inbound) replacePayload(ctx context.Context, t, next *task.Task, l *catalog.Entry, payload []byte) error {
	next.PayloadRev, next.Digest = t.Seq, intake.Digest(next, payload)
	next.Payload, next.PayloadSize = payload, uint32(len(payload))
	if len(payload) <= in.Intake.Store.PayloadInlineMax() {
		return nil
	}
	next.Payload = nil
	err := in.change(ctx, []store.Op{{Kind: store.PutPayload, Payload: payload, Task: task.Task{
		ID: next.PayloadID(), Partition: next.Partition, Due: next.Due, ExpireAt: max(next.Due, in.Clock.Now()).Add(l.Retention),
	}}})[0]
	if errors.Is(err, store.ErrConflict) {
		return nil // an earlier try stored it
	}
	return err
}

// changeRefusal returns, for people, why the state machine refuses a change.
func changeRefusal(t *task.Task, err error) error {
	switch {
	case errors.Is(err, task.ErrEnded):
		return api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "the task has ended: %s; redrive it to have it start anew", t.State)
	case !errors.Is(err, task.ErrNoEdge):
		return err
	case t.State.IsRunning():
		return api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "a worker has the task: it can be cancelled, and changed when the attempt is over")
	case t.State == task.Acquired:
		return errMayBeDelivered
	case t.State.IsEnd():
		return api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "the task ended as %s: it is redriven only by force", t.State)
	}
	return api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "the task has not ended: it is %s", t.State)
}

// changeResult returns the outcome of a change as callers see it.
func (in *Inbound) changeResult(id string, t *task.Task, err error) *kinesinv1.ChangeResult {
	r := &kinesinv1.ChangeResult{Id: id, Problem: refusal.Problem(err)}
	if !t.ID.IsZero() {
		r.State, r.Due, r.Seq = t.State.String(), int64(t.PlannedDue()), t.Seq
	}
	return r
}

// changeAll changes tasks, each with its outcome: those that have rows in one write, and then one by one the others and
// those that moved meanwhile.
func (in *Inbound) changeAll(ctx context.Context, procedure string, ids []string, ifSeq uint64, request task.ID, e edit) (*kinesinv1.ChangeResponse, error) {
	if ifSeq != 0 && len(ids) != 1 {
		return nil, refusal.Invalid("if_seq is for a single task; this call names %d", len(ids))
	}
	if err := in.refreshFor(ctx, ids); err != nil {
		return nil, refusal.Wire(err)
	}
	// A caller that gives up now does not know what was changed, so a change that has begun is finished.
	lasting := context.WithoutCancel(ctx)
	tellInternal := in.internalOnce(ctx, procedure)
	response := &kinesinv1.ChangeResponse{Results: make([]*kinesinv1.ChangeResult, len(ids))}
	set := func(i int, t *task.Task, err error) {
		response.Results[i] = in.changeResult(ids[i], t, err)
		tellInternal(response.Results[i].Problem, err)
	}
	tried := make([]trial, len(ids))
	rows, at := in.rowsTogether(ctx, ids, func(row *task.Task) bool { return request.IsZero() || row.RedriveRequest != request })
	next, errs := in.changeTogether(lasting, rows, e)
	for k, i := range at {
		if isMoving(errs[k]) {
			tried[i] = trial{seen: rows[k].Task, next: next[k]}
		} else {
			set(i, &next[k], errs[k])
		}
	}
	for i, id := range ids {
		if response.Results[i] != nil {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		tried[i].request = request
		t, err := in.changeTask(lasting, id, ifSeq, tried[i], e)
		set(i, &t, err)
	}
	return response, nil
}

// changeTogether changes tasks in one write. It returns each as changed, as it was to be if it moved meanwhile, and as
// it was found with any other error.
func (in *Inbound) changeTogether(ctx context.Context, rows []Row, e edit) (next []task.Task, errs []error) {
	next, errs = make([]task.Task, len(rows)), make([]error, len(rows))
	writes := make([][]store.Op, len(rows))
	var all []store.Op
	for i := range rows {
		writes[i], errs[i] = in.decideChange(ctx, &rows[i], e)
		all = append(all, writes[i]...)
		if !errors.Is(errs[i], errHasRow) { // else nothing was tried
			next[i] = rows[i].Task
		}
	}
	if len(all) == 0 {
		return next, errs
	}
	results := in.change(ctx, all)
	for i, ops := range writes {
		if errs[i] != nil {
			continue
		}
		changed, err := outcomeOfChange(ops, results[:len(ops)])
		if results, errs[i] = results[len(ops):], err; err == nil {
			in.announceChange(ctx, &rows[i], &changed)
		}
		if err == nil || isMoving(err) {
			next[i] = changed
		}
	}
	return next, errs
}

// changeRows changes tasks of a set in one write, and those that moved meanwhile one by one.
func (in *Inbound) changeRows(ctx context.Context, rows []Row, outcome string, e edit) []Changed {
	changed := make([]Changed, len(rows))
	next, errs := in.changeTogether(ctx, rows, e)
	for i, err := range errs {
		if isMoving(err) {
			_, err = in.changeTask(ctx, in.PublicID(&rows[i]), 0, trial{seen: rows[i].Task, next: next[i]}, e)
		}
		if changed[i].Err = err; err == nil {
			changed[i].Outcome = outcome
		}
	}
	return changed
}
