package scheduler

import (
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// progress is when a loop last made progress. A loop that does not run is never stalled.
type progress struct {
	runs atomic.Bool
	at   atomic.Int64 // monotonic time
}

func (p *progress) mark(c clock.Clock) {
	p.at.Store(int64(clock.Mono(c)))
	p.runs.Store(true)
}

func (p *progress) end() { p.runs.Store(false) }

func (p *progress) stalled(now time.Duration) time.Duration {
	if !p.runs.Load() {
		return 0
	}
	return now - time.Duration(p.at.Load())
}

// loopStats is what other goroutines may read of a loop.
type loopStats struct {
	oldestSend  atomic.Int64                   // due time of the oldest task that waits to be dispatched; 0 for none
	inFlight    atomic.Int64                   // tasks in flight
	stuck       atomic.Int64                   // tasks of a deliver lambda that are acquired and not under way
	held        atomic.Int64                   // rows that gates hold, as far as they were read
	heldByQuota atomic.Int64                   // tasks that are due and wait for their quota
	heldByKey   atomic.Int64                   // tasks that are due and wait for their limit key
	heldByQueue atomic.Int64                   // tasks that are due and wait for room in their queue
	overBudget  atomic.Int64                   // retries that wait for the retry budget
	unexplained atomic.Int64                   // tasks that are due and do not start, and that nothing holds
	due         [len(DueHorizons)]atomic.Int64 // tasks that are overdue or due within each of DueHorizons
	slotCount   atomic.Uint64                  // the last count of slots that came to its end; 0: none
	warm        atomic.Bool                    // the partition was read ahead
	queueFull   atomic.Bool                    // tasks wait only because their queue has no room
	progress    progress
	readsFail   atomic.Pointer[time.Duration] // monotonic time since when reads fail; nil while they do not
}

// isIdle reports whether the loop has nothing to do.
func (s *loopStats) isIdle() bool {
	return s.oldestSend.Load() == 0 && s.inFlight.Load() == 0 && s.stuck.Load() == 0
}

// noteRead notes whether a read of the partition failed; there is one every few seconds.
func (s *loopStats) noteRead(c clock.Clock, err error) {
	if err == nil {
		s.readsFail.Store(nil)
		return
	}
	now := clock.Mono(c)
	s.readsFail.CompareAndSwap(nil, &now)
}
