package mem

import (
	"encoding/binary"
	"slices"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/task"
)

// What follows lets a driver of a remote service keep what it received here until somebody takes it.

// Put is Send for a driver that stands before this one: without a bound, and with a number of its own for
// each message, which TagOf finds again in the receipt. It reports whether the messages are held.
func (d *Driver) Put(messages []queue.Message, tags []uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false
	}
	now := d.clock.Now()
	for i := range messages {
		d.admit(d.line(queue.NameFor(&messages[i].Task)), &messages[i], tags[i], now)
	}
	return true
}

// TagOf is the number that a received message was Put with; 0 for one that was sent.
func TagOf(receipt string) uint64 {
	if len(receipt) != receiptBytes+tagBytes {
		return 0
	}
	return binary.BigEndian.Uint64([]byte(receipt[receiptBytes:]))
}

// ReceiveUnclaimed receives all messages that nobody has come for since they were due, or since they came when
// that was later, if that was before the given instant.
func (d *Driver) ReceiveUnclaimed(before task.Instant) []queue.Message {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.picked = d.picked[:0]
	for _, l := range d.lines {
		if taken := l.waiting.split(&d.picked, func(e entry) bool { return e.since < before }); taken > 0 {
			l.inFlight += taken
			if len(l.waiting)*2 < d.depthMax {
				l.openRoom()
			}
		}
	}
	return d.deliver(d.picked)
}

// ReceiveSurplus is ReceiveUnclaimed of one name, for when there are more than most: the first keep of them stay.
func (d *Driver) ReceiveSurplus(name queue.Name, most, keep int, before task.Instant) []queue.Message {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, found := d.lines[name]
	if !found || len(l.waiting) <= most {
		return nil
	}
	unclaimed := make([]entry, 0, len(l.waiting))
	for _, e := range l.waiting {
		if e.since < before {
			unclaimed = append(unclaimed, e)
		}
	}
	if len(unclaimed) <= max(most, keep) {
		return nil
	}
	slices.SortFunc(unclaimed, func(a, b entry) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	surplus := make(map[uint32]bool, len(unclaimed)-keep)
	for _, e := range unclaimed[keep:] {
		surplus[e.slot] = true
	}
	d.picked = d.picked[:0]
	l.inFlight += l.waiting.split(&d.picked, func(e entry) bool { return surplus[e.slot] })
	return d.deliver(d.picked)
}

// DeleteTagged is Delete that says which messages were held by these receipts: it returns those.
func (d *Driver) DeleteTagged(messages []queue.Message) []queue.Message {
	d.mu.Lock()
	defer d.mu.Unlock()
	gone := make([]queue.Message, 0, len(messages))
	for i := range messages {
		if d.delete(messages[i].Receipt) {
			gone = append(gone, messages[i])
		}
	}
	d.slots.shrink()
	return gone
}

// IsAwaited reports whether somebody waits for messages of that name.
func (d *Driver) IsAwaited(name queue.Name) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	l, found := d.lines[name]
	return found && l.first != nil
}

// Waiting is how many messages of that name wait, due or not.
func (d *Driver) Waiting(name queue.Name) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l, found := d.lines[name]; found {
		return len(l.waiting)
	}
	return 0
}

// split appends to slots the ones that are to leave, and keeps the others.
func (h *entries) split(slots *[]uint32, leaves func(entry) bool) int {
	all := *h
	kept := all[:0]
	for _, e := range all {
		if leaves(e) {
			*slots = append(*slots, e.slot)
			continue
		}
		kept = append(kept, e)
	}
	taken := len(all) - len(kept)
	if taken == 0 {
		return 0
	}
	*h = kept[:0]
	for _, e := range kept { // an entry is pushed where an earlier one of them stood, or before
		h.push(e)
	}
	return taken
}
