package clock

import (
	"sync"
	"time"
)

// StepMin is how far the wall clock must go from the course of time, between two looks, to count as set. Less
// is the work of whoever keeps it right: it is slewed all the time.
const StepMin = 100 * time.Millisecond

// Steps notices when the wall clock of a process is set, and tells of it. Nothing else tells a step from time
// that passed. Look is safe for concurrent use; a nil Steps sees none.
type Steps struct {
	clock Clock
	tell  func(by time.Duration)

	mu   sync.Mutex // guards last; held while tell runs
	last Readings
}

// NewSteps begins to watch a clock. Each step is told once, with its size: positive when the clock was set
// forward. tell must not call Look.
func NewSteps(c Clock, tell func(by time.Duration)) *Steps {
	return &Steps{clock: c, tell: tell, last: Read(c)}
}

// Look compares the clocks with what they showed when somebody looked last. When it returns, a step that was
// made before has been told.
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
