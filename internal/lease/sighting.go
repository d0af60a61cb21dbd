package lease

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// sighting is what this process knows of the newest heartbeat of a worker. A receipt is an instant of the
// wall clock of another process, or of this one before it was set. So the receipt is believed once, when the
// heartbeat is first seen, and within bounds; from then on monotonic time counts.
type sighting struct {
	beat    uint64
	receipt task.Instant
	version uint64       // of the row; tells only where there is no number of the heartbeat
	heard   task.Instant // by clock.Steady
}

func sightingOf(l *Lease) sighting {
	s := sighting{beat: l.Beat, receipt: l.Receipt, heard: l.Heard}
	if l.Beat == 0 {
		s.version = l.Version
	}
	return s
}

func (s sighting) isSame(o sighting) bool {
	o.heard = s.heard
	return s == o
}

// read decodes a row that was just read, and says when the heartbeat that it tells of was heard.
func (b *Book) read(row *store.Control) (Lease, error) {
	l, err := decode(row)
	if err != nil {
		return l, err
	}
	wall, steady := clock.Both(b.clock)
	l.Heard = steady.Add(-ageOf(&l, wall))
	b.sight(&l)
	return l, nil
}

// ageOf is how old a heartbeat is taken to be that is seen for the first time. A receipt that lies in the
// future, or is older than the lease is long, tells of a clock that is wrong: then it counts from now.
func ageOf(l *Lease, now task.Instant) time.Duration {
	age := now.Sub(l.Receipt)
	if age < 0 || age > l.Length+task.ClockBound {
		return 0
	}
	return min(age, l.Length/ageShare)
}

// ageShare bounds how old a heartbeat may be that is seen for the first time: one part in this many of the
// lease. A worker that lives sends two more in what is left of it, so that no clock that is wrong has it
// judged lost. One that is dead is noticed that much later at most, and only by a process that did not see
// its last heartbeats.
const ageShare = 2

// sight notes the heartbeat of a lease that was read or written, or says when it was heard if it is known.
func (b *Book) sight(l *Lease) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, known := b.seen[l.Worker]
	if known && s.isSame(sightingOf(l)) {
		l.Heard = s.heard
		return
	}
	l.Heard = max(l.Heard, s.heard) // it was received later than the one before
	if l.Lost {
		delete(b.seen, l.Worker)
		return
	}
	if !known && len(b.seen) >= knownMax {
		for worker := range b.seen { // any will do: its lease lasts a little longer
			delete(b.seen, worker)
			break
		}
	}
	b.seen[l.Worker] = sightingOf(l)
}
