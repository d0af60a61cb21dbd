package hsc

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// A slot group whose attempts are short gets tasks beyond its free slots (prefetch), so that no slot stays
// empty while the next claim is made durable. The worker keeps them in order and gives back, uncharged, those
// that waited too long.
const (
	prefetchPerSlot = 3    // tasks beyond each slot
	prefetchMax     = 1024 // of a slot group
	// shortMax is the mean duration up to which attempts are short, from start to the receipt of the result.
	shortMax = 20 * time.Millisecond
	// neverStarted is the duration of an attempt that came back without a start: the slots are busy for long.
	neverStarted = time.Second
	meanShare    = 8 // the newest attempt counts for one part in so many
)

// unstoredMax bounds the results of a slot group that were received and are not stored, beside one for each
// slot: a store that takes claims and no results must not fill the memory of both sides.
const unstoredMax = prefetchMax

// slotGroup is one group of slots of a stream.
type slotGroup struct {
	lambdas   []string
	slots     int
	slotsOnly bool // no prefetch

	idleSince atomic.Int64 // when its loop began to wait for a message, in monotonic time; 0 while it does not

	// Guarded by session.mu.
	used          int
	unstored      int // results that were received and are not stored
	durations     durations
	cancelReceive context.CancelFunc // ends the Receive under way; nil when there is none

	// changed holds one value when a slot came free or the queues to poll changed.
	changed chan struct{}
}

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

// pollAgain ends the Receive under way, so that the group's loop looks again at what it may claim. Call with
// session.mu held.
func (g *slotGroup) pollAgain() {
	if g.cancelReceive != nil {
		g.cancelReceive()
	}
	wake(g.changed)
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

// durations is a moving mean of how long the attempts of a slot group take.
type durations struct {
	mean  time.Duration
	known bool
}

// add counts an attempt whose result came now; started is zero if it never started.
func (d *durations) add(started, now task.Instant) {
	took := neverStarted
	if !started.IsZero() {
		took = min(max(now.Sub(started), 0), neverStarted)
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
