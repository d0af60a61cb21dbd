package scheduler

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/task"
)

// A foreign partition is owned by another process. A task that is stored here in such a partition is found by
// its owner with the next read-ahead, which may be half a window away. A task that is due before is
// dispatched here: ownership only says who tries first, and two that try cost a refused write.
const (
	// foreignMax bounds the foreign partitions whose tasks are dispatched here; tasks of others wait for
	// their owners.
	foreignMax = 1024
	// foreignIdleMax is how long the loop of a foreign partition stays without anything to do.
	foreignIdleMax = time.Minute
)

// foreignLoop is the loop of a foreign partition.
type foreignLoop struct {
	*loop

	hintedAt atomic.Int64 // monotonic time of the last hint, as a time.Duration
}

// foreignLoops are the loops of foreign partitions. A loop starts with the first hint.
type foreignLoops struct {
	mu    sync.RWMutex               // guards what follows
	start func(task.Partition) *loop // nil: Run does not accept hints
	loops map[task.Partition]*foreignLoop
}

// open lets hints start loops.
func (f *foreignLoops) open(start func(task.Partition) *loop) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.start, f.loops = start, map[task.Partition]*foreignLoop{}
}

// close ends that, and forgets all loops.
func (f *foreignLoops) close() { f.open(nil) }

func (f *foreignLoops) has(p task.Partition) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.loops[p] != nil
}

// accepts reports whether a hint of a foreign partition has a place here.
func (f *foreignLoops) accepts(p task.Partition) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.loops[p] != nil || f.start != nil && len(f.loops) < foreignMax
}

// hint tells the loop of a foreign partition of a row.
func (f *foreignLoops) hint(now time.Duration, t *task.Task, kind hintKind) {
	if f.tell(now, t, kind) {
		return
	}
	f.mu.Lock()
	if f.loops[t.Partition] == nil && f.start != nil && len(f.loops) < foreignMax {
		f.add(now, t.Partition, f.start(t.Partition))
	}
	f.mu.Unlock()
	f.tell(now, t, kind)
}

func (f *foreignLoops) tell(now time.Duration, t *task.Task, kind hintKind) bool {
	f.mu.RLock()
	defer f.mu.RUnlock()
	one := f.loops[t.Partition]
	if one == nil {
		return false
	}
	one.hintedAt.Store(int64(now))
	one.hint(t, kind)
	return true
}

func (f *foreignLoops) add(now time.Duration, p task.Partition, l *loop) {
	one := &foreignLoop{loop: l}
	one.hintedAt.Store(int64(now))
	f.loops[p] = one
}

// adopt keeps the loop of a partition that another process has taken over, for the tasks that only this
// process knows and that are due within a time. It reports whether there was room.
func (f *foreignLoops) adopt(now time.Duration, p task.Partition, l *loop, lingers time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.start == nil || len(f.loops) >= foreignMax {
		return false
	}
	if other := f.loops[p]; other != nil { // a hint that came as this process took over
		other.stop()
	}
	l.makeForeign(lingers)
	f.add(now, p, l)
	return true
}

// stop stops the loops of partitions that are owned here now, and those with nothing to do.
func (f *foreignLoops) stop(now time.Duration, isOwned func(task.Partition) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.loops, func(p task.Partition, one *foreignLoop) bool {
		idle := now-time.Duration(one.hintedAt.Load()) >= foreignIdleMax && one.stats.isIdle()
		if !idle && !isOwned(p) {
			return false
		}
		one.stop()
		return true
	})
}

// wakeAll wakes all loops.
func (f *foreignLoops) wakeAll() {
	f.mu.RLock()
	defer f.mu.RUnlock()
	for _, one := range f.loops {
		notify(one.wake)
	}
}
