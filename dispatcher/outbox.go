package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// togetherMax is how many tasks wait for each other at most: a request of SQS takes no more.
	togetherMax = 10
	// sendMax is how many tasks are sent by one call at most. Their rows are removed when all of them are
	// sent: of a crowd, sends go first, and still the removals do not wait for the whole of it.
	sendMax = 512
	// freshFor is how long after it was acquired a task may still be sent. A process that was stopped for
	// longer must acquire it again, since another one may have done so.
	freshFor = task.AcquireTimeout / 2
)

// errStale keeps a task from being sent by a process that may have lost it meanwhile.
var errStale = errors.New("acquired too long ago to be sent")

// outbox holds the acquired tasks of one queue until they are sent: those of all its partitions and of all
// calls. Tasks that are due within Together of the first are sent together, when the last of them is due, so
// that they share a request. A task with no other due so soon after it is sent when it is due: the outbox
// knows, since tasks are acquired further ahead than Together.
type outbox struct {
	queue   task.Partition // without its shard
	parcels []*parcel      // in order of due time
	sooner  chan struct{}  // has an element when the next may leave earlier than it was known
}

// post puts parcels in the outboxes of their queues.
func (c *Courier) post(parcels []*parcel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range parcels {
		queue := p.order.Task.Partition
		queue.Shard = 0
		o := c.outboxes[queue]
		if o == nil {
			o = &outbox{queue: queue, sooner: make(chan struct{}, 1)}
			c.outboxes[queue] = o
			go c.keepSending(o)
		}
		o.add(p)
	}
}

func (o *outbox) add(p *parcel) {
	at, _ := slices.BinarySearchFunc(o.parcels, p.order.Task.Due+1, func(p *parcel, due task.Instant) int {
		return int(p.order.Task.Due - due)
	})
	o.parcels = slices.Insert(o.parcels, at, p)
	if at < togetherMax {
		wake(o.sooner)
	}
}

// leavesAt is when the next tasks of an outbox that is not empty leave.
func (o *outbox) leavesAt(together task.Instant) (at task.Instant) {
	first := o.parcels[0].order.Task.Due
	for _, p := range o.parcels[:min(togetherMax, len(o.parcels))] {
		if due := p.order.Task.Due; due <= first+together {
			at = due
		}
	}
	return at
}

// take removes what is due by now.
func (o *outbox) take(now task.Instant) (due []*parcel) {
	n := 0
	for n < len(o.parcels) && o.parcels[n].order.Task.Due <= now {
		n++
	}
	due = slices.Clone(o.parcels[:n])
	o.parcels = slices.Delete(o.parcels, 0, n)
	return due
}

// keepSending sends the tasks of an outbox until that is empty.
func (c *Courier) keepSending(o *outbox) {
	timer := c.Clock.NewTimer(0)
	defer timer.Stop()
	for {
		began, now := clock.StampOf(timer), c.Clock.Now()
		due, next, empty := c.leaving(o, now)
		for part := range slices.Chunk(due, sendMax) {
			go c.send(part) // a slow one delays no other
		}
		if empty {
			return
		}
		clock.ResetFrom(timer, began, next.Sub(now))
		select {
		case <-timer.C():
		case <-o.sooner:
		}
	}
}

// leaving takes what leaves now, and says when the next tasks leave. An empty outbox is forgotten.
func (c *Courier) leaving(o *outbox, now task.Instant) (due []*parcel, next task.Instant, empty bool) {
	together := task.Instant(0).Add(c.Together)
	c.mu.Lock()
	defer c.mu.Unlock()
	if o.leavesAt(together) <= now {
		due = o.take(now)
	}
	if len(o.parcels) == 0 {
		delete(c.outboxes, o.queue)
		return due, 0, true
	}
	return due, o.leavesAt(together), false
}

// send puts parcels on their queue and has the rows of those that are there removed. It lasts beyond the
// calls that they are of, each of which may give up by itself.
func (c *Courier) send(parcels []*parcel) {
	now := c.Clock.Now()
	deliveries := make([]queue.Delivery, 0, len(parcels))
	of := make([]*parcel, 0, len(parcels))
	for _, p := range parcels {
		t := &p.order.Task
		switch {
		case !p.isOpen():
		case now.Sub(t.ClaimedAt) >= freshFor:
			p.close(errStale)
		default:
			deliveries = append(deliveries, queue.Delivery{Task: *t, ID: c.Sealer.Seal(task.TokenOf(t)), Payload: p.payload})
			of = append(of, p)
		}
	}
	if len(deliveries) == 0 {
		return
	}
	results := c.Queue.Deliver(context.Background(), deliveries)
	c.remove(c.delivered(of, results))
}

// delivered notes which parcels are on their queue, and returns them.
func (c *Courier) delivered(parcels []*parcel, results []error) (sent []*parcel) {
	now := c.Clock.Now()
	for k, p := range parcels {
		t := &p.order.Task
		if results[k] != nil {
			p.close(fmt.Errorf("deliver task %s: %w", t.ID, results[k]))
			continue
		}
		p.sent()
		sent = append(sent, p)
		if c.Hooks.Delivered != nil {
			c.Hooks.Delivered(t, now.Sub(t.Due))
		}
	}
	if len(sent) > 0 && c.Ended != nil {
		c.Ended()
	}
	return sent
}
