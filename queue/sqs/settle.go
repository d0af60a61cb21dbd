package sqs

import (
	"context"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/internal/sqsclient"
	"github.com/kinesin-io/kinesin/queue"
)

const (
	// pollVisibility is when SQS hands out a received message again, unless this process keeps it hidden.
	// When the process dies, its tasks are late by no more.
	pollVisibility = 4 * time.Second
	// visibility is how long a message is hidden that is still in hand after half of pollVisibility; it is
	// renewed while the process lives.
	visibility = 30 * time.Second
)

// delete deletes a message later, together with others.
func (l *lane) delete(m *heldMessage) { l.deletes.Put(m.handle) }

// hide changes for how long messages are hidden from others.
func hide(messages []*heldMessage, d time.Duration) {
	byLane := map[*lane][]sqsclient.Hidden{}
	for _, m := range messages {
		byLane[m.lane] = append(byLane[m.lane], sqsclient.Hidden{Receipt: m.handle, For: d})
	}
	for l, hidden := range byLane {
		l.hides.Put(hidden...)
	}
}

// lastOfEach returns the last change of each message: SQS may carry out those of one request in any order.
func lastOfEach(changes []sqsclient.Hidden) []sqsclient.Hidden {
	at := make(map[string]int, len(changes))
	last := make([]sqsclient.Hidden, 0, len(changes))
	for _, change := range changes {
		if i, seen := at[change.Receipt]; seen {
			last[i] = change
			continue
		}
		at[change.Receipt] = len(last)
		last = append(last, change)
	}
	return last
}

func (l *lane) logFailure(what string, err error) {
	if err != nil {
		l.driver.Log.WarnContext(l.driver.ctx, "received messages were not settled: they are received again",
			slog.String("queue", l.name), slog.String("failed", what), slog.Any("error", err))
	}
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
