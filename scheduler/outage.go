package scheduler

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// quietBeats is for how many heartbeats after an outage no lease is taken to have run out.
	quietBeats = 3
	// reclaimsPerSecond is how many tasks of lost workers one process takes back in a second at first, after
	// an outage; it doubles with every reclaimsDouble, and without an outage there is no limit.
	reclaimsPerSecond = 200
	reclaimsDouble    = 10 * time.Second
	// reclaimsFree is the number of doublings after which the limit is gone.
	reclaimsFree = 10
	// outagesMax bounds the outages that are remembered; each is longer than all after it.
	outagesMax = 16
)

// outage is a time in which the store did not answer.
type outage struct {
	length time.Duration
	end    task.Instant
}

// outages knows when the store was away, by clock.Steady. The zero value knows of none.
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

// answered notes that the store answered a call.
func (o *outages) answered(now task.Instant) {
	if !o.trying.IsZero() {
		o.note(outage{now.Sub(o.trying), now})
	}
	o.trying = 0
}

// refused notes that a call failed. The outage has lasted until now, at least: whoever asks before the next
// answer is told so.
func (o *outages) refused(now task.Instant) {
	if !o.trying.IsZero() {
		o.note(outage{now.Sub(o.trying), now})
	}
}

// note keeps an outage that no later one exceeds. Shorter than the shortest heartbeat they matter to nobody.
func (o *outages) note(latest outage) {
	if latest.length <= lease.LengthMin/lease.BeatsPerLease {
		return
	}
	o.past = slices.DeleteFunc(o.past, func(past outage) bool { return past.length <= latest.length })
	if len(o.past) == outagesMax {
		o.past = o.past[1:]
	}
	o.past = append(o.past, latest)
}

// since is the end of the latest outage that was longer than d, zero when there was none.
func (o *outages) since(d time.Duration) task.Instant {
	for _, past := range slices.Backward(o.past) {
		if past.length > d {
			return past.end
		}
	}
	return 0
}

// ramp bounds how fast tasks are taken back after an outage, so that the store and the queues are not thrown
// down again by what it left behind.
type ramp struct {
	from   task.Instant // when it begins; zero: there is no limit
	filled task.Instant // up to when tokens were counted
	tokens float64
}

// start begins the ramp at an instant.
func (r *ramp) start(from task.Instant) {
	*r = ramp{from: from, filled: from, tokens: reclaimsPerSecond}
}

// take reports whether one more task may be taken back now.
func (r *ramp) take(now task.Instant) bool {
	doublings := now.Sub(r.from) / reclaimsDouble
	if r.from.IsZero() || doublings >= reclaimsFree {
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

// watchdog follows the store's health for all partitions of a process. Reads and writes are followed apart:
// either may fail while the other works, and heartbeats need both.
type watchdog struct {
	mu            sync.Mutex
	reads, writes outages
	ramp          ramp
	ramped        task.Instant // the end of the outage that the ramp follows
}

// of returns the side of the store that a call is of.
func (d *watchdog) of(write bool) *outages {
	if write {
		return &d.writes
	}
	return &d.reads
}

func (d *watchdog) began(now task.Instant, write bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.of(write).began(now)
}

// ended notes how a call ended. One that its caller gave up says nothing.
func (d *watchdog) ended(now task.Instant, write bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case isAnswer(err):
		d.of(write).answered(now)
	case !errors.Is(err, context.Canceled):
		d.of(write).refused(now)
	}
}

// isAnswer reports whether an error, or none, is what a store says that is well.
func isAnswer(err error) bool {
	answers := []error{
		nil, store.ErrConflict, store.ErrNotFound, store.ErrMalformed, store.ErrTooLarge, store.ErrCorrupt, store.ErrVersion, store.ErrFull,
	}
	return slices.ContainsFunc(answers, func(answer error) bool { return errors.Is(err, answer) })
}

// quiet is the earliest moment that a lease may be counted from, zero when no outage was long enough to keep
// one of its heartbeats from getting through: so that the worker has quietBeats of them to renew it.
func (d *watchdog) quiet(l *lease.Lease) task.Instant {
	d.mu.Lock()
	defer d.mu.Unlock()
	back := max(d.reads.since(l.HeartbeatEvery()), d.writes.since(l.HeartbeatEvery()))
	if back.IsZero() {
		return 0
	}
	return back.Add(quietBeats*l.HeartbeatEvery() - l.Length)
}

// mayReclaim reports whether a task may be taken back now whose worker is lost.
func (d *watchdog) mayReclaim(now task.Instant, l *lease.Lease) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if end := max(d.reads.since(l.HeartbeatEvery()), d.writes.since(l.HeartbeatEvery())); end > d.ramped {
		d.ramped = end
		d.ramp.start(now)
	}
	return d.ramp.take(now)
}
