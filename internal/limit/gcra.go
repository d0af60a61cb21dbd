package limit

import (
	"math"
	"time"
)

// The rate is kept by the generic cell rate algorithm (GCRA, ITU-T I.371, the leaky bucket as a meter): one
// number, the theoretical arrival time (TAT), says when the next start is due if all come at even distances.
// A start that comes later moves it along; one may come earlier by the tolerance, which is what makes a
// burst. Each reservation takes the next part of that line of time for one server, so that no two servers
// have the same start, whatever their clocks show.

const (
	// reservedMax is how much of the line one reservation takes at most (beyond a burst). It is what a server
	// that dies keeps from the others.
	reservedMax = 200 * time.Millisecond
	// reserveAhead is how far ahead of now all servers together may have reserved.
	reserveAhead = 350 * time.Millisecond
	// tookMax is how slow a store may be so that its answers come in time.
	tookMax = time.Second
	// clocksApart is by how much clocks may differ, and a little more.
	clocksApart = time.Second
	// burstDefault is how much of the rate may start at once after a pause, if the quota does not say.
	burstDefault = 100 * time.Millisecond
	// spendWithin is how long a start may be made up for that was not made at its time.
	spendWithin = 250 * time.Millisecond
)

// nanos is a wall time in Unix nanoseconds: at a million starts per second microseconds are too coarse.
type nanos int64

// pace is a rate and a burst, in terms of time.
type pace struct {
	rate  float64
	burst uint32
}

// interval returns the time between starts.
func (p pace) interval() float64 { return float64(time.Second) / p.rate }

// tolerance returns how much earlier than at even distances a start may come.
func (p pace) tolerance() nanos {
	burst := float64(p.burst)
	if burst == 0 {
		burst = max(1, math.Floor(p.rate*burstDefault.Seconds()))
	}
	return nanos((burst - 1) * p.interval())
}

// Within returns how many starts a rate and its burst allow within a time at most.
func Within(rate float64, burst uint32, d time.Duration) int {
	p := pace{rate, burst}
	return int(float64(d+time.Duration(p.tolerance()))/p.interval()) + 1
}

// lapse returns how long after its time a start may still be made: never so late that more than the burst,
// spendWithin and one interval come together.
func (p pace) lapse() nanos {
	return p.tolerance() + max(nanos(spendWithin), nanos(p.interval()))
}

// reservation has starts at even distances that this server has reserved.
type reservation struct {
	first    nanos
	interval float64
	count    int
}

// at returns the time of start number i, from 0 on.
func (r *reservation) at(i int) nanos { return r.first + nanos(float64(i)*r.interval) }

// upTo returns how many starts are at or before t.
func (r *reservation) upTo(t nanos) int {
	switch {
	case r.count == 0 || t < r.first:
		return 0
	case r.interval <= 0:
		return r.count
	}
	n := min(r.count, int(float64(t-r.first)/r.interval)+1)
	for n < r.count && r.at(n) <= t {
		n++
	}
	for n > 0 && r.at(n-1) > t {
		n--
	}
	return n
}

// drop removes the first n starts.
func (r *reservation) drop(n int) { r.first, r.count = r.at(n), r.count-n }

// reserve takes up to want starts from the line, whose theoretical arrival time is tat. Where others have
// reserved far enough ahead it takes none, and says when to come again. A slow store, whose answers take
// took, needs more at a time.
func (p pace) reserve(tat, now, took nanos, want int) (taken reservation, next, again nanos) {
	ahead, longest := nanos(reserveAhead)+2*took, nanos(reservedMax)+2*took
	if tat > now+p.aheadMax() {
		tat = now // of a lower rate, or of a clock that was set back
	}
	if tat > now+ahead {
		return reservation{}, tat, tat - ahead
	}
	tat = max(tat, now-p.tolerance())
	most := max(1, int(float64(max(tat, now)+longest-tat)/p.interval()))
	taken = reservation{tat, p.interval(), min(want, most)}
	return taken, taken.at(taken.count), 0
}

// aheadMax returns how far ahead of now the line can be reserved at this rate, by any server's clock.
func (p pace) aheadMax() nanos {
	return nanos(reserveAhead+2*tookMax) + max(nanos(reservedMax+2*tookMax), nanos(p.interval())) + nanos(clocksApart)
}
