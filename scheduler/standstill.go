package scheduler

import (
	"context"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// standstillLook is how often this process looks whether it stood still: stopped, suspended with its machine,
// or without a processor.
const standstillLook = time.Second

// standstill notices that this process did not run for a while. Heartbeats that came meanwhile found nobody,
// which is no fault of their workers. The zero value notices nothing before its second look.
type standstill struct {
	mu   sync.Mutex
	last clock.Readings // of the latest look
}

// look returns for how long at least this process stood still since the latest look, which was to be a
// standstillLook ago at most.
func (s *standstill) look(now clock.Readings) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.last
	s.last = now
	if last == (clock.Readings{}) {
		return 0
	}
	return max(now.Since(last)-standstillLook, 0)
}

// lookWhetherStoodStill counts a standstill as an outage of the store, to reads and writes: either keeps
// heartbeats from being taken. Whoever judges leases looks first, since it may be the first to run again.
func (s *Scheduler) lookWhetherStoodStill(steady task.Instant) {
	if stood := s.still.look(clock.Read(s.Clock)); stood > 0 {
		s.dog.stoodStill(outage{stood, steady})
	}
}

// watchStandstill looks until ctx ends.
func (s *Scheduler) watchStandstill(ctx context.Context) {
	for clock.Sleep(ctx, s.Clock, standstillLook) == nil {
		s.lookWhetherStoodStill(clock.Steady(s.Clock))
	}
}

func (d *watchdog) stoodStill(o outage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reads.note(o)
	d.writes.note(o)
}
