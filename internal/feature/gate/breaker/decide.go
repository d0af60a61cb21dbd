// Package breaker decides when the circuit breaker of a lambda opens, probes and closes, and does so by the
// lambda's gate: a control row that all servers share, so that a breaker outlives any of them. A server
// decides by its own observations and by the row. The package reads and writes no task.
package breaker

import (
	"fmt"
	"math"
	"time"

	"github.com/kinesin-io/kinesin/internal/hold"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// attemptsMin is how many attempts have to have ended within the window on a server, so that it opens the
	// breaker: a few failures say nothing.
	attemptsMin = 20
	// pauseMin is how long a breaker pauses for the first time; each time that probes fail doubles that, up
	// to pauseMax.
	pauseMin, pauseMax = 30 * time.Second, 10 * time.Minute
	// ProbesPerSecond is the pace of probes, over all servers.
	ProbesPerSecond = 2
	// probesMin is how many probes have to have ended before the breaker closes.
	probesMin = 10
)

// counts are attempts that have ended.
type counts struct{ succeeded, failed int }

func (c counts) total() int { return c.succeeded + c.failed }

// opens reports whether so many attempts within the window open a breaker.
func opens(c counts, set task.Breaker) bool {
	return c.total() >= attemptsMin && isShare(c.failed, c.total(), set.Failures)
}

// isShare reports whether part of total is a share at least.
func isShare(part, total int, share float64) bool { return float64(part) >= share*float64(total) }

// open returns the gate of a breaker that opens.
func open(lambda string, ref uint32, c counts, set task.Breaker, now task.Instant) *hold.Gate {
	return &hold.Gate{
		Action: hold.Pause, Lambda: lambda, Ref: ref, Owner: hold.BreakerOwner, Created: now, Breaker: &hold.Breaker{Opened: now, Times: 1},
		Reason: fmt.Sprintf("circuit breaker: %d of %d attempts failed in %v, and %v of them open it", c.failed, c.total(), set.Window, set.Failures),
	}
}

// pause returns how long a breaker pauses for the n-th time in a row.
func pause(n int) time.Duration {
	if n > 10 {
		return pauseMax
	}
	return min(pauseMin<<max(0, n-1), pauseMax)
}

// step is what follows for a breaker that is open.
type step uint8

const (
	stay   step = iota
	probe       // it lets probes through
	count       // it has more results of probes
	reopen      // it pauses again
	closes      // it has ended
)

// next returns what follows for the gate of a breaker, and the gate after that, where new are probes that
// have ended and are not in the gate. If it closes, the gate is to be ended.
func next(g hold.Gate, fresh counts, set task.Breaker, now task.Instant) (step, hold.Gate) {
	b := *g.Breaker
	g.Breaker = &b
	if !g.Probes() {
		since := now.Sub(b.Opened)
		if since >= 0 && since < pause(b.Times) {
			return stay, g
		}
		g.Resumed, g.Pace = now, ProbesPerSecond
		b.Succeeded, b.Failed = 0, 0
		return probe, g
	}
	b.Succeeded, b.Failed = b.Succeeded+fresh.succeeded, b.Failed+fresh.failed
	switch ended := b.Succeeded + b.Failed; {
	case b.Failed >= max(1, int(math.Ceil(set.Failures*probesMin))):
		g.Reason = fmt.Sprintf("circuit breaker: %d of %d probes failed, and it has paused %d times in a row", b.Failed, ended, b.Times+1)
		g.Resumed, g.Pace = 0, 0
		b = hold.Breaker{Opened: now, Times: b.Times + 1}
		return reopen, g
	case ended >= probesMin && !isShare(b.Failed, ended, set.Failures):
		return closes, g
	case fresh != counts{}:
		return count, g
	}
	return stay, g
}

// windowSlices is in how many slices a window counts: what is older than it lapses a slice at a time.
const windowSlices = 10

// window counts the attempts that have ended within a while. The zero value is empty.
type window [windowSlices]struct {
	number int64 // of the slice
	counts
}

// add counts an attempt that ended at a monotonic time.
func (w *window) add(now, length time.Duration, failed bool) {
	number := sliceAt(now, length)
	s := &w[(number%windowSlices+windowSlices)%windowSlices] // monotonic time may be negative
	if s.number != number {
		s.number, s.counts = number, counts{}
	}
	s.note(failed)
}

func (c *counts) note(failed bool) {
	if failed {
		c.failed++
	} else {
		c.succeeded++
	}
}

// sum returns what was counted within the window that ends now.
func (w *window) sum(now, length time.Duration) (all counts) {
	number := sliceAt(now, length)
	for i := range w {
		if s := &w[i]; s.number > number-windowSlices && s.number <= number {
			all.succeeded, all.failed = all.succeeded+s.succeeded, all.failed+s.failed
		}
	}
	return all
}

// sliceAt returns the number of the slice at a monotonic time.
func sliceAt(now, length time.Duration) int64 { return int64(now / (length / windowSlices)) }
