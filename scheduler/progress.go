package scheduler

import (
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// progress is when a loop last got on. One that does not run, yet or any more, is never stalled.
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

// Stalled is for how long the loop that got on least recently has not: Run itself, or what fires a partition.
// All of them get on every few seconds, and in an outage with each call that comes back, if only with an
// error; those that would take longest are given up after half a minute. One that hangs in a call to the
// store or a queue does not get on.
func (s *Scheduler) Stalled() time.Duration {
	now := clock.Mono(s.Clock)
	longest := s.progress.stalled(now)
	for _, l := range *s.loops.Load() {
		longest = max(longest, l.progress.stalled(now))
	}
	return longest
}

// Unread is how many partitions could not be read since a time ago, by look or by pass.
func (s *Scheduler) Unread(since time.Duration) (count int) {
	now := clock.Mono(s.Clock)
	for _, l := range *s.loops.Load() {
		if failed := l.failing.Load(); failed != nil && now-*failed >= since {
			count++
		}
	}
	return count
}

// noteRead remembers since when the reads of a partition fail; they come every few seconds.
func (l *loop) noteRead(err error) {
	if err == nil {
		l.failing.Store(nil)
		return
	}
	now := clock.Mono(l.s.Clock)
	l.failing.CompareAndSwap(nil, &now)
}
