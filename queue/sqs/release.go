package sqs

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/queue"
)

// Delete implements queue.Driver. It does not wait for SQS: a message that is deleted later, or not at all,
// is refused at the claim when it comes again.
func (d *Driver) Delete(_ context.Context, messages []queue.Message) error {
	for _, m := range d.prefetch.finish(messages) {
		m.lane.delete(m)
	}
	return nil
}

// Release implements queue.Driver. The tasks go back to SQS.
func (d *Driver) Release(_ context.Context, messages []queue.Message, delay time.Duration) error {
	d.giveBack(d.prefetch.release(messages), delay)
	return nil
}

// giveBack makes tasks visible to others. It returns an SQS message when all its tasks go back. When some are
// done or in hand, it sends the others again, each alone.
func (d *Driver) giveBack(tasks []*heldTask, delay time.Duration) {
	whole, rest := d.prefetch.removeWhole(tasks)
	hide(whole, delay)
	for _, m := range whole {
		d.client.Observer.Returned(m.lane.name, len(m.tasks), 0)
	}
	for _, t := range rest {
		d.resend(t, delay)
	}
}

// resend sends a task of a shared message alone. When that fails, the message comes again with all its tasks;
// those that are done are refused then.
func (d *Driver) resend(h *heldTask, delay time.Duration) {
	l, t := h.of.lane, &h.message.Task
	sending := l.sends.Put(&outgoing{
		field: d.Codec.field(t), due: t.HeldUntil(), after: delay, alone: true, trace: t.Traceparent,
		done: func(err error) {
			if err != nil {
				d.prefetch.forget(h.of)
				return
			}
			d.client.Observer.Returned(l.name, 1, 1)
			if m := d.prefetch.finishTask(h); m != nil {
				l.delete(m)
			}
		},
	})
	if !sending {
		d.prefetch.forget(h.of)
	}
}
