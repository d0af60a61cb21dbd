package dispatcher

import (
	"context"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// match turns an order that puts a task on its queue into a direct hand-off, if a worker waits and no task
// that waits longer, or is due no later and of a higher priority, is overtaken. The caller settles the slot with the outcome of the write.
func (d *Dispatcher) match(ctx context.Context, b *batch, o *task.Order, event *task.Event) Slot {
	t := &o.Task
	if d.Matcher == nil || o.Event.Kind != task.Enqueue || o.InTurn || t.Suspect || t.State == task.Enqueued {
		return nil
	}
	if !b.asked {
		b.asked, b.queued = true, d.AnyWaits(ctx, t)
	}
	if b.queued {
		return nil
	}
	slot := d.Matcher.Match(t)
	if slot == nil {
		b.queued = true // and so do all behind it
		return nil
	}
	*event = task.Event{Kind: task.Match, Worker: slot.Worker(), Lease: slot.Lease()}
	return slot
}

// waitMin is from how many messages on a service's queue on they are taken for tasks that wait for workers.
// Fewer are on their way: if they counted, one moment of load would send all tasks of a steady load through
// the queue from then on.
const waitMin = 32

// AnyWaits reports whether messages of a task's priority, or of a higher one of its lambda, are known to
// wait; with weights of any one, since each has its turns. It asks no service: there the depth counts that
// Room has cached.
func (d *Dispatcher) AnyWaits(ctx context.Context, t *task.Task) bool {
	for priority := range d.Policies.PrioritiesBefore(t) {
		name := queue.Name{Lambda: t.Partition.Lambda, Priority: priority}
		if d.Queue.Durable() {
			if visible, known := d.depths.get(name); known && visible >= waitMin {
				return true
			}
			continue
		}
		if depth, err := d.Queue.Depth(ctx, name); err != nil || depth.Oldest > 0 {
			return true
		}
	}
	return false
}

// sendsFirst reports whether the message of a first order is sent before the task has a task row. It is sent
// first where the queue is this process's memory and a worker of this process will receive it: its claim then
// writes the row, and one write serves for enqueue and claim, as in a direct hand-off. If the message is
// lost, so is the process. A task that is older than such a message may become is stored as enqueued, whose
// timeout keeps messages of a long backlog from piling up.
func (d *Dispatcher) sendsFirst(o *task.Order, now task.Instant) bool {
	if !o.First || o.Event.Kind != task.Enqueue || d.Matcher == nil || d.Queue.Durable() || o.Task.Occurrence != nil {
		return false
	}
	return now < o.Task.WakeRow.At.Add(task.UndispatchedMax) && d.Matcher.Serves(&o.Task)
}
