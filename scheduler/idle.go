package scheduler

import (
	"context"
	"math"
	"math/bits"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// A loop takes a goroutine and some 17 KiB, and reads its partition every few seconds. So beyond a number of
// loops an idle partition has none: one that has no wake-up row within ForecastSpan, and nothing in flight,
// whose rows are in the schedule too. One goroutine looks at the first row of each of these partitions every
// few minutes, and before its first row comes that near. A hint of a row that is due sooner starts a loop at
// once. This is only so where every row is stored by this process, so that there is a hint of it: a partition
// that others store rows in has to be read every half window.

const (
	// idleLookAhead is how far ahead the look at an idle partition goes: as far as the next look and its
	// ForecastSpan can be.
	idleLookAhead = scansApart + ForecastSpan
	// idleRetry is when a partition is looked at again that could not be read.
	idleRetry = 5 * time.Second
	// never is after all wake-ups.
	never = task.Instant(math.MaxInt64)
)

// add adds a partition that is fired here from now on. It has a loop from the start, unless there are many.
func (s *Scheduler) add(p *firedPartition) {
	i := &s.idle
	i.mu.Lock()
	defer i.mu.Unlock()
	if s.Foreign || i.loops < s.IdleLoops {
		s.startLoop(p)
		return
	}
	i.look(p, tickOf(s.Clock))
}

// remove ends the loop of a partition that is not fired here any more, unless it is kept.
func (s *Scheduler) remove(p *firedPartition, kept bool) {
	i := &s.idle
	i.mu.Lock()
	defer i.mu.Unlock()
	p.gone = true
	i.looks.Remove(p)
	if l := p.loop.Load(); l != nil {
		i.loops--
		if !kept {
			l.stop()
		}
	}
}

// startLoop starts the loop of a partition, maybe because of a hint. Call with idle.mu held.
func (s *Scheduler) startLoop(p *firedPartition, why ...hint) {
	i := &s.idle
	i.looks.Remove(p)
	i.wall.read(s.Clock)
	l := newLoop(s.shared, p.Partition, i.group.start, i.rows)
	l.wall = i.wall
	l.reader.full.since = p.since
	l.stats.warm.Store(p.warm)
	if g := s.exclusiveGroupOf(p.Partition); g != nil && p.warm { // it had nothing in flight
		l.stats.slotCount.Store(g.slotCount.Load())
	}
	if !s.Foreign {
		l.rest = func(ctx context.Context) bool { return s.rest(ctx, p, l) }
	}
	for _, h := range why {
		l.widen(l.now()) // so that it acts on the hint also while it waits for a read
		l.hint(h.task, h.kind)
	}
	i.loops++
	p.loop.Store(l)
	i.group.run(l)
}

// tell tells the loop of a partition of a row that wakes then. A loop that does not want to know yet, because
// a read-ahead brings the row, will; an idle partition gets a loop, or is looked at in time.
func (s *Scheduler) tell(p *firedPartition, t *task.Task, kind hintKind, at task.Instant, wants func(l *loop) bool) {
	for {
		switch l := p.loop.Load(); {
		case l == nil:
			if s.tellIdle(p, t, kind, at) {
				return
			}
		case wants(l):
			if l.hint(t, kind) {
				return
			}
		default:
			if p.note(at); p.loop.Load() == l {
				return
			}
		}
	}
}

// tellIdle is tell for an idle partition; false if it has a loop again.
func (s *Scheduler) tellIdle(p *firedPartition, t *task.Task, kind hintKind, at task.Instant) bool {
	i := &s.idle
	i.mu.Lock()
	defer i.mu.Unlock()
	if p.loop.Load() != nil {
		return false
	}
	if i.group == nil || p.gone {
		return true
	}
	if now := s.Clock.Now(); at > now.Add(ForecastSpan) {
		if p.note(at); p.InHeap() { // else it is looked at now
			i.look(p, min(p.lookAt, s.lookFor(at, now)))
		}
		return true
	}
	s.startLoop(p, newHint(t, kind))
	return true
}

// lookFor returns when to look for a row that wakes then.
func (s *Scheduler) lookFor(at, now task.Instant) tick {
	return tickOf(s.Clock).Add(max(at.Add(-ForecastSpan).Sub(now), 0))
}

// rest makes a partition idle whose loop has nothing to do, if there are many loops. The loop then ends.
func (s *Scheduler) rest(ctx context.Context, p *firedPartition, l *loop) bool {
	i := &s.idle
	i.mu.Lock()
	few := i.loops <= s.IdleLoops
	i.mu.Unlock()
	if few {
		return false
	}
	p.later.Store(int64(never)) // what is stored from now on is noted, and what was stored before is read
	first, err := s.firstWakeup(ctx, p.Partition)
	l.stats.progress.mark(s.Clock)
	if now := s.Clock.Now(); err != nil || first <= now.Add(ForecastSpan) {
		if err == nil {
			l.restFrom = max(l.restFrom, tickOf(s.Clock).Add(first.Sub(now))) // until then it is there
		}
		return false
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.group == nil || p.gone || !l.inbox.close() {
		return false
	}
	i.loops--
	p.since, p.warm = l.reader.full.since, true
	p.loop.Store(nil)
	s.planLook(p, first)
	return true
}

// planLook plans the next look at an idle partition whose first row wakes then. Call with idle.mu held.
func (s *Scheduler) planLook(p *firedPartition, first task.Instant) {
	first = min(first, task.Instant(p.later.Load()))
	spread, _ := bits.Mul64(s.Clock.Uint64(), uint64(scanEvery/2))
	at := tickOf(s.Clock).Add(scanEvery - scanEvery/4 + time.Duration(spread))
	if first < never {
		at = min(at, s.lookFor(first, s.Clock.Now()))
	}
	s.idle.look(p, at)
}

// firstWakeup returns when the first row of a partition wakes; never if there is none before long.
func (s *Scheduler) firstWakeup(ctx context.Context, p task.Partition) (task.Instant, error) {
	rows, err := s.Store.ScanSchedule(ctx, p, store.WakeKey{}, s.Clock.Now().Add(idleLookAhead), 1)
	if err != nil || len(rows) == 0 {
		return never, err
	}
	return rows[0].WakeRow.At, nil
}

// watchIdle looks at the idle partitions until ctx ends.
func (s *Scheduler) watchIdle(ctx context.Context) {
	i := &s.idle
	defer i.progress.end()
	for ctx.Err() == nil {
		p, wait := s.nextLook()
		if p == nil {
			i.progress.end() // there may be nothing to do for long
			s.awaitLook(ctx, wait)
			continue
		}
		i.progress.mark(s.Clock)
		first, err := s.firstWakeup(ctx, p.Partition)
		if ctx.Err() == nil {
			s.looked(ctx, p, first, err)
		}
	}
}

// awaitLook waits until a look is due; 0: none is planned.
func (s *Scheduler) awaitLook(ctx context.Context, wait time.Duration) {
	var due <-chan time.Time
	if wait > 0 {
		timer := s.Clock.NewTimer(wait)
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case <-due:
	case <-s.idle.changed:
	case <-ctx.Done():
	}
}

// nextLook returns the partition that is to be looked at, or nil and how long it is until then. After a step
// of the wall clock all are, since it decides what is due soon.
func (s *Scheduler) nextLook() (p *firedPartition, wait time.Duration) {
	i := &s.idle
	i.mu.Lock()
	defer i.mu.Unlock()
	now := tickOf(s.Clock)
	if _, step := i.wall.read(s.Clock); step.Abs() >= clock.StepMin {
		for p := range i.looks.All() {
			p.lookAt = now // which keeps the heap one
		}
	}
	if i.looks.Len() == 0 {
		return nil, 0
	}
	if wait = i.looks.First().lookAt.Sub(now); wait > 0 {
		return nil, wait
	}
	p = i.looks.Pop()
	p.later.Store(int64(never))
	return p, 0
}

// looked acts on what a look at a partition has found. One that cannot be read gets a loop, which tells of
// it, but not all of them at a time.
func (s *Scheduler) looked(ctx context.Context, p *firedPartition, first task.Instant, err error) {
	if err != nil {
		s.partitionFailed(ctx, p.Partition, err)
	}
	i := &s.idle
	i.mu.Lock()
	defer i.mu.Unlock()
	now := s.Clock.Now()
	switch {
	case i.group == nil || p.gone || p.loop.Load() != nil:
	case err == nil && first <= now.Add(ForecastSpan), err != nil && i.loops < 2*s.IdleLoops:
		s.startLoop(p)
	case err != nil:
		i.look(p, tickOf(s.Clock).Add(idleRetry))
	default:
		if p.since.IsZero() {
			p.since = now
		}
		if !p.warm {
			p.warm = true
			notify(s.warmed)
		}
		s.planLook(p, first)
	}
}
