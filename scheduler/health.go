package scheduler

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// graceBeats is how many heartbeats a worker has after an outage before its lease may run out.
	graceBeats = 3
	// reclaimsPerSecond is how many tasks of lost workers one process takes back in a second at first, after
	// an outage. The rate doubles with every reclaimsDouble, and after reclaimsDoublings of them, or without
	// an outage, there is no limit.
	reclaimsPerSecond = 200
	reclaimsDouble    = 10 * time.Second
	reclaimsDoublings = 10
	// outagesMax bounds the outages that are remembered; each is longer than all after it.
	outagesMax = 16
	// pauseCheckEvery is how often this process checks whether it was paused: stopped, suspended with its
	// machine, or without a processor.
	pauseCheckEvery = time.Second
)

// outage is a time in which the store did not answer.
type outage struct {
	length time.Duration
	end    task.Instant
}

// outages knows when the store did not answer, by clock.Steady. The zero value knows of no outage.
type outages struct {
	trying task.Instant // the first call since the last answer; zero when there was none
	past   []outage     // the longest and oldest first
}

// began notes that a call began.
func (o *outages) began(now task.Instant) {
	if o.trying.IsZero() {
		o.trying = now
	}
}

// ended notes how a call ended. Without an answer the outage has lasted until now, at least.
func (o *outages) ended(now task.Instant, answered bool) {
	if !o.trying.IsZero() {
		o.add(outage{now.Sub(o.trying), now})
	}
	if answered {
		o.trying = 0
	}
}

// add keeps an outage, until a longer one follows. One that is shorter than the shortest heartbeat interval
// keeps no heartbeat from getting through.
func (o *outages) add(latest outage) {
	if latest.length <= lease.LengthMin/lease.BeatsPerLease {
		return
	}
	o.past = slices.DeleteFunc(o.past, func(past outage) bool { return past.length <= latest.length })
	if len(o.past) == outagesMax {
		o.past = o.past[1:]
	}
	o.past = append(o.past, latest)
}

// lastLonger returns the end of the latest outage that was longer than d; zero when there was none.
func (o *outages) lastLonger(d time.Duration) task.Instant {
	for _, past := range slices.Backward(o.past) {
		if past.length > d {
			return past.end
		}
	}
	return 0
}

// reclaimLimiter limits the rate at which tasks are taken back after an outage, so that what the outage left
// behind does not bring the store and the queues down again. It is a token bucket whose rate doubles.
type reclaimLimiter struct {
	start  task.Instant // zero: there is no limit
	filled task.Instant // up to when tokens were added
	tokens float64
}

// reset starts the limit at an instant.
func (r *reclaimLimiter) reset(start task.Instant) {
	*r = reclaimLimiter{start: start, filled: start, tokens: reclaimsPerSecond}
}

// allow reports whether one more task may be taken back now.
func (r *reclaimLimiter) allow(now task.Instant) bool {
	doublings := now.Sub(r.start) / reclaimsDouble
	if r.start.IsZero() || doublings >= reclaimsDoublings {
		return true
	}
	rate := float64(reclaimsPerSecond) * float64(uint64(1)<<max(doublings, 0))
	r.tokens = min(rate, r.tokens+rate*max(now.Sub(r.filled), 0).Seconds())
	r.filled = now
	if r.tokens < 1 {
		return false
	}
	r.tokens--
	return true
}

// storeHealth tracks outages for all partitions of a process, so that no worker is taken for lost whose
// heartbeats could not be stored. Reads and writes are tracked apart: either may fail while the other works,
// and heartbeats need both.
type storeHealth struct {
	mu            sync.Mutex
	reads, writes outages
	checked       clock.Readings // of the last checkPause
	reclaims      reclaimLimiter
	limited       task.Instant // the end of the outage that reclaims follows
}

func (h *storeHealth) side(write bool) *outages {
	if write {
		return &h.writes
	}
	return &h.reads
}

func (h *storeHealth) began(now task.Instant, write bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.side(write).began(now)
}

// ended notes how a call ended. A call that its caller gave up says nothing.
func (h *storeHealth) ended(now task.Instant, write bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if answered := isAnswer(err); answered || !errors.Is(err, context.Canceled) {
		h.side(write).ended(now, answered)
	}
}

// isAnswer reports whether a healthy store returns this error.
func isAnswer(err error) bool {
	answers := []error{
		nil, store.ErrConflict, store.ErrNotFound, store.ErrMalformed, store.ErrTooLarge, store.ErrCorrupt, store.ErrVersion, store.ErrFull,
	}
	return slices.ContainsFunc(answers, func(answer error) bool { return errors.Is(err, answer) })
}

// checkPause notes a pause of this process as an outage: heartbeats that came meanwhile found nobody. A loop
// that judges leases calls it first, since it may be the first goroutine that runs again.
func (h *storeHealth) checkPause(c clock.Clock) {
	now := clock.Read(c)
	h.mu.Lock()
	defer h.mu.Unlock()
	last := h.checked
	h.checked = now
	if last == (clock.Readings{}) {
		return
	}
	if pause := now.Since(last) - pauseCheckEvery; pause > 0 {
		o := outage{pause, clock.Steady(c)}
		h.reads.add(o)
		h.writes.add(o)
	}
}

// watchPauses checks for pauses until ctx ends.
func (h *storeHealth) watchPauses(ctx context.Context, c clock.Clock) {
	for clock.Sleep(ctx, c, pauseCheckEvery) == nil {
		h.checkPause(c)
	}
}

// lastOutage returns the end of the last outage that was long enough to keep out a heartbeat of a lease.
func (h *storeHealth) lastOutage(l *lease.Lease) task.Instant {
	return max(h.reads.lastLonger(l.HeartbeatEvery()), h.writes.lastLonger(l.HeartbeatEvery()))
}

// leaseCountsFrom returns the earliest instant from which a lease may be counted, so that its worker has
// graceBeats heartbeats after an outage; zero when no outage matters.
func (h *storeHealth) leaseCountsFrom(l *lease.Lease) task.Instant {
	h.mu.Lock()
	defer h.mu.Unlock()
	end := h.lastOutage(l)
	if end.IsZero() {
		return 0
	}
	return end.Add(graceBeats*l.HeartbeatEvery() - l.Length)
}

// mayReclaim reports whether a task of a lost worker may be taken back now.
func (h *storeHealth) mayReclaim(now task.Instant, l *lease.Lease) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if end := h.lastOutage(l); end > h.limited {
		h.limited = end
		h.reclaims.reset(now)
	}
	return h.reclaims.allow(now)
}
