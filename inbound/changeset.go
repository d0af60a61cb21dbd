package inbound

import (
	"context"
	"errors"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/refusal"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Changed is what became of a task of a set: the text of an outcome, such as the state in which it ended, or
// why it was refused.
type Changed struct {
	Outcome string
	Err     error
}

// deleted is the outcome of a task whose row is given up.
const deleted = "deleted"

// CancelRows cancels tasks of a set in one write, and asks running ones to stop. A task that was cancelled
// already counts as cancelled.
func (in *Inbound) CancelRows(ctx context.Context, rows []Row) []Changed {
	changed := in.endRows(ctx, rows, task.Cancel)
	for i := range changed {
		if !isMoving(changed[i].Err) {
			continue
		}
		state, outcome, err := in.cancel(ctx, in.PublicID(&rows[i]), 0, true)
		if changed[i] = (Changed{outcome, err}); err != nil && state == task.Cancelled {
			changed[i] = Changed{Outcome: cancelled}
		}
	}
	return changed
}

// ExpireRows ends tasks of a set that no worker has as expired, in one write.
func (in *Inbound) ExpireRows(ctx context.Context, rows []Row) []Changed {
	changed := in.endRows(ctx, rows, task.Expire)
	for i := range changed {
		for tries := 0; isMoving(changed[i].Err) && tries < casTriesMax; tries++ {
			changed[i] = in.expireAgain(ctx, &rows[i])
		}
		switch {
		case isMoving(changed[i].Err):
			changed[i].Err = errMoving
		case errors.Is(changed[i].Err, task.ErrNoEdge):
			changed[i].Err = api.Errorf(kinesinv1.Reason_REASON_TOO_LATE, "a worker has the task, or it may be on the queue of its lambda: only what waits can expire")
		}
	}
	return changed
}

// expireAgain expires a task that moved.
func (in *Inbound) expireAgain(ctx context.Context, row *Row) Changed {
	t, err := in.find(ctx, task.TokenOf(&row.Task))
	switch {
	case err != nil:
		return Changed{Err: err}
	case t.State == task.Expired:
		return Changed{Outcome: t.State.String()} // by a write whose answer was lost
	}
	return in.endRows(ctx, []Row{t}, task.Expire)[0]
}

// isMoving reports whether a change is to be tried again on the row as it is now.
func isMoving(err error) bool {
	return errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrSkipped)
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

// cancelTogether cancels the tasks of a call that have rows in one write. It returns nil for each that has to
// be looked at alone: one without a row, or that moved.
func (in *Inbound) cancelTogether(ctx context.Context, ids []string) []*kinesinv1.CancelResult {
	results := make([]*kinesinv1.CancelResult, len(ids))
	if len(ids) < 2 {
		return results
	}
	tokens, at := make([]task.Token, 0, len(ids)), make([]int, 0, len(ids))
	seen := map[task.ID]bool{}
	for i, id := range ids {
		if token, err := in.open(ctx, id); err == nil && !seen[token.ID] {
			seen[token.ID] = true
			tokens, at = append(tokens, token), append(at, i)
		}
	}
	all, err := in.rows(ctx, tokens)
	if err != nil {
		return results // each alone, so that one row that cannot be read fails no other
	}
	var rows []Row
	var of []int
	for k := range all {
		if row := &all[k]; !row.ID.IsZero() && !row.IsBare() && !row.State.IsEnd() {
			rows, of = append(rows, *row), append(of, at[k])
		}
	}
	for k, c := range in.endRows(ctx, rows, task.Cancel) {
		if c.Err == nil {
			results[of[k]] = &kinesinv1.CancelResult{Outcome: c.Outcome, State: rows[k].State.String()}
		}
	}
	return results
}

// DeleteRows forgets ended tasks of a set: their rows expire now, and are deleted with their payloads. A row
// that may still be needed to refuse a second start of its task stays for so long, hidden from readers. Where
// it cannot be hidden it is refused, and the refusal says until when.
func (in *Inbound) DeleteRows(ctx context.Context, rows []Row) []Changed {
	changed := make([]Changed, len(rows))
	var ops []store.Op
	var at []int
	now := in.Clock.Now()
	for i := range rows {
		next := rows[i].Task
		from, mayHide := in.deletableFrom(&next), in.mayHide(&next)
		switch {
		case !next.State.IsEnd():
			changed[i].Err = api.Errorf(kinesinv1.Reason_REASON_IN_USE, "the task lives: %s", next.State)
		case now < from && !mayHide:
			changed[i].Err = api.Errorf(kinesinv1.Reason_REASON_IN_USE,
				"until %s its row refuses a second start of the task", from.Time().UTC().Format(time.RFC3339))
		case next.ExpireAt <= now:
			changed[i].Outcome = deleted
		default:
			next.Seq++
			next.ExpireAt, next.Forgotten = max(now, from), mayHide
			ops, at = append(ops, store.Op{Kind: store.ReplaceTask, Task: next, Amends: true}), append(at, i)
		}
	}
	for k, err := range in.change(ctx, ops) {
		switch i := at[k]; {
		case isMoving(err):
			changed[i].Err = errMoving
		case err != nil:
			changed[i].Err = err
		default:
			changed[i].Outcome = deleted
		}
	}
	return changed
}

// deletableFrom returns from when on the row of an ended task is not needed any more (docs/protocol.md, rule
// 4a): after two full scans, and, where messages of a buffer or a gap without a scheduler are judged by the
// retention of the lambda, after that.
func (in *Inbound) deletableFrom(t *task.Task) task.Instant {
	keep := task.EndedMin
	if in.Buffering.Buffer != nil || in.Store.EndedExpire() {
		keep = max(keep, in.retention(in.Catalog.ByRef(t.Partition.Lambda)))
	}
	from := max(t.Ended, t.LastDue()).Add(keep)
	if t.Member != nil {
		from = max(from, t.Member.Until) // its group is counted from it
	}
	return from
}

// mayHide reports whether readers take a task without a row for one that is not there. Elsewhere they take it
// for one that was delivered, or is in the buffer.
func (in *Inbound) mayHide(t *task.Task) bool {
	l := in.Catalog.ByRef(t.Partition.Lambda)
	return in.Buffering.Buffer == nil && !in.Store.EndedExpire() && l != nil && l.Mode == task.Managed
}

func (in *Inbound) retention(l *catalog.Entry) time.Duration {
	if l == nil {
		return task.RetentionMax // it was deleted, and with it what it kept
	}
	return l.Retention
}

// RowsOf reads tasks by their public ids, for the calls that change them. A row has a zero ID where there is
// no such task.
func (in *Inbound) RowsOf(ctx context.Context, ids []string) ([]Row, error) {
	tokens, at := make([]task.Token, 0, len(ids)), make([]int, 0, len(ids))
	for i, id := range ids {
		if token, err := in.open(ctx, id); err == nil {
			tokens, at = append(tokens, token), append(at, i)
		}
	}
	some, err := in.rows(ctx, tokens)
	if err != nil {
		return nil, err
	}
	rows := make([]Row, len(ids))
	for k, i := range at {
		rows[i] = some[k]
	}
	return rows, nil
}

// NoSuchTask is why a task that is not there cannot be changed.
func NoSuchTask() error { return api.ErrorOf(noSuchTask()) }

// PublicID returns the id of a task of a set as users know it.
func (in *Inbound) PublicID(row *Row) string { return in.Sealer.SealTask(&row.Task) }

// View returns a task of a set as users see it.
func (in *Inbound) View(row *Row) *kinesinv1.Task { return in.view(&row.Task) }

// Names returns the names of the lambda and the priority of a task of a set.
func (in *Inbound) Names(row *Row) (lambda, priority string) {
	return namesOf(in.Catalog, row.Partition)
}

// ReasonOf returns the name of the reason of a refusal, such as too_late, for counts and people.
func ReasonOf(err error) kinesinv1.Reason { return refusal.Problem(err).GetReason() }
