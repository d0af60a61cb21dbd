package inbound

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// deleted is the outcome of a task whose row is given up.
const deleted = "deleted"

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

// deletableFrom returns from when on the row of an ended task is not needed any more (docs/internals/protocol.md, rule
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
