// Package clocktest has clocks for tests.
package clocktest

import (
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// Settable is a Clock whose wall clock a test can set. Its monotonic clock and timers are those of Clock.
type Settable struct {
	clock.Clock

	by atomic.Int64
}

// Step sets the wall clock forward, or back if by is negative. It may be called from any goroutine.
func (s *Settable) Step(by time.Duration) { s.by.Add(int64(by)) }

// Now implements clock.Clock.
func (s *Settable) Now() task.Instant { return s.Clock.Now().Add(time.Duration(s.by.Load())) }

// Read returns the readings of all clocks.
func (s *Settable) Read() clock.Readings {
	mono := s.Clock.Now().Sub(0) // of the bubble or the virtual clock, as its timers
	return clock.Readings{Mono: mono, Boot: mono + time.Hour, Wall: s.Now()}
}
