package sqs

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/task"
)

// Receive implements queue.Driver. Messages come from the local buffer; while somebody waits for more than it
// has, the polls of the lanes fill it.
func (d *Driver) Receive(ctx context.Context, names []queue.Name, limit int, ahead time.Duration) ([]queue.Message, error) {
	if err := d.refusal(ctx); err != nil {
		return nil, err
	}
	lanes := d.lanesOf(names)
	for _, l := range lanes {
		l.join(limit)
	}
	got, err := d.buffer.Receive(ctx, names, limit, ahead)
	for _, l := range lanes {
		l.leave(limit)
	}
	if len(got) > 0 {
		d.hand.take(got, (*lane).took)
	}
	return got, err
}

// lanesOf are the queues of names, each once. Names of lambdas that are not known here have none,
// and those of lambdas in deliver mode neither: their messages are not ours to receive.
func (d *Driver) lanesOf(names []queue.Name) []*lane {
	lanes := make([]*lane, 0, len(names))
next:
	for i, n := range names {
		for _, earlier := range names[:i] {
			if keyOf(earlier) == keyOf(n) {
				continue next
			}
		}
		if l, err := d.laneOf(keyOf(n), task.Managed); err == nil {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

// Delete implements queue.Driver. It does not wait: what is deleted later, together with others, or not at all, is
// refused at the claim when it comes again.
func (d *Driver) Delete(_ context.Context, messages []queue.Message) error {
	gone := d.buffer.DeleteTagged(messages)
	numbers := make([]uint64, len(gone))
	for i := range gone {
		numbers[i] = mem.TagOf(gone[i].Receipt)
	}
	for _, m := range d.hand.finish(numbers...) {
		m.lane.deleteLater(m)
	}
	return nil
}

func (l *lane) deleteLater(m *held) {
	l.deletes.add([]string{m.handle}, l.driver.DeleteLinger, true)
}

// Release implements queue.Driver. A task for which somebody here waits stays, a few times; others go back to SQS.
func (d *Driver) Release(ctx context.Context, messages []queue.Message, delay time.Duration) error {
	var stay, leave []queue.Message
	for i := range messages {
		m := &messages[i]
		if delay <= d.Hold && !d.closed.Load() && d.buffer.IsAwaited(queue.NameFor(&m.Task)) && d.hand.mayStay(mem.TagOf(m.Receipt)) {
			stay = append(stay, *m)
		} else {
			leave = append(leave, *m)
		}
	}
	d.giveBack(d.buffer.DeleteTagged(leave), delay, false)
	if len(stay) == 0 {
		return nil
	}
	return d.buffer.Release(ctx, stay, delay)
}

// giveBack has others see tasks that are not in the buffer any more: by making their SQS message visible where all of it
// goes back, and by sending them anew, each alone, where it shares one with tasks that are done or in hand.
func (d *Driver) giveBack(messages []queue.Message, delay time.Duration, unclaimed bool) {
	if len(messages) == 0 {
		return
	}
	numbers := make([]uint64, len(messages))
	for i := range messages {
		numbers[i] = mem.TagOf(messages[i].Receipt)
	}
	whole, rest := d.hand.whole(numbers)
	for _, m := range whole {
		after := delay
		if unclaimed {
			after = max(after, m.apart)
		}
		m.lane.returns.add([]returned{{handle: m.handle, after: after}}, d.Linger, false)
		d.observeReturned(m.lane.name, len(m.pieces), 0)
	}
	for _, i := range rest {
		d.resend(&messages[i].Task, numbers[i], delay)
	}
}

// resend sends a task of a shared message alone. When that fails the message stays as it is, and comes again with all of
// its tasks; those that are done by then are refused.
func (d *Driver) resend(t *task.Task, number uint64, delay time.Duration) {
	m := d.hand.messageOf(number)
	if m == nil {
		return
	}
	l := m.lane
	l.sends.add([]*outgoing{{
		field: appendField(nil, t), due: t.Due, after: delay, alone: true, trace: t.Traceparent,
		settle: func(err error) {
			if err != nil {
				d.hand.forget(m)
				return
			}
			d.observeReturned(l.name, 1, 1)
			for _, over := range d.hand.finish(number) {
				over.lane.deleteLater(over)
			}
		},
	}}, d.Linger, false)
}
