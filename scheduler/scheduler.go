package scheduler

import (
	"iter"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// Scheduler runs one loop for each partition whose tasks it dispatches, except for idle ones where there are many.
type Scheduler struct {
	*shared

	fired      atomic.Pointer[map[task.Partition]*firedPartition] // replaced by Run and read by all
	idle       idlePartitions
	foreign    foreignLoops
	assignment atomic.Pointer[Assignment]  // replaced by Run
	progress   progress                    // of Run
	openings   map[task.Partition]*opening // of Run, by group
}

// New returns a scheduler that does nothing until Run.
func New(c Config) *Scheduler {
	s := &Scheduler{shared: newShared(c), openings: map[task.Partition]*opening{}}
	s.assignment.Store(&Assignment{})
	s.fired.Store(&map[task.Partition]*firedPartition{})
	s.idle.changed = make(chan struct{}, 1)
	return s
}

func (s *Scheduler) firedOf(p task.Partition) *firedPartition { return (*s.fired.Load())[p] }

// loopOf returns the loop of a partition; nil when there is none here.
func (s *Scheduler) loopOf(p task.Partition) *loop {
	if one := s.firedOf(p); one != nil {
		return one.loop.Load()
	}
	return nil
}

// loops returns the loops of all partitions that have one here, but for foreign ones.
func (s *Scheduler) loops() iter.Seq2[task.Partition, *loop] {
	return func(yield func(task.Partition, *loop) bool) {
		for p, one := range *s.fired.Load() {
			if l := one.loop.Load(); l != nil && !yield(p, l) {
				return
			}
		}
	}
}

// Fires reports whether this process dispatches the tasks of a partition: as its owner, or until its next owner has taken over.
func (s *Scheduler) Fires(p task.Partition) bool { return s.firedOf(p) != nil }

// ClockStepped says that the wall clock was set, and by how much, so that no loop sleeps through it. It may
// be called from any goroutine, and does no I/O.
func (s *Scheduler) ClockStepped(by time.Duration) {
	s.shiftActivity(by)
	for _, l := range s.loops() {
		notify(l.wake)
	}
	notify(s.idle.changed)
	s.foreign.wakeAll()
}
