package sqs

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// holdLooks is how often within Config.Hold it is looked what nobody here has come for.
const holdLooks = 4

// Receive implements queue.Driver. Messages come from what was prefetched; while somebody waits for more than
// that, the polls of the lanes fetch more.
func (d *Driver) Receive(ctx context.Context, names []queue.Name, limit int, ahead time.Duration) ([]queue.Message, error) {
	if err := d.refusal(ctx); err != nil {
		return nil, err
	}
	r := &receiver{names, limit, ahead, make(chan []queue.Message, 1)}
	if got, err := d.prefetch.join(r, d.Clock.Now()); len(got) > 0 || err != nil {
		return got, err
	}
	for _, l := range d.lanesOf(names) {
		l.tend()
	}
	return d.prefetch.await(ctx, r)
}

// lanesOf are the queues of names, each once. Names of lambdas that are not known here have none,
// and those of lambdas in deliver mode neither: their messages are not ours to receive.
func (d *Driver) lanesOf(names []queue.Name) []*lane {
	lanes := make([]*lane, 0, len(names))
	for i, n := range names {
		if slices.ContainsFunc(names[:i], func(earlier queue.Name) bool { return keyOf(earlier) == keyOf(n) }) {
			continue
		}
		if l, err := d.laneOf(keyOf(n), task.Managed); err == nil {
			lanes = append(lanes, l)
		}
	}
	return lanes
}

// Delete implements queue.Driver. It does not wait: what is deleted later, together with others, or not at
// all, is refused at the claim when it comes again.
func (d *Driver) Delete(_ context.Context, messages []queue.Message) error {
	for _, m := range d.prefetch.finish(messages) {
		m.lane.deleteLater(m)
	}
	return nil
}

func (l *lane) deleteLater(m *held) {
	l.deletes.add([]string{m.handle}, l.driver.DeleteLinger, true)
}

// deleteReceived deletes messages. What fails for good comes again and is refused at the claim.
func (l *lane) deleteReceived(handles []string) {
	l.logUnsettled("not deleted", l.driver.client.Delete(l.driver.ctx, l.name, handles))
}

// hide hides messages for longer, or no longer. What fails for good is seen again when its visibility timeout
// ends.
func (l *lane) hide(messages []sqsclient.Hidden) {
	l.logUnsettled("not hidden or shown", l.driver.client.Hide(l.driver.ctx, l.name, latest(messages)))
}

func (l *lane) logUnsettled(what string, err error) {
	if err != nil {
		l.driver.Log.WarnContext(l.driver.ctx, "received messages are seen again later than they should be, or once more",
			slog.String("queue", l.name), slog.String("why", what), slog.Any("error", err))
	}
}

// latest keeps of several changes of one message the last: SQS may carry them out in any order.
func latest(messages []sqsclient.Hidden) []sqsclient.Hidden {
	at := make(map[string]int, len(messages))
	kept := make([]sqsclient.Hidden, 0, len(messages))
	for _, m := range messages {
		if i, twice := at[m.Receipt]; twice {
			kept[i] = m
			continue
		}
		at[m.Receipt] = len(kept)
		kept = append(kept, m)
	}
	return kept
}

// Release implements queue.Driver: the tasks go back to SQS.
func (d *Driver) Release(_ context.Context, messages []queue.Message, delay time.Duration) error {
	d.giveBack(d.prefetch.release(messages), delay)
	return nil
}

// giveBack has others see tasks that are not to be handed out here: by making their SQS message visible where
// all of it goes back, and by sending them anew, each alone, where it shares one with tasks that are done or
// handed out.
func (d *Driver) giveBack(parts []*part, delay time.Duration) {
	whole, rest := d.prefetch.whole(parts)
	for _, m := range whole {
		m.lane.returns.add([]sqsclient.Hidden{{Receipt: m.handle, For: delay}}, d.Linger, false)
		d.client.Observer.Returned(m.lane.name, len(m.parts), 0)
	}
	for _, one := range rest {
		d.resend(one, delay)
	}
}

// resend sends a task of a shared message alone. When that fails the message stays as it is, and comes again
// with all of its tasks; those that are done by then are refused.
func (d *Driver) resend(one *part, delay time.Duration) {
	l, t := one.of.lane, &one.message.Task
	l.sends.add([]*outgoing{{
		field: d.Codec.field(t), due: t.HeldUntil(), after: delay, alone: true, trace: t.Traceparent,
		settle: func(err error) {
			if err != nil {
				d.prefetch.forget(one.of)
				return
			}
			d.client.Observer.Returned(l.name, 1, 1)
			if over := d.prefetch.finishPart(one); over != nil {
				l.deleteLater(over)
			}
		},
	}}, d.Linger, false)
}

// handOut hands out what was taken in, and starts the timekeeper unless it runs. That ends when nothing is
// here.
func (d *Driver) handOut(now task.Instant) {
	p := d.prefetch
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serve(now)
	if !p.keeping {
		p.keeping = d.work.start(d.timekeeper)
	}
}

// timekeeper hands out tasks when they are due, gives others what nobody here has come for, and keeps from
// them what somebody has.
func (d *Driver) timekeeper() {
	p, look := d.prefetch, d.Hold/holdLooks
	timer := d.Clock.NewTimer(look)
	defer timer.Stop()
	swept := clock.Steady(d.Clock)
	for {
		began, now, steady := clock.StampOf(timer), d.Clock.Now(), clock.Steady(d.Clock)
		if steady.Sub(swept) >= look {
			d.sweep(steady)
			swept = steady
		}
		p.mu.Lock()
		if len(p.messages) == 0 || p.closed {
			p.keeping = false
			p.mu.Unlock()
			return
		}
		wait := p.serve(now)
		p.mu.Unlock()
		clock.ResetFrom(timer, began, min(wait, swept.Add(look).Sub(steady)))
		select {
		case <-timer.C():
		case <-p.changed:
		case <-d.open.Done():
		}
	}
}

// sweep gives others what nobody here has come for, and keeps from them what somebody has. Suspects are only
// let go, so that SQS shows them again in its own time: a process that runs a blamed task takes no other
// such, and its polls for other tasks would fetch and return them over and over.
func (d *Driver) sweep(now task.Instant) {
	var back []*part
	lanes := map[laneKey]*lane{}
	for _, one := range d.prefetch.unclaimed(now.Add(-d.Hold)) {
		lanes[one.of.lane.key] = one.of.lane
		if queue.NameFor(&one.message.Task).Class == queue.Normal {
			back = append(back, one)
		} else {
			d.prefetch.forget(one.of)
		}
	}
	d.giveBack(back, 0)
	for _, l := range lanes {
		l.tend()
	}
	d.prefetch.keepHidden(now, now.Add(d.Visibility/2), func(m *held) {
		m.lane.returns.add([]sqsclient.Hidden{{Receipt: m.handle, For: d.Visibility}}, d.DeleteLinger, true)
	})
}
