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
	round    Round
}

// write is the change of one order's task row.
type write struct {
	order, op int // indexes in the call's orders and in ops
	start     Start
}

// settle turns the outcome of a write into a result, and a message if the write enqueued the task.
func (b *batch) settle(w *write, outcome error) {
	r, next := &b.results[w.order], &b.ops[w.op].Task
	b.round.Settle(&w.start, next, outcome)
	var conflict *store.ConflictError
	switch {
	case outcome == nil:
		r.Task, r.Done = *next, true
		if w.start.Effect == task.Send {
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
