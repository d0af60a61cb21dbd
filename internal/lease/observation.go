package lease

import (
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// observation is what this process knows of the newest heartbeat of a worker. The receipt comes from the wall
// clock of another process, or of this one before it was set. So it is believed once, when the heartbeat is
// first seen, and within bounds; from then on monotonic time counts.
type observation struct {
	beat    uint64
	receipt task.Instant
	version uint64       // of the row; used only where the heartbeat has no number
	heard   task.Instant // at the latest, by clock.Steady
	came    task.Instant // at the earliest; zero: unknown
}

func observationOf(l *Lease) observation {
	s := observation{beat: l.Beat, receipt: l.Receipt, heard: l.Heard, came: l.Came}
	if l.Beat == 0 {
		s.version = l.Version
	}
	return s
}

func (s observation) isSame(o observation) bool {
	o.heard, o.came = s.heard, s.came
	return s == o
}

// read decodes a row that was just read, and sets between which times its newest heartbeat was received.
func (b *Book) read(row *store.Control) (Lease, error) {
	l, err := decode(row)
	if err != nil {
		return l, err
	}
	wall, steady := clock.Both(b.clock)
	if l.Heard = steady; isPlausible(&l, wall) {
		age := wall.Sub(l.Receipt)
		l.Heard, l.Came = steady.Add(-min(age, l.Length/ageShare)), steady.Add(-age)
	}
	b.observe(&l)
	return l, nil
}

// isPlausible reports whether the receipt of a heartbeat that is seen for the first time may be believed. One
// that lies in the future, or is older than the lease is long, may come from a wrong clock: then the
// heartbeat counts from now, and may have been received at any time before.
func isPlausible(l *Lease, now task.Instant) bool {
	age := now.Sub(l.Receipt)
	return age >= 0 && age <= l.Length+task.ClockBound
}

// ageShare bounds the age of a heartbeat to one part in this many of the lease. A live worker sends two more
// heartbeats in what is left of the lease, so no wrong clock makes it count as lost. A dead one is noticed
// later by that much at most, and only by a process that did not see its last heartbeats.
const ageShare = 2

// observe notes the heartbeat of a lease that was read or written; if it is known, it sets when it was
// received.
func (b *Book) observe(l *Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, known := b.seen[l.Worker]
	if known && s.isSame(observationOf(l)) {
		l.Heard, l.Came = s.heard, s.came
		return
	}
	// It was received later than the one before, of which s.heard is no later than when it was seen here.
	l.Heard, l.Came = max(l.Heard, s.heard), max(l.Came, s.heard)
	if l.Lost {
		delete(b.seen, l.Worker)
		return
	}
	if !known && len(b.seen) >= knownMax {
		for worker := range b.seen { // any will do: that lease lasts a little longer
			delete(b.seen, worker)
			break
		}
	}
	b.seen[l.Worker] = observationOf(l)
}
