package dispatcher

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// patientBefore is how long before its due time the write of a task may share another's sync.
const patientBefore = 6 * store.PatientMax

// Dispatch carries out orders and returns the result of each. A first order whose message could not be sent
// fails, so that it is tried again soon; tasks of other orders are sent again after their enqueue timeout. The
// end of ctx does not come between a write and its message, since a loop that ends tries nothing again.
func (d *Dispatcher) Dispatch(ctx context.Context, orders []task.Order) []task.Dispatched {
	b := batch{results: make([]task.Dispatched, len(orders))}
	orders = d.decideOccurrences(ctx, orders, b.results)
	b.round = d.Begin(d.Clock.Now())
	for i := range orders {
		if b.results[i].Again.IsZero() && b.results[i].Err == nil {
			b.plan(ctx, i, &orders[i])
		}
	}
	d.apply(context.WithoutCancel(ctx), &b)
	unsent := d.send(ctx, b.messages)
	for i := range b.results {
		r := &b.results[i]
		if err := unsent[r.Task.ID]; err != nil && orders[i].First {
			r.Done, r.Err = false, fmt.Errorf("send message of task %s: %w", r.Task.ID, err)
		}
	}
	return b.results
}

// plan adds the writes of one order to the batch, or its message.
func (b *batch) plan(ctx context.Context, i int, o *task.Order) {
	start, next, err := b.round.Start(ctx, o, Owner)
	switch {
	case err != nil: // the order is pointless
		return
	case start.Answer == NotHere:
		b.results[i].Err = unknownLambda(&o.Task)
		return
	case start.Answer == MessageFirst:
		b.results[i] = task.Dispatched{Task: next, Done: true}
		if b.messages == nil {
			b.messages = make([]queue.Message, 0, len(b.results)-i)
		}
		b.messages = append(b.messages, queue.Message{Task: next})
		return
	}
	if b.ops == nil {
		b.ops = make([]store.Op, 0, len(b.results)-i)
	}
	if o.First && next.State.IsEnd() && o.Delivers && next.Key == "" {
		b.ops = append(b.ops, store.EndUndelivered(next, &o.Task)...)
		b.writes = append(b.writes, write{order: i, op: len(b.ops) - 1}) // the row that follows is the result
		return
	}
	b.writes = append(b.writes, write{order: i, op: len(b.ops), start: start})
	patient := next.Due > b.round.now.Add(patientBefore)
	switch {
	case o.First && next.State.IsEnd():
		b.ops = append(b.ops, store.EndWaiting(next, &o.Task)...)
		return
	case o.First:
		b.ops = append(b.ops, store.Op{Kind: store.PutTask, Task: next, Patient: patient})
		return
	}
	b.ops = store.AppendChange(b.ops, &next, false, patient)
}

// apply makes the writes of a batch, before anything is sent.
func (d *Dispatcher) apply(ctx context.Context, b *batch) {
	if len(b.ops) == 0 {
		return
	}
	outcomes := store.Outcomes(ctx, d.Store, b.ops)
	for _, w := range b.writes {
		b.settle(&w, outcomes[w.op])
	}
}

// Remove deletes wake-up rows that no task needs. Losing such a delete is harmless: the next full scan of the
// partition finds the row again.
func (d *Dispatcher) Remove(ctx context.Context, rows []task.Task) {
	if len(rows) == 0 {
		return
	}
	ops := make([]store.Op, len(rows))
	for i := range rows {
		ops[i] = store.Remove(&rows[i])
	}
	if _, err := d.Store.Apply(ctx, ops); err != nil && ctx.Err() == nil {
		d.Log.WarnContext(ctx, "leftover wake-up rows not deleted; the next full scan will", slog.Int("rows", len(rows)), slog.Any("error", err))
	}
}
