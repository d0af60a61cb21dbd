package dispatcher

import (
	"context"

	"github.com/kinesin-io/kinesin/task"
)

// open makes deliveries of orders.
func (c *deliverCall) open(orders []task.Order) []*delivery {
	all := make([]*delivery, len(orders))
	for i := range orders {
		all[i] = &delivery{call: c, order: orders[i], payload: orders[i].Task.Payload, done: make(chan struct{})}
	}
	return all
}

// wait waits until deliveries are closed. Those that are open when ctx ends are left; the send or delete that
// they share with other calls goes on.
func wait(ctx context.Context, deliveries []*delivery) {
	for _, d := range deliveries {
		select {
		case <-d.done:
		case <-ctx.Done():
			d.close(context.Cause(ctx))
		}
	}
}

// isOpen reports whether the call still waits for the delivery.
func (d *delivery) isOpen() bool {
	d.call.mu.Lock()
	defer d.call.mu.Unlock()
	return !d.closed
}

// noteSent notes that the task is on its queue.
func (d *delivery) noteSent() {
	d.call.mu.Lock()
	defer d.call.mu.Unlock()
	d.order.Sent = true
}

// close ends the delivery; with an error its order is left.
func (d *delivery) close(err error) {
	c := d.call
	c.mu.Lock()
	if d.closed {
		c.mu.Unlock()
		return
	}
	d.closed = true
	o := d.order
	if err != nil {
		c.left = append(c.left, task.Undelivered{Order: o, Acquired: true, Err: err})
	}
	c.mu.Unlock()
	close(d.done)
	if err != nil && !o.Sent && c.Hooks.Undelivered != nil {
		c.Hooks.Undelivered(&o.Task, err)
	}
}

// leave returns an order to the caller that could not even be acquired.
func (c *deliverCall) leave(o *task.Order, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.left = append(c.left, task.Undelivered{Order: *o, Err: err})
}
