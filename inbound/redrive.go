package inbound

import (
	"context"
	"errors"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Redrive has ended tasks start anew, under the same ids. It refuses the task of a key that was used again. A
// try of a call whose other try had a task start anew leaves that task as it is.
func (in *Inbound) Redrive(ctx context.Context, r *kinesinv1.RedriveRequest) (*kinesinv1.ChangeResponse, error) {
	ids, err := in.withKeys(ctx, r.Ids, r.Keys)
	if err != nil {
		return nil, err
	}
	if (r.Payload != nil || r.Blob != nil) && len(ids) != 1 {
		return nil, refusal.Invalid("a payload is for a single task; this call names %d", len(ids))
	}
	request, err := intake.OwnRequestID(access.From(ctx).Name, r.RequestId)
	if err != nil {
		return nil, err
	}
	response, err := in.changeAll(ctx, kinesinv1connect.TaskServiceRedriveProcedure, ids, r.IfSeq, request,
		func(t *task.Task, l *catalog.Entry) (next task.Task, payload []byte, err error) {
			next, payload, err = in.redriven(ctx, t, l, r)
			next.RedriveRequest = request
			return next, payload, err
		})
	if err != nil {
		return nil, err
	}
	for i, result := range response.Results {
		if result.GetProblem().GetReason() == kinesinv1.Reason_REASON_NOT_FOUND {
			result.Problem = in.whyNotFound(ctx, ids[i], result.Problem)
		}
	}
	return response, nil
}

// RedriveRows has ended tasks of a set start anew. One that was redriven meanwhile, by another server that
// has the same rows, and has ended again is refused.
func (in *Inbound) RedriveRows(ctx context.Context, rows []Row, force bool) []Changed {
	request := &kinesinv1.RedriveRequest{Force: force}
	ended := make(map[task.ID]task.Instant, len(rows))
	for i := range rows {
		ended[rows[i].ID] = rows[i].Ended
	}
	return in.changeRows(ctx, rows, "redriven", func(t *task.Task, l *catalog.Entry) (task.Task, []byte, error) {
		if t.State.IsEnd() && t.Ended != ended[t.ID] {
			return task.Task{}, nil, api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "the task was redriven meanwhile, and has ended again: %s", t.State)
		}
		return in.redriven(ctx, t, l, request)
	})
}

// redriven returns a task that starts anew now, and the payload that it gets, if it cannot keep its own.
func (in *Inbound) redriven(ctx context.Context, t *task.Task, l *catalog.Entry, r *kinesinv1.RedriveRequest) (next task.Task, payload []byte, err error) {
	now := in.Clock.Now()
	if t.State.IsEnd() && t.ExpireAt <= now.Add(store.CallMax) {
		// Its row may expire while this goes on, and would leave a wake-up row that looks like another's.
		return next, nil, api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "the retention of the task is over: schedule it again")
	}
	if err := in.CompleteEnd(ctx, t, in.Take); err != nil { // its end is not complete, and this would hide that
		return next, nil, err
	}
	due := task.FromMillis(now.Millis())
	next, _, err = t.Apply(task.Event{Kind: task.Redrive, Due: due, Force: r.Force}, now, l.PolicyFor(t))
	if err != nil {
		return next, nil, err
	}
	if err := in.RenewFollowups(ctx, t, &next, l); err != nil {
		return next, nil, err
	}
	next.StartBefore = startBeforeAgain(t, l, due)
	if isTombstone(t) {
		return next, nil, api.Errorf(kinesinv1.Reason_REASON_TOO_LATE,
			"the task was cancelled before it was in the store, which has neither its payload nor its settings: schedule it again")
	}
	if r.Payload != nil || r.Blob != nil {
		next.Blob, err = in.newPayload(l, r.Blob, r.Payload)
		return next, nonNil(r.Payload), err
	}
	if !t.PayloadStoredApart() || !in.PayloadsExpire() {
		return next, nil, nil
	}
	// The payload row expires on its own, possibly before the task starts now, so it is stored anew.
	payload, err = in.Payload(ctx, t)
	if errors.Is(err, store.ErrNotFound) {
		return next, nil, api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "the payload of the task has expired: redrive it with a payload")
	}
	return next, payload, err
}

// isTombstone reports whether an ended row was put by a cancel of a task that was in the inbound buffer. It
// is the first and only write of its row.
func isTombstone(t *task.Task) bool { return t.State == task.Cancelled && t.Seq == 1 }

// whyNotFound says so if a task is not found because its key was used again.
func (in *Inbound) whyNotFound(ctx context.Context, id string, otherwise *kinesinv1.Problem) *kinesinv1.Problem {
	token, err := in.Open(ctx, id)
	if err != nil || token.Life == 0 {
		return otherwise
	}
	rows, err := in.Store.Tasks(ctx, []task.ID{token.ID})
	if err != nil || rows[0].ID.IsZero() || rows[0].Life == token.Life {
		return otherwise
	}
	return &kinesinv1.Problem{Reason: kinesinv1.Reason_REASON_KEY_CONFLICT, Text: "the key of the task was used again since: " + in.Sealer.SealTask(&rows[0])}
}

// startBeforeAgain returns until when a task that starts anew may start. One that the task was given itself
// says until when it is of use, and stays while it lies ahead.
func startBeforeAgain(t *task.Task, l *catalog.Entry, due task.Instant) task.Instant {
	own := t.StartBefore > due && (l.StartWithin == 0 || t.StartBefore != t.Due.Add(l.StartWithin))
	switch {
	case own:
		return t.StartBefore
	case l.StartWithin > 0:
		return due.Add(l.StartWithin)
	}
	return 0
}
