package clock

import (
	"sync"
	"time"
)

// StepMin is the smallest step between two looks that counts as setting the wall clock. Time daemons slew it
// by less all the time.
const StepMin = 100 * time.Millisecond

// Steps notices when the wall clock of a process is set, and calls tell. Look is safe for concurrent use; a
// nil Steps notices nothing.
type Steps struct {
	clock Clock
	tell  func(by time.Duration)

	mu   sync.Mutex // guards last; held while tell runs
	last Readings
}

// NewSteps begins to watch a clock. It calls tell once for each step, with its size: positive when the clock
// was set forward. tell must not call Look.
func NewSteps(c Clock, tell func(by time.Duration)) *Steps {
	return &Steps{clock: c, tell: tell, last: Read(c)}
}

// Look compares the clocks with their readings at the last call. When it returns, tell has been called for
// every step before.
func (s *Steps) Look() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := Read(s.clock)
	by := now.SteppedSince(s.last)
	s.last = now
	if by.Abs() >= StepMin {
		s.tell(by)
	}
}
