package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/kinesin-io/kinesin/internal/gather"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// deleteBatchSize is how many rows are deleted at once, as many as a request of DynamoDB takes.
	deleteBatchSize = 25
	// deletesMax is how many such batches are under way at a time. Further rows wait until one of them is done.
	deletesMax = 16
	// deleteTogether is how long fewer rows wait for more, in multiples of Together. If the process is killed
	// meanwhile, their tasks are sent again.
	deleteTogether = 2
)

// newDeletes returns a gatherer that deletes the rows of sent tasks in batches. After a quiet time it deletes at once, so that
// a lone task reads as delivered when its consumer has it.
func (d *Deliverer) newDeletes() *gather.Gatherer[*delivery] {
	return gather.New(gather.Config[*delivery]{
		Clock: d.Clock, Send: d.deleteBatch, ItemsMax: deleteBatchSize, SendsMax: deletesMax, Linger: deleteTogether * d.Together, LoneAtOnce: true,
	})
}

// deleteRows hands the rows of sent tasks to the gatherer.
func (d *Deliverer) deleteRows(sent []*delivery) {
	if len(sent) > 0 {
		d.deletes.Put(sent...)
	}
}

// deleteBatch ends the rows of sent tasks: wake-up rows go, and task rows, which keep a key taken, become
// delivered. If another process has the row by now, the task is done all the same. These writes are durable:
// a task whose delete is forgotten in a crash is sent twice. Each delivery is told what became of it.
func (d *Deliverer) deleteBatch(ctx context.Context, sent []*delivery) []error {
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
		return nil
	}
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
	return nil
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
