package dispatcher

import (
	"errors"
	"fmt"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// batch is one call of Dispatch.
type batch struct {
	results  []task.Dispatched
	ops      []store.Op
	writes   []write
	messages []queue.Message
	asked    bool // whether messages wait in the queue, which all orders of a batch share
	queued   bool // they do, so that all orders go through the queue
}

// write is the change of one order's task row.
type write struct {
	order, op int // indexes in the call's orders and in ops
	effect    task.Effect
	slot      Slot // of a direct hand-off; else nil
}

// settle turns the outcome of a write into a result, and a message if the write enqueued the task.
func (b *batch) settle(w *write, outcome error) {
	r, next := &b.results[w.order], &b.ops[w.op].Task
	if w.slot != nil {
		w.slot.Settle(next, outcome)
	}
	var conflict *store.ConflictError
	switch {
	case outcome == nil:
		r.Task, r.Done = *next, true
		if w.effect == task.Send {
			b.messages = append(b.messages, queue.Message{Task: *next})
		}
	case errors.As(outcome, &conflict):
		if conflict.Task != nil {
			r.Task = *conflict.Task
		}
	default:
		r.Err = fmt.Errorf("change task %s: %w", next.ID, outcome)
	}
}
