package clocktest

import (
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// Leap is a clock that does not wait between the tries of a call: a short timer takes its time at once.
type Leap struct {
	clock.Clock

	mu  sync.Mutex
	now task.Instant
}

// NewLeap returns a Leap.
func NewLeap() *Leap {
	return &Leap{Clock: clock.Real(), now: task.FromMillis(1_800_000_000_000)}
}

// Now returns the time, with that of all short timers.
func (c *Leap) Now() task.Instant {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// NewTimer returns a timer that has fired, unless it is a long one.
func (c *Leap) NewTimer(d time.Duration) clock.Timer {
	if d > 8*time.Second { // of a call
		return c.Clock.NewTimer(d)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(max(d, 0))
	return c.Clock.NewTimer(0)
}
