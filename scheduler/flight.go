package scheduler

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/btree"

	"github.com/kinesin-io/kinesin/task"
)

// inFlight is a task whose wake-up row stays where it is while the task is sent, runs, waits for its retry or
// is acquired by another process. It is looked at again when its time has come, by a read of its row and not
// by a scan.
type inFlight struct {
	at      task.Instant // when to look again
	id      task.ID
	place   task.Instant // of the wake-up row, which scans pass over
	worker  string       // whose lease tells, until rowAt; empty when only the row does
	rowAt   task.Instant // when the row itself is read again
	attempt uint32       // the one that was seen last
	since   task.Instant // when that was first seen
	until   task.Instant // of a task that has no task row: until when its message is good
	scanned uint64       // the look that saw its wake-up row
	sorted  bool         // its time is in the tree
	parked  bool         // it waits for its wake-up, which is an instant of the wall clock
}

// budget bounds what all partitions of a process have in flight together.
type budget struct{ left atomic.Int64 }

func newBudget(rows int) *budget {
	b := &budget{}
	b.left.Store(int64(rows))
	return b
}

func (b *budget) take() bool {
	if b.left.Add(-1) >= 0 {
		return true
	}
	b.left.Add(1)
	return false
}

func (b *budget) give(n int) { b.left.Add(int64(n)) }

// flight is what one partition has in flight. Its loop alone uses it. What it has no room for is found again
// by the next full pass.
type flight struct {
	byID   map[task.ID]*inFlight
	queue  []position              // when to look at most of them, in order; those of tasks that are looked at otherwise are stale
	byTime *btree.BTreeG[position] // when to look at the others
	budget *budget
	scan   uint64 // the look that goes on
}

// staleMax bounds the stale positions in the queue, besides one for each task in flight.
const staleMax = 1024

func newFlight(b *budget) *flight {
	return &flight{byTime: btree.NewG(treeDegree, position.less), byID: map[task.ID]*inFlight{}, budget: b}
}

// put notes a task, or changes when to look at it; false when there is no room for one more.
func (l *flight) put(w inFlight) bool {
	w.scanned = l.scan
	one := l.byID[w.id]
	switch {
	case one != nil:
		l.unplan(one)
	case !l.budget.take():
		return false
	default:
		one = &inFlight{}
		l.byID[w.id] = one
	}
	*one = w
	l.plan(one)
	return true
}

// plan has a task looked at when it says. Most are planned one enqueue timeout ahead, one after the other,
// and end before: for them it takes no tree.
func (l *flight) plan(one *inFlight) {
	p := position{one.at, one.id}
	if one.sorted = len(l.queue) > 0 && p.less(l.queue[len(l.queue)-1]); one.sorted {
		l.byTime.ReplaceOrInsert(p)
		return
	}
	if len(l.queue) > 2*len(l.byID)+staleMax {
		l.queue = slices.DeleteFunc(l.queue, l.isStale)
	}
	l.queue = append(l.queue, p)
}

// unplan has a task not looked at any more; what is in the queue is stale when its task has gone, or says
// another time.
func (l *flight) unplan(one *inFlight) {
	if one.sorted {
		l.byTime.Delete(position{one.at, one.id})
	}
}

func (l *flight) isStale(p position) bool {
	one := l.byID[p.id]
	return one == nil || one.sorted || one.at != p.at
}

// first is when to look at the first one.
func (l *flight) first() (p position, ok bool) {
	for len(l.queue) > 0 && l.isStale(l.queue[0]) {
		l.queue = l.queue[1:]
	}
	p, ok = l.byTime.Min()
	if len(l.queue) > 0 && (!ok || l.queue[0].less(p)) {
		return l.queue[0], true
	}
	return p, ok
}

// drop forgets a task, and reports whether it was known.
func (l *flight) drop(id task.ID) bool {
	one := l.byID[id]
	if one == nil {
		return false
	}
	l.unplan(one)
	delete(l.byID, id)
	l.budget.give(1)
	return true
}

// has reports whether a task is in flight and its wake-up row stands at that instant.
func (l *flight) has(id task.ID, place task.Instant) bool {
	one := l.byID[id]
	return one != nil && one.place == place
}

// rest puts off when to look at a task.
func (l *flight) rest(id task.ID, until task.Instant) {
	if one := l.byID[id]; one != nil {
		w := *one
		w.at, w.rowAt, w.parked = until, until, false
		l.put(w)
	}
}

// clear forgets all.
func (l *flight) clear() {
	l.budget.give(len(l.byID))
	l.byTime.Clear(false)
	l.queue = nil
	clear(l.byID)
}

// meet reports whether a wake-up row is that of a task in flight, and notes that a look has seen it.
func (l *flight) meet(row *task.Task) bool {
	if !l.has(row.ID, row.WakeRow.At) {
		return false
	}
	l.byID[row.ID].scanned = l.scan
	return true
}

// begin starts a look over wake-up rows; end forgets the tasks whose wake-up rows lie in the range that it
// read and are gone: those tasks have ended, or another row wakes them.
func (l *flight) begin() { l.scan++ }

func (l *flight) end(from, to position) {
	for id, w := range l.byID {
		if p := (position{w.place, id}); w.scanned != l.scan && from.less(p) && !to.less(p) {
			l.drop(id)
		}
	}
}

// review has everything looked at again at once, by reading the rows: whoever changed them last may be gone.
func (l *flight) review(now task.Instant) {
	for _, one := range l.byID {
		w := *one
		w.at, w.rowAt = min(w.at, now), min(w.rowAt, now)
		l.put(w)
	}
}

// keep forgets what is not to be looked at until an instant.
func (l *flight) keep(until task.Instant) {
	for id, w := range l.byID {
		if w.at > until {
			l.drop(id)
		}
	}
}

// since is when an attempt of a task was first seen, which is now for one that is not in flight.
func (l *flight) since(id task.ID, attempt uint32, now task.Instant) task.Instant {
	if w, found := l.byID[id]; found && w.attempt == attempt {
		return w.since
	}
	return now
}

// due puts up to limit entries off until again and returns them as they were. Whoever comes to know more of
// such a row puts or drops it; what fails on the way is looked at again by itself.
func (l *flight) due(now, again task.Instant, limit int) []inFlight {
	var taken []inFlight
	for p, ok := l.first(); ok && p.at <= now && len(taken) < limit; p, ok = l.first() {
		w := *l.byID[p.id]
		taken = append(taken, w)
		w.at, w.parked = again, false
		l.put(w)
	}
	return taken
}

// next is when to look at the first one.
func (l *flight) next() (task.Instant, bool) {
	p, ok := l.first()
	return p.at, ok
}

// rowLookMax bounds for how long the lease alone is believed: a row that moved on unseen leaves the memory
// then.
const rowLookMax = 10 * time.Minute

// rowLook is when to read a row again that was just read: the longer it has been in flight, the later.
func rowLook(since, now, next task.Instant) task.Instant {
	return max(next, now.Add(min(now.Sub(since), rowLookMax)))
}
