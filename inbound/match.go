package inbound

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// matchAhead is how long before its due time a task may take a slot: as long as workers hold what they claim,
// so that a slot that could run another task meanwhile is not kept for it.
const matchAhead = 40 * time.Millisecond

// Matcher finds workers of this process that wait for a task.
type Matcher interface {
	// Match reserves a slot for a task; nil: there is none.
	Match(t *task.Task) Slot
}

// Slot is what a Matcher reserved: of that worker, with a lease of that length.
type Slot interface {
	Worker() string
	Lease() time.Duration
	// Settle says what became of the write of the task as claimed: it is called once.
	Settle(claimed *task.Task, outcome error)
}

// room is what is known of a queue during an intake.
type room struct {
	left   int  // how many more tasks go there at once
	queued bool // some wait there, or will when the call is over
}

// near reports whether a task skips the schedule: it is due within moments, and its queue is far
// from full, so that memory stays bounded and older tasks are not overtaken.
func (b *intake) near(ctx context.Context, t *task.Task) bool {
	if t.Due > b.now.Add(b.Near) {
		return false
	}
	r := b.roomOf(ctx, queue.NameFor(t))
	r.left--
	return r.left >= 0
}

func (b *intake) roomOf(ctx context.Context, name queue.Name) *room {
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

// match makes the event that puts a task on its queue one that hands it to a worker, if there is one that
// waits and the task is due. Those behind one for which there is none are not to overtake it.
func (b *intake) match(ctx context.Context, c *incoming, event *task.Event) {
	if b.Matcher == nil || c.task.Due > b.now.Add(matchAhead) {
		return
	}
	r := b.roomOf(ctx, queue.NameFor(c.task))
	if r.queued {
		return
	}
	if c.slot = b.Matcher.Match(c.task); c.slot == nil {
		r.queued = true
		return
	}
	*event = task.Event{Kind: task.Match, Worker: c.slot.Worker(), Lease: c.slot.Lease()}
}

// planNear plans the write of a task that goes to its queue at once, or to a worker.
func (b *intake) planNear(ctx context.Context, c *incoming) error {
	event := task.Event{Kind: task.Enqueue, By: b.Process}
	b.match(ctx, c, &event)
	next, _, err := c.task.Apply(event, b.now, c.lambda.PolicyFor(c.task))
	if err == nil {
		b.put(c, store.FirstWithRow(next))
	}
	return err
}

// settleSlot settles the slot of a task, if it has one. The scheduler is told first that the task is under
// way, so that it cannot hear of the end before.
func (b *intake) settleSlot(c *incoming, outcome error) {
	if c.slot == nil {
		return
	}
	if outcome == nil {
		b.Scheduler.Enqueued(c.task)
	}
	c.slot.Settle(c.task, outcome)
	c.slot = nil
}

// giveSlotsBack gives back the slots of tasks that were not written.
func (b *intake) giveSlotsBack() {
	for i := range b.tasks {
		b.settleSlot(&b.tasks[i], store.ErrSkipped)
	}
}
