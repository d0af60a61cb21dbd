package mem

import (
	"context"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
)

// Delete implements queue.Driver. It ignores messages that are no longer held.
func (d *Driver) Delete(_ context.Context, messages []queue.Message) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range messages {
		if at, s := d.held(messages[i].Receipt); s != nil {
			l := s.lane
			l.inFlight--
			d.slots.give(at)
			d.dropIdle(l)
		}
	}
	d.slots.shrink()
	return nil
}

// Release implements queue.Driver. It ignores messages that are no longer held.
func (d *Driver) Release(_ context.Context, messages []queue.Message, delay time.Duration) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, steady := clock.Both(d.clock)
	for i := range messages {
		if at, s := d.held(messages[i].Receipt); s != nil {
			s.delivery = 0
			s.lane.inFlight--
			d.insert(s.lane, at, max(s.message.Task.HeldUntil(), now.Add(max(delay, 0))), now, steady)
		}
	}
	return nil
}

// held returns the slot of a delivery; nil when the delivery has ended.
func (d *Driver) held(receipt string) (uint32, *slot) {
	i, delivery, ok := parseReceipt(receipt)
	if !ok || int(i) >= d.slots.size() {
		return 0, nil
	}
	if s := d.slots.at(i); s.delivery == delivery {
		return i, s
	}
	return 0, nil
}
