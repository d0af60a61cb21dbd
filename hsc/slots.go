package hsc

import (
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// unstoredMax bounds the results of a slot group that were received and are not stored, besides one result for each slot: a
// store that takes claims and no results must not fill the memory of both sides.
const unstoredMax = prefetchMax

// room returns how many more tasks the group may get. Call with session.mu held.
func (g *slotGroup) room() int {
	if g.unstored >= g.slots+unstoredMax {
		return 0
	}
	if g.slotsOnly {
		return g.slots - g.used
	}
	return g.slots + g.durations.prefetch(g.slots) - g.used
}

// takeSlots takes up to n slots of a group, and returns how many. In quarantine only the suspect gets one.
// For calls, which have no slots, g is nil.
func (s *session) takeSlots(g *slotGroup, n int, forSuspect bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inQuarantine() != forSuspect {
		return 0
	}
	if g != nil {
		n = min(n, max(g.room(), 0))
		g.used += n
	}
	return n
}

// returnSlots returns slots that were taken and not used.
func (s *session) returnSlots(g *slotGroup, n int) {
	if n == 0 || g == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	g.used -= n
	wake(g.changed)
}

// add counts how long an attempt took whose result came now, or longest if that is less: on a machine that is busy, most of
// the time is the way here. started is zero if the attempt never started, longest if it is not known.
func (d *durations) add(started, now task.Instant, longest time.Duration) {
	took := neverStarted
	if !started.IsZero() {
		took = min(max(now.Sub(started), 0), neverStarted)
		if longest > 0 {
			took = min(took, longest)
		}
	}
	if !d.known {
		d.mean, d.known = took, true
		return
	}
	d.mean += (took - d.mean) / meanShare
}

// prefetch returns how many tasks beyond its slots a group may get.
func (d *durations) prefetch(slots int) int {
	if !d.known || d.mean > shortMax {
		return 0
	}
	return min(prefetchPerSlot*slots, prefetchMax)
}
