// Package clocktest has clocks for tests.
package clocktest

import (
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// Settable is the Clock of a machine whose wall clock a test can set, and that can be suspended. Its timers
// are those of Clock. All methods may be called from any goroutine.
type Settable struct {
	clock.Clock

	Since task.Instant // when the monotonic clock was 0

	by, slept atomic.Int64
}

// Step sets the wall clock forward, or back if by is negative.
func (s *Settable) Step(by time.Duration) { s.by.Add(int64(by)) }

// Suspend lets time pass that the monotonic clock does not see.
func (s *Settable) Suspend(d time.Duration) { s.slept.Add(int64(d)) }

// Now implements clock.Clock.
func (s *Settable) Now() task.Instant {
	return s.Clock.Now().Add(time.Duration(s.by.Load() + s.slept.Load()))
}

// Read returns the readings of all clocks.
func (s *Settable) Read() clock.Readings {
	mono := s.Clock.Now().Sub(s.Since) // of the bubble or the virtual clock, as its timers
	return clock.Readings{Mono: mono, Boot: mono + time.Hour + time.Duration(s.slept.Load()), Wall: s.Now()}
}
