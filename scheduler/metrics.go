package scheduler

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// Stalled returns how long the slowest loop has made no progress, Run's own loop included. All loops make
// progress every few seconds, and in an outage with each call that returns, if only with an error. A loop
// that hangs in a call to the store or a queue makes none.
func (s *Scheduler) Stalled() time.Duration {
	now := clock.Mono(s.Clock)
	longest := max(s.progress.stalled(now), s.idle.progress.stalled(now))
	for _, l := range s.loops() {
		longest = max(longest, l.stats.progress.stalled(now))
	}
	return longest
}

// Unread returns how many partitions could not be read for that long.
func (s *Scheduler) Unread(since time.Duration) (count int) {
	now := clock.Mono(s.Clock)
	for _, l := range s.loops() {
		if failed := l.stats.readsFail.Load(); failed != nil && now-*failed >= since {
			count++
		}
	}
	return count
}

// Counts are the tasks of a partition that are held back or under way, as far as they were read.
type Counts struct {
	Gates   int64 // rows that gates hold
	Quotas  int64 // tasks that are due and wait for their quota
	Keys    int64 // tasks that are due and wait for their limit key
	Retries int64 // retries that wait for the retry budget of their lambda
	Queue   int64 // tasks that are due and wait only for room in their queue, of those that were read ahead
	// Unexplained are tasks that have been due for a while and that nothing holds, a page of the schedule at most.
	Unexplained int64
	// Stuck are tasks of a deliver lambda that are acquired and not under way: those that wait for another try,
	// and those that other processes had acquired when they were last read.
	Stuck    int64
	InFlight int64 // on their queue or running
}

// Counts returns the counts of a partition whose tasks are dispatched here; nothing of others.
func (s *Scheduler) Counts(p task.Partition) Counts {
	l := s.loopOf(p)
	if l == nil {
		return Counts{}
	}
	return Counts{
		Gates: l.stats.held.Load(), Quotas: l.stats.heldByQuota.Load(), Keys: l.stats.heldByKey.Load(),
		Retries: l.stats.overBudget.Load(), Queue: l.stats.heldByQueue.Load(), Unexplained: l.stats.unexplained.Load(),
		Stuck: l.stats.stuck.Load(), InFlight: l.stats.inFlight.Load(),
	}
}

// Add adds the counts of another partition.
func (c *Counts) Add(other Counts) {
	c.Gates += other.Gates
	c.Quotas += other.Quotas
	c.Keys += other.Keys
	c.Retries += other.Retries
	c.Queue += other.Queue
	c.Unexplained += other.Unexplained
	c.Stuck += other.Stuck
	c.InFlight += other.InFlight
}

// InFlight returns how many tasks are in flight.
func (s *Scheduler) InFlight() int { return s.FlightRows - int(max(s.inFlightLimit.left.Load(), 0)) }

// Overdue returns the due time of the oldest task that waits to be dispatched, of each partition where that
// is in the past.
func (s *Scheduler) Overdue() map[task.Partition]task.Instant {
	now := s.Clock.Now()
	all := map[task.Partition]task.Instant{}
	for p, l := range s.loops() {
		if oldest := task.Instant(l.stats.oldestSend.Load()); !oldest.IsZero() && oldest < now {
			all[p] = oldest
		}
	}
	return all
}

// Lag returns how late the oldest task is that waits here to be dispatched, or may be: while a partition
// cannot be read, a task may be due just behind what was read of it. 0 when none is late. Tasks that wait for
// room in their queue do not count: more schedulers would not help them.
func (s *Scheduler) Lag() (lag time.Duration) {
	now := s.Clock.Now()
	for p, due := range s.Overdue() {
		if l := s.loopOf(p); l == nil || !l.stats.queueFull.Load() {
			lag = max(lag, now.Sub(due))
		}
	}
	for _, l := range s.loops() {
		if l.stats.readsFail.Load() != nil && l.stats.warm.Load() {
			lag = max(lag, now.Sub(task.Instant(l.buffer.highWater.Load())))
		}
	}
	return lag
}

// DueSoon estimates how many tasks that this process will dispatch are overdue or due within ForecastSpan. Tasks in flight
// are not counted.
func (s *Scheduler) DueSoon() (tasks int64) {
	for _, due := range s.Due() {
		tasks += due[len(due)-1]
	}
	return tasks
}

// Due estimates, by lambda, how many tasks that this process will dispatch are overdue or due within each of DueHorizons.
func (s *Scheduler) Due() map[uint32]DueCounts {
	all := map[uint32]DueCounts{}
	for p, l := range s.loops() {
		sum := all[p.Lambda]
		for i := range sum {
			sum[i] += l.stats.due[i].Load()
		}
		all[p.Lambda] = sum
	}
	return all
}

// IsAwaited reports whether other tasks may wait for a slot that a task holds, of a concurrency quota or of its limit key.
// It takes those for awaited that another process counts.
func (s *Scheduler) IsAwaited(t *task.Task) bool {
	l := s.loopOf(t.Partition)
	if l == nil {
		return true
	}
	g := l.group.Load()
	return g == nil || g.IsAwaited(t.Partition.Priority) || t.LimitKey != "" && l.limitsKeys.Load() && s.keySlotsOf(t.Partition.Lambda).isAwaited(t.LimitKey, l.tick())
}

// KeyUse returns how many tasks of a limit key are enqueued or run, as far as this process counts them, and
// the limits that it knows; false where it does not count them.
func (s *Scheduler) KeyUse(p task.Partition, key string) (used, atOnce int, ok bool) {
	l := s.loopOf(p)
	if l == nil || !l.limitsKeys.Load() {
		return 0, 0, false
	}
	used, limits := s.keySlotsOf(p.Lambda).look(key)
	return used, limits.atOnce, true
}
