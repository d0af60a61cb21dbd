// Package clock gives roles time, timers and randomness: the machine's, or virtual ones that a test advances.
// Roles take them from nowhere else, so that they can be simulated.
package clock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// Clock has the time, timers and randomness of one process. All methods are safe for concurrent use.
type Clock interface {
	// Now returns the time of the process's wall clock.
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

// Stamp is a moment of virtual time.
type Stamp int64

// StampOf returns the present moment of a virtual timer, and 0 for a real one.
func StampOf(t Timer) Stamp {
	if v, virtual := t.(*virtualTimer); virtual {
		return v.stamp()
	}
	return 0
}

// ResetFrom sets a timer to fire d after a stamp, which the caller took before it read the clock and computed
// d. Virtual time may have advanced since, and the wait must not become longer by that. Of real time hardly
// any has passed.
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

// Until returns the time left to the deadline of a context, by the monotonic clock where the deadline has its
// reading.
func Until(c Clock, deadline time.Time) time.Duration {
	if c == Real() {
		return time.Until(deadline)
	}
	return task.InstantOf(deadline).Sub(c.Now())
}

// Deadline returns the deadline of a context that ends d from now. With the machine's clock it has a
// monotonic reading, so that setting the wall clock does not move it.
func Deadline(c Clock, d time.Duration) time.Time {
	if c == Real() {
		return time.Now().Add(d)
	}
	return c.Now().Add(d).Time()
}

// Real returns the machine's clock and the runtime's random source.
func Real() Clock { return realClock{} }

type realClock struct{}

func (realClock) Now() task.Instant              { return task.InstantOf(time.Now()) }
func (realClock) NewTimer(d time.Duration) Timer { return realTimer{time.NewTimer(d)} }
func (realClock) Uint64() uint64                 { return rand.Uint64() } //nolint:gosec // jitter and partition choice, never a secret

type realTimer struct{ t *time.Timer }

func (t realTimer) C() <-chan time.Time   { return t.t.C }
func (t realTimer) Reset(d time.Duration) { t.t.Reset(d) }
func (t realTimer) Stop()                 { t.t.Stop() }
