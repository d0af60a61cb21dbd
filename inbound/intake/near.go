package intake

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// matchAhead is how long before its due time a task may take a slot: as long as workers hold what they claim,
// so that the slot is not kept from a task that could run meanwhile.
const matchAhead = 40 * time.Millisecond

// isNear reports whether a task skips the schedule: it is due within moments, and its queue is far from full,
// so that memory stays bounded and older tasks are not overtaken.
func (b *Batch) isNear(ctx context.Context, t *task.Task) bool {
	if t.Due > b.Now.Add(b.Near) || b.isSchedulerOnly(t.Partition.Lambda) {
		return false
	}
	r := b.roomOf(ctx, queue.NameFor(t))
	r.left--
	return r.left >= 0
}

func (b *Batch) isSchedulerOnly(lambda uint32) bool {
	return b.SchedulerOnly != nil && b.SchedulerOnly(lambda)
}

func (b *Batch) roomOf(ctx context.Context, name queue.Name) *room {
	if r := b.rooms[name]; r != nil {
		return r
	}
	r := &room{queued: true}
	if depth, err := b.Queue.Depth(ctx, name); err == nil {
		r.left, r.queued = b.NearDepthMax-depth.Visible, depth.Oldest > 0
	}
	if b.rooms == nil {
		b.rooms = map[queue.Name]*room{}
	}
	b.rooms[name] = r
	return r
}

// planNear plans the rows of a task that goes to its queue at once, or to a slot.
func (b *Batch) planNear(ctx context.Context, c *Incoming) error {
	event := task.Event{Kind: task.Enqueue, By: b.Process}
	if c.slot = b.match(ctx, c); c.slot != nil {
		event = task.Event{Kind: task.Match, Worker: c.slot.Worker(), Lease: c.slot.Lease()}
	}
	next, _, err := c.Task.Apply(event, b.Now, c.Lambda.PolicyFor(c.Task))
	if err == nil {
		b.put(c, store.FirstWithRow(next))
	}
	return err
}

// match reserves a slot for a task that is due, unless others wait that it must not overtake. Once none is
// free the later tasks of the batch must not overtake this one.
func (b *Batch) match(ctx context.Context, c *Incoming) Slot {
	t := c.Task
	if b.Matcher == nil || t.Due > b.Now.Add(matchAhead) || b.anyWaits(ctx, c) {
		return nil
	}
	slot := b.Matcher.Match(t)
	b.roomOf(ctx, queue.NameFor(t)).queued = slot == nil
	return slot
}

// anyWaits reports whether tasks wait that one must not overtake. A queue that is a service is asked for
// other priorities only where they have weights: each answer is a request.
func (b *Batch) anyWaits(ctx context.Context, c *Incoming) bool {
	name := queue.NameFor(c.Task)
	if b.roomOf(ctx, name).queued {
		return true
	}
	if b.Queue.Durable() && c.Lambda.PriorityWeights == nil {
		return false
	}
	for priority := range c.Lambda.PrioritiesBefore(name.Priority) {
		if name.Priority = priority; b.roomOf(ctx, name).queued {
			return true
		}
	}
	return false
}

// settleSlot settles the slot of a task, if it has one. The scheduler hears first that the task is in flight,
// so that it cannot hear of the end before.
func (b *Batch) settleSlot(c *Incoming, outcome error) {
	if c.slot == nil {
		return
	}
	if outcome == nil {
		b.Scheduler.Enqueued(c.Task)
	}
	c.slot.Settle(c.Task, outcome)
	c.slot = nil
}

// releaseSlots releases the slots of tasks that were not written.
func (b *Batch) releaseSlots() {
	for i := range b.Tasks {
		b.settleSlot(&b.Tasks[i], store.ErrSkipped)
	}
}
