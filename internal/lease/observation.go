package lease

import (
	"time"

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
	heard   task.Instant // by clock.Steady
}

func observationOf(l *Lease) observation {
	s := observation{beat: l.Beat, receipt: l.Receipt, heard: l.Heard}
	if l.Beat == 0 {
		s.version = l.Version
	}
	return s
}

func (s observation) isSame(o observation) bool {
	o.heard = s.heard
	return s == o
}

// read decodes a row that was just read, and sets when its newest heartbeat was heard.
func (b *Book) read(row *store.Control) (Lease, error) {
	l, err := decode(row)
	if err != nil {
		return l, err
	}
	wall, steady := clock.Both(b.clock)
	l.Heard = steady.Add(-ageOf(&l, wall))
	b.observe(&l)
	return l, nil
}

// ageOf returns how old a heartbeat is taken to be that is seen for the first time. A receipt that lies in
// the future, or is older than the lease is long, comes from a wrong clock: then the heartbeat counts from
// now.
func ageOf(l *Lease, now task.Instant) time.Duration {
	age := now.Sub(l.Receipt)
	if age < 0 || age > l.Length+task.ClockBound {
		return 0
	}
	return min(age, l.Length/ageShare)
}

// ageShare bounds that age to one part in this many of the lease. A live worker sends two more heartbeats in
// what is left of the lease, so no wrong clock makes it count as lost. A dead one is noticed later by that
// much at most, and only by a process that did not see its last heartbeats.
const ageShare = 2

// observe notes the heartbeat of a lease that was read or written; if it is known, it sets when it was heard.
func (b *Book) observe(l *Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, known := b.seen[l.Worker]
	if known && s.isSame(observationOf(l)) {
		l.Heard = s.heard
		return
	}
	l.Heard = max(l.Heard, s.heard) // it was received later than the one before
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
