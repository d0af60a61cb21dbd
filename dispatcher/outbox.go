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
	// shareMax is how many tasks wait for each other at most: a request of SQS takes no more.
	shareMax = 10
	// sendMax is how many tasks one call sends at most. Their rows are deleted when all of them are sent: of
	// a crowd, sends go first, and still the deletes do not wait for the whole of it.
	sendMax = 512
	// freshFor is how long after it was acquired a task may still be sent. A process that was stopped for
	// longer must acquire it again, since another one may have done so.
	freshFor = task.AcquireTimeout / 2
)

// errStale keeps a task from being sent by a process that another one may have taken it from.
var errStale = errors.New("acquired too long ago to be sent")

// post puts deliveries in the outboxes of their queues.
func (d *Deliverer) post(deliveries []*delivery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range deliveries {
		queue := one.order.Task.Partition
		queue.Shard = 0
		o := d.outboxes[queue]
		if o == nil {
			o = &outbox{queue: queue, changed: make(chan struct{}, 1)}
			d.outboxes[queue] = o
			go d.empty(o)
		}
		o.add(one)
	}
}

func (o *outbox) add(one *delivery) {
	at, _ := slices.BinarySearchFunc(o.deliveries, one.order.Task.Due+1, func(d *delivery, due task.Instant) int {
		return int(d.order.Task.Due - due)
	})
	o.deliveries = slices.Insert(o.deliveries, at, one)
	if at < shareMax {
		select {
		case o.changed <- struct{}{}:
		default:
		}
	}
}

// nextSend returns when the first tasks of an outbox that is not empty are sent.
func (o *outbox) nextSend(together task.Instant) (at task.Instant) {
	first := o.deliveries[0].order.Task.Due
	for _, d := range o.deliveries[:min(shareMax, len(o.deliveries))] {
		if due := d.order.Task.Due; due <= first+together {
			at = due
		}
	}
	return at
}

// take removes and returns what is due by now.
func (o *outbox) take(now task.Instant) (due []*delivery) {
	n := 0
	for n < len(o.deliveries) && o.deliveries[n].order.Task.Due <= now {
		n++
	}
	due = slices.Clone(o.deliveries[:n])
	o.deliveries = slices.Delete(o.deliveries, 0, n)
	return due
}

// empty sends the tasks of an outbox until there are no more.
func (d *Deliverer) empty(o *outbox) {
	timer := d.Clock.NewTimer(0)
	defer timer.Stop()
	for {
		began, now := clock.StampOf(timer), d.Clock.Now()
		due, next, empty := d.takeDue(o, now)
		for part := range slices.Chunk(due, sendMax) {
			go d.send(part) // a slow send delays no other
		}
		if empty {
			return
		}
		clock.ResetFrom(timer, began, next.Sub(now))
		select {
		case <-timer.C():
		case <-o.changed:
		}
	}
}

// takeDue takes what is sent now, and returns when the next tasks are sent. An empty outbox is forgotten.
func (d *Deliverer) takeDue(o *outbox, now task.Instant) (due []*delivery, next task.Instant, empty bool) {
	together := task.Instant(0).Add(d.Together)
	d.mu.Lock()
	defer d.mu.Unlock()
	if o.nextSend(together) <= now {
		due = o.take(now)
	}
	if len(o.deliveries) == 0 {
		delete(d.outboxes, o.queue)
		return due, 0, true
	}
	return due, o.nextSend(together), false
}

// send puts tasks on their queue and has the rows deleted of those that are there. It outlasts the calls,
// each of which may give up by itself.
func (d *Deliverer) send(deliveries []*delivery) {
	now := d.Clock.Now()
	messages := make([]queue.Delivery, 0, len(deliveries))
	of := make([]*delivery, 0, len(deliveries))
	for _, one := range deliveries {
		t := &one.order.Task
		switch {
		case !one.isOpen():
		case now.Sub(t.ClaimedAt) >= freshFor:
			one.close(errStale)
		default:
			messages = append(messages, queue.Delivery{Task: *t, ID: d.Sealer.SealTask(t), Payload: one.payload})
			of = append(of, one)
		}
	}
	if len(messages) == 0 {
		return
	}
	results := d.Queue.Deliver(context.Background(), messages)
	d.deleteRows(d.settle(of, results))
}

// settle notes which tasks are on their queue, and returns those.
func (d *Deliverer) settle(deliveries []*delivery, results []error) (sent []*delivery) {
	now := d.Clock.Now()
	for k, one := range deliveries {
		t := &one.order.Task
		if results[k] != nil {
			one.close(fmt.Errorf("deliver task %s: %w", t.ID, results[k]))
			continue
		}
		one.noteSent()
		sent = append(sent, one)
		if d.Hooks.Delivered != nil {
			d.Hooks.Delivered(t, now.Sub(t.Due))
		}
	}
	if len(sent) > 0 && d.Ended != nil {
		ids := make([]task.ID, len(sent))
		for i, one := range sent {
			ids[i] = one.order.Task.ID
		}
		d.Ended(ids)
	}
	return sent
}
