package scheduler

import (
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// progress is when a loop last got on. One that does not run, yet or any more, is never stalled.
type progress struct{ at atomic.Int64 } // monotonic time; 0: it does not run

func (p *progress) mark(c clock.Clock) { p.at.Store(max(1, int64(clock.Mono(c)))) }

func (p *progress) end() { p.at.Store(0) }

func (p *progress) stalled(now time.Duration) time.Duration {
	at := p.at.Load()
	if at == 0 {
		return 0
	}
	return now - time.Duration(at)
}

// Stalled is for how long the loop that got on least recently has not: Run itself, or what fires a partition. All of them
// get on every few seconds; one that hangs in a call to the store or a queue does not.
func (s *Scheduler) Stalled() time.Duration {
	now := clock.Mono(s.Clock)
	longest := s.progress.stalled(now)
	for _, r := range *s.runners.Load() {
		longest = max(longest, r.progress.stalled(now))
	}
	for _, d := range *s.deliverers.Load() {
		longest = max(longest, d.progress.stalled(now))
	}
	return longest
}
