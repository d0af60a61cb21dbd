package lease

import (
	"context"
	"errors"
	"fmt"
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
	version uint64        // of the row; used only where the heartbeat has no number
	heard   task.Instant  // at the latest, by clock.Steady
	came    task.Instant  // at the earliest; zero: unknown
	seen    task.Instant  // when it was first seen here, by clock.Steady
	silent  time.Duration // Lease.SilentBefore
}

func observationOf(l *Lease, seen task.Instant) observation {
	s := observation{beat: l.Beat, receipt: l.Receipt, heard: l.Heard, came: l.Came, seen: seen, silent: l.SilentBefore}
	if l.Beat == 0 {
		s.version = l.Version
	}
	return s
}

func (s observation) isSame(o observation) bool {
	o.heard, o.came, o.seen, o.silent = s.heard, s.came, s.seen, s.silent
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
	if l.SilentBefore = l.Silent; l.Silent > 0 {
		l.Heard = min(l.Heard, steady.Add(-l.Silent))
	}
	if l.Came > l.Heard {
		l.Came = 0 // the clocks by which it is younger are wrong
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
	seen := clock.Steady(b.clock)
	b.mu.Lock()
	defer b.mu.Unlock()
	s, known := b.seen[l.Worker]
	if known && s.isSame(observationOf(l, seen)) {
		l.Heard, l.Came, l.SilentBefore = s.heard, s.came, s.silent
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
	b.seen[l.Worker] = observationOf(l, seen)
}

// silence returns for how long servers have listened for the next heartbeat of a lease, at least: this process
// since it first saw the newest one, and others before.
func (b *Book) silence(l *Lease, steady task.Instant) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	s, known := b.seen[l.Worker]
	if !known || !s.isSame(observationOf(l, 0)) {
		return 0
	}
	return s.silent + steady.Sub(s.seen)
}

const (
	// SilenceNotedFirst is how long after its start a process notes silence for the first time; after that,
	// whenever the time since its start has doubled. So a process that ends has noted half of the time that it
	// listened, at least.
	SilenceNotedFirst = 250 * time.Millisecond
	// silenceNotesMax bounds the leases that one call of NoteSilence writes.
	silenceNotesMax = 1000
)

// NoteSilence writes on leases for how long servers have listened in vain for the next heartbeat, so that what
// a process knows of that survives it: if each process ended before it had listened for a whole lease, no
// worker would ever be lost. What is noted was measured by monotonic clocks, and not while nobody listened.
// Leases that were renewed lately, by the wall clock, are left alone, to spare the writes.
func (b *Book) NoteSilence(ctx context.Context) error {
	leases, err := b.List(ctx)
	if err != nil {
		return err
	}
	noted := 0
	wall, steady := clock.Both(b.clock)
	for i := range leases {
		l := &leases[i]
		silence := min(b.silence(l, steady), l.Length+task.ClockBound)
		age := wall.Sub(l.Receipt)
		if isYoung := age >= 0 && age < l.Length/ageShare; l.Lost || l.Beat == 0 || silence <= l.Silent || isYoung && silence < l.Length/ageShare {
			continue
		}
		if noted++; noted > silenceNotesMax {
			break
		}
		l.Version++
		l.Silent = silence
		if err := b.put(ctx, l); err != nil && !errors.Is(err, store.ErrConflict) { // a heartbeat wins
			return fmt.Errorf("note the silence of worker %s: %w", l.Worker, err)
		}
	}
	return nil
}
