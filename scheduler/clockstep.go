package scheduler

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// The wall clock may be set while tasks are in flight. A task that waits for an instant of the wall clock (a
// due time, the end of a backoff) keeps that instant. A task that waits for a while from now (the next check
// of a task in flight) stays as far away as it was.

// tick is an instant of clock.Steady. A loop counts its pauses by it, so that none of them becomes longer or shorter when
// the wall clock is set.
type tick task.Instant

func tickOf(c clock.Clock) tick { return tick(clock.Steady(c)) }

// Add returns the tick d later.
func (t tick) Add(d time.Duration) tick { return tick(task.Instant(t).Add(d)) }

// Sub returns the time since an earlier tick.
func (t tick) Sub(earlier tick) time.Duration { return task.Instant(t).Sub(task.Instant(earlier)) }

// graceStepMin is the smallest step after which workers have the time that they have after an outage, to be
// heard and to confirm their claims. Less is a small part of any timeout that counts from a stamp.
const graceStepMin = 2 * time.Second

// loopClock is the wall clock as one loop sees it. It is read before a round reads and again before it
// dispatches, so that each half counts by one clock, and no row that was read is from a later clock.
type loopClock struct {
	start   tick          // of the scheduler: no heartbeat before it is missed
	offset  time.Duration // from clock.Steady to the wall clock
	stepped tick          // when the wall clock was last found to be set; zero: never
	forward time.Duration // by how much it was set forward then, and in the store.CallMax before
}

func newLoopClock(c clock.Clock, start tick) loopClock {
	wall, steady := clock.Both(c)
	return loopClock{start: start, offset: wall.Sub(steady)}
}

// read reads the wall clock, and returns how far it was set since the last time.
func (k *loopClock) read(c clock.Clock) (wall task.Instant, step time.Duration) {
	wall, steady := clock.Both(c)
	offset := wall.Sub(steady)
	step = offset - k.offset
	k.offset = offset
	if step.Abs() >= graceStepMin {
		if tick(steady) >= k.stepped.Add(store.CallMax) {
			k.forward = 0
		}
		k.forward, k.stepped = max(0, k.forward+step), tick(steady)
	}
	return wall, step
}

// wasSet reports whether the wall clock was set since read.
func (k *loopClock) wasSet(c clock.Clock) bool {
	wall, steady := clock.Both(c)
	return (wall.Sub(steady) - k.offset).Abs() >= clock.StepMin
}

// local converts a tick to the wall clock of this round.
func (k *loopClock) local(t tick) task.Instant { return task.Instant(t).Add(k.offset) }

// heartbeatsSince returns since when heartbeats could be received here: since the scheduler's
// start, or since the wall clock was set. Then everybody has the time that they have after an outage.
func (k *loopClock) heartbeatsSince() tick { return max(k.start, k.stepped) }

// isAhead reports whether a stamp was written before the wall clock was set back, or by a process whose clock
// is wrong. A time that counts from such a stamp would not end for as long.
func isAhead(stamp, now task.Instant) bool { return stamp > now.Add(task.ClockBound) }
