package inbound

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/catalog"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// matchAhead is how long before its due time a task may take a slot: as long as workers hold what they claim, so that a slot
// that could run another task meanwhile is not kept for it.
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

// match makes the event of an item that puts its task on its queue one that hands it to a worker, if there is one that waits
// and the task is due. Those behind one for which there is none are not to overtake it.
func (b *intake) match(ctx context.Context, i int, t *task.Task, event *task.Event) {
	if b.Matcher == nil || t.Due > b.now.Add(matchAhead) {
		return
	}
	r := b.roomOf(ctx, queue.NameFor(t))
	if r.queued {
		return
	}
	slot := b.Matcher.Match(t)
	if slot == nil {
		r.queued = true
		return
	}
	if b.slots == nil {
		b.slots = map[int]Slot{}
	}
	b.slots[i] = slot
	*event = task.Event{Kind: task.Match, Worker: slot.Worker(), Lease: slot.Lease()}
}

// planNear plans the write of a task that goes to its queue at once, or to a worker.
func (b *intake) planNear(ctx context.Context, i int, l *catalog.Entry, t *task.Task, payload []byte) error {
	event := task.Event{Kind: task.Enqueue, By: b.Process}
	b.match(ctx, i, t, &event)
	next, _, err := t.Apply(event, b.now, l.PolicyFor(t))
	if err != nil {
		b.settleSlot(i, t, err)
		return err
	}
	b.put(i, l, store.FirstWithRow(next), payload)
	return nil
}

// settleSlot settles the slot of an item, if it has one. The scheduler is told first that the task is under way, so that it
// cannot hear of the end before.
func (b *intake) settleSlot(i int, claimed *task.Task, outcome error) {
	slot := b.slots[i]
	if slot == nil {
		return
	}
	delete(b.slots, i)
	if outcome == nil {
		b.Scheduler.Enqueued(claimed)
	}
	slot.Settle(claimed, outcome)
}

// settleSlots gives back the slots of items that were not written.
func (b *intake) settleSlots() {
	for i := range b.slots {
		b.settleSlot(i, &task.Task{}, store.ErrSkipped)
	}
}
