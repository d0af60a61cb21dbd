package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// deleteBatchSize is how many rows are deleted at once, as many as a request of DynamoDB takes.
	deleteBatchSize = 25
	// deleteTogether is how long fewer rows wait for more, in multiples of Together. If the process is killed
	// meanwhile, their tasks are sent again.
	deleteTogether = 2
)

// deleteRows has the rows of sent tasks deleted, together with those of others. After a quiet time they are
// deleted at once, so that a lone task reads as delivered when its consumer has it.
func (d *Deliverer) deleteRows(sent []*delivery) {
	if len(sent) == 0 {
		return
	}
	b := &d.deletes
	b.mu.Lock()
	b.waiting = append(b.waiting, sent...)
	n := len(b.waiting) / deleteBatchSize * deleteBatchSize
	if now := clock.Mono(d.Clock); !b.timed && now-b.last >= deleteTogether*d.Together {
		n, b.last = len(b.waiting), now
	}
	now := b.waiting[:n:n]
	b.waiting = slices.Clone(b.waiting[n:])
	if !b.timed && len(b.waiting) > 0 {
		b.timed = true
		go d.deleteWaiting()
	}
	b.mu.Unlock()
	d.deleteBatch(now)
}

// deleteWaiting deletes the rows that wait, after a while.
func (d *Deliverer) deleteWaiting() {
	_ = clock.Sleep(context.Background(), d.Clock, deleteTogether*d.Together)
	b := &d.deletes
	b.mu.Lock()
	all := b.waiting
	b.waiting, b.timed, b.last = nil, false, clock.Mono(d.Clock)
	b.mu.Unlock()
	d.deleteBatch(all)
}

// deleteBatch ends the rows of sent tasks: wake-up rows go, and task rows, which keep a key taken, become
// delivered. If another process has the row by now, the task is done all the same. These writes are durable:
// a task whose delete is forgotten in a crash is sent twice.
func (d *Deliverer) deleteBatch(sent []*delivery) {
	ops := make([]store.Op, 0, 2*len(sent))
	at := make([]int, 0, len(sent)) // of each one's first write
	of := make([]*delivery, 0, len(sent))
	for _, one := range sent {
		writes, err := d.deletesOf(&one.order)
		if err != nil {
			one.close(err)
			continue
		}
		at, of, ops = append(at, len(ops)), append(of, one), append(ops, writes...)
	}
	if len(ops) == 0 {
		return
	}
	ctx := context.Background() // several calls wait for it, each of which may give up by itself
	outcomes := store.Outcomes(ctx, d.Store, ops)
	var payloads []store.Op
	deleted := make([]*delivery, 0, len(of))
	for k, one := range of {
		t := &one.order.Task
		if outcome := outcomes[at[k]]; outcome != nil && !errors.Is(outcome, store.ErrConflict) {
			one.close(fmt.Errorf("remove row of delivered task %s: %w", t.ID, outcome))
			continue
		}
		deleted = append(deleted, one)
		if one.order.First && t.PayloadStoredApart() && !d.Store.PayloadsExpire() {
			payloads = append(payloads, store.ForgetPayload(t))
		}
	}
	if len(payloads) > 0 { // a payload that is forgotten in a crash belongs to no task
		if _, err := d.Store.Apply(ctx, payloads); err != nil {
			d.Log.WarnContext(ctx, "payloads of delivered tasks not deleted", slog.Int("payloads", len(payloads)), slog.Any("error", err))
		}
	}
	for _, one := range deleted {
		one.close(nil)
	}
}

// deletesOf returns the writes that end a delivered task.
func (d *Deliverer) deletesOf(o *task.Order) ([]store.Op, error) {
	if o.First {
		return []store.Op{store.RemoveDelivered(&o.Task)}, nil
	}
	l := d.Lambdas.ByRef(o.Task.Partition.Lambda)
	if l == nil {
		return nil, unknownLambda(&o.Task)
	}
	next, _, err := o.Task.Apply(task.Event{Kind: task.HandOver}, d.Clock.Now(), l.PolicyFor(&o.Task))
	return store.Change(next, false, true), err
}
