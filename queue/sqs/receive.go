package sqs

import (
	"context"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// holdMax is how long a due task that nobody here takes stays here before others can have it.
	holdMax = 250 * time.Millisecond
	// sweepEvery is how often the prefetched messages are checked for such tasks, and hidden for longer.
	sweepEvery = holdMax / 4
)

// Receive implements queue.Driver. It hands out prefetched tasks. While receivers wait for more, polls of
// their lanes fetch more.
func (d *Driver) Receive(ctx context.Context, names []queue.Name, limit int, ahead time.Duration) ([]queue.Message, error) {
	if err := d.usable(ctx); err != nil {
		return nil, err
	}
	now, steady := clock.Both(d.Clock)
	r := &receiver{names, limit, ahead, steady, make(chan []queue.Message, 1)}
	if got, err := d.prefetch.join(r, now, steady); len(got) > 0 || err != nil {
		return got, err
	}
	for _, l := range d.lanesOf(names) {
		l.tend()
	}
	return d.prefetch.await(ctx, r)
}

// lanesOf returns the lane of each name, once. It skips lambdas that this process does not know, and those in
// deliver mode, whose messages are not for workers.
func (d *Driver) lanesOf(names []queue.Name) []*lane {
	lanes := make([]*lane, 0, len(names))
	for _, n := range names {
		if l, err := d.laneFor(keyOf(n), task.Managed); err == nil && !slices.Contains(lanes, l) {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

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

// handOut serves the receivers, and starts the timekeeper unless it runs.
func (d *Driver) handOut(now, steady task.Instant) {
	p := d.prefetch
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serve(now, steady)
	if !p.isTimed {
		p.isTimed = d.start(d.timekeeper)
	}
}

// timekeeper hands out tasks when they are due, and sweeps. It ends when nothing is prefetched.
func (d *Driver) timekeeper() {
	p := d.prefetch
	timer := d.Clock.NewTimer(sweepEvery)
	defer timer.Stop()
	swept := clock.Steady(d.Clock)
	for {
		began, now, steady := clock.StampOf(timer), d.Clock.Now(), clock.Steady(d.Clock)
		if steady.Sub(swept) >= sweepEvery {
			d.sweep(steady)
			swept = steady
		}
		p.mu.Lock()
		if len(p.messages) == 0 || p.closed {
			p.isTimed = false
			p.mu.Unlock()
			return
		}
		wait := p.serve(now, steady)
		p.mu.Unlock()
		clock.ResetFrom(timer, began, min(wait, swept.Add(sweepEvery).Sub(steady)))
		select {
		case <-timer.C():
		case <-p.changed:
		case <-d.open.Done():
		}
	}
}

// sweep gives back the tasks that nobody here took in holdMax, and keeps those in hand hidden. Suspects are
// only forgotten, so that SQS shows them again in its own time: a process that runs a blamed task takes no
// other one, and its polls would fetch and return those over and over.
func (d *Driver) sweep(now task.Instant) {
	var back []*heldTask
	lanes := map[*lane]bool{}
	for _, t := range d.prefetch.removeWaiting(now.Add(-holdMax)) {
		lanes[t.of.lane] = true
		if t.name().Class == queue.Normal {
			back = append(back, t)
		} else {
			d.prefetch.forget(t.of)
		}
	}
	d.giveBack(back, 0)
	for l := range lanes {
		l.tend()
	}
	d.prefetch.renew(now)
}
