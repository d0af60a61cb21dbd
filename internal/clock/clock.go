// Package clock is the one seam through which time, timers and randomness
// reach the roles: the machine's own, or virtual ones that a test advances.
// A role that asks anything else for the time cannot be simulated.
package clock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// Clock is what a role may know of time and chance. All methods are safe for concurrent use.
type Clock interface {
	// Now is the wall clock of the process.
	Now() task.Instant
	// NewTimer returns a timer that fires once, d from now; at once when d ≤ 0.
	NewTimer(d time.Duration) Timer
	// Uint64 returns 64 random bits.
	Uint64() uint64
}

// Timer fires once on C. Reset and Stop follow time.Timer of Go 1.23 and later:
// after either returns, no value of the earlier setting is received from C.
type Timer interface {
	C() <-chan time.Time
	Reset(d time.Duration)
	Stop()
}

// Stamp is a moment in the course of time that a timer follows.
type Stamp int64

// StampOf is the present moment of a virtual timer. Real timers have none: their stamps are all alike.
func StampOf(t Timer) Stamp {
	if v, virtual := t.(*virtualTimer); virtual {
		return v.stamp()
	}
	return 0
}

// ResetFrom sets a timer to fire d after a stamp, which was taken before d was computed from what the
// clock showed. Virtual time may have moved on since, and a wait until some moment must not become longer by
// that; real time has not, to speak of.
func ResetFrom(t Timer, from Stamp, d time.Duration) {
	if v, virtual := t.(*virtualTimer); virtual {
		v.resetFrom(from, d)
		return
	}
	t.Reset(d)
}

// Sleep waits for d or the end of ctx, whose cause it then returns.
func Sleep(ctx context.Context, c Clock, d time.Duration) error {
	t := c.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Until is how long it is to a deadline of a context. Those count by the monotonic clock, as long as that is
// not lost.
func Until(c Clock, deadline time.Time) time.Duration {
	if c == Real() {
		return time.Until(deadline)
	}
	return task.InstantOf(deadline).Sub(c.Now())
}

// Deadline is the deadline of a context that ends d from now. A deadline of the machine's clock keeps its
// monotonic reading, so that it stays as far away when the wall clock is set.
func Deadline(c Clock, d time.Duration) time.Time {
	if c == Real() {
		return time.Now().Add(d)
	}
	return c.Now().Add(d).Time()
}

// Real is the machine's clock and the runtime's random source.
func Real() Clock { return realClock{} }

type realClock struct{}

func (realClock) Now() task.Instant              { return task.InstantOf(time.Now()) }
func (realClock) NewTimer(d time.Duration) Timer { return realTimer{time.NewTimer(d)} }
func (realClock) Uint64() uint64                 { return rand.Uint64() } //nolint:gosec // jitter and partition choice, never a secret

type realTimer struct{ t *time.Timer }

func (t realTimer) C() <-chan time.Time   { return t.t.C }
func (t realTimer) Reset(d time.Duration) { t.t.Reset(d) }
func (t realTimer) Stop()                 { t.t.Stop() }
