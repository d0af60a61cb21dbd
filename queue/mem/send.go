package mem

import (
	"context"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// Send implements queue.Driver. It never waits.
func (d *Driver) Send(ctx context.Context, messages []queue.Message) []error {
	results := make([]error, len(messages))
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.usable(ctx); err != nil {
		for i := range results {
			results[i] = err
		}
		return results
	}
	now, steady := clock.Both(d.clock)
	for i := range messages {
		results[i] = d.send(&messages[i], now, steady)
	}
	return results
}

func (d *Driver) send(m *queue.Message, now, steady task.Instant) error {
	l := d.lane(queue.NameFor(&m.Task))
	if len(l.waiting) >= d.depthMax {
		l.roomChannel()
		return queue.ErrFull
	}
	i := d.slots.take()
	s := d.slots.at(i)
	s.lane = l
	s.message.Task, s.message.Again = m.Task, m.Again
	d.insert(l, i, m.Task.HeldUntil(), now, steady)
	return nil
}

// insert puts the message of slot i into its lane, hidden until at. steady is now by clock.Steady.
func (d *Driver) insert(l *lane, i uint32, at, now, steady task.Instant) {
	d.arrivals++
	first := l.waiting.push(entry{at: at, arrival: d.arrivals, since: steady.Add(max(at, now).Sub(now)), slot: i})
	if first { // otherwise a receiver was woken, or waits, for an earlier one
		d.notify(l, now)
	}
}
