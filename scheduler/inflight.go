package scheduler

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/google/btree"

	"github.com/kinesin-io/kinesin/task"
)

// inFlightTask is a task that was dispatched and has not ended, waits for its retry, or was acquired by
// another process. Its wake-up row stays where it is. At checkAt its task row is read, without a scan.
type inFlightTask struct {
	checkAt    task.Instant // when to check again
	id         task.ID
	wakeRowAt  task.Instant // the place of the wake-up row, which scans pass over
	wakeRowSeq uint64       // its seq, by which a later row in that place is known
	worker     string       // until rowAt its lease is checked instead of the row; empty: the row is read
	rowAt      task.Instant // when the row is read again
	attempt    uint32       // the number of the attempt that was seen last
	firstSeen  task.Instant // when that attempt was first seen
	sentUntil  task.Instant // of a task without a task row: until when its message is valid
	lastScan   uint64       // the scan that saw its wake-up row last
	seq        uint64       // of the task as it was seen last
	inTree     bool         // checkAt is in the tree, not in the queue
	waiting    bool         // the task waits for its wake-up, an instant of the wall clock
	holdsSlot  bool         // the task is enqueued or runs
	limitKey   string
	overBudget bool       // the task waits for its lambda's retry budget
	undecided  *task.Task // the wake-up row of an occurrence that waits for the one before it; else nil
}

// inFlightLimit bounds what all partitions of a process have in flight together.
type inFlightLimit struct{ left atomic.Int64 }

func newInFlightLimit(tasks int) *inFlightLimit {
	l := &inFlightLimit{}
	l.left.Store(int64(tasks))
	return l
}

func (l *inFlightLimit) acquire() bool {
	if l.left.Add(-1) >= 0 {
		return true
	}
	l.left.Add(1)
	return false
}

func (l *inFlightLimit) release(n int) { l.left.Add(int64(n)) }

// inFlightSet holds what one partition has in flight; only the partition's loop uses it. A task for which
// there is no room is found again by the next full scan.
//
// Most tasks are checked one enqueue timeout ahead, one after the other, and end before. They wait in a plain
// queue, where a removed task leaves a stale key; only checks out of that order need the tree. With a tree
// alone a tenth of a server's work in a drain went into it.
type inFlightSet struct {
	byID  map[task.ID]*inFlightTask
	queue []rowKey              // checks in order, with stale keys between them
	tree  *btree.BTreeG[rowKey] // the other checks
	limit *inFlightLimit
	scan  uint64 // the scan that goes on
	slots slotUse

	overflowed bool      // there was no room for a task
	keys       *keySlots // counts the slots of limit keys; nil: nobody does
}

// staleMax bounds the stale keys in the queue, besides one for each task.
const staleMax = 1024

func newInFlightSet(limit *inFlightLimit) *inFlightSet {
	return &inFlightSet{tree: btree.NewG(treeDegree, rowKey.less), byID: map[task.ID]*inFlightTask{}, limit: limit}
}

// put adds or replaces a task; false when there is no room for another one. There always is for a task with a slot of a
// concurrency quota, which would be exceeded if the task was forgotten.
func (s *inFlightSet) put(t inFlightTask) bool {
	t.lastScan = s.scan
	one := s.byID[t.id]
	switch {
	case one != nil:
		s.unplan(one)
	case t.holdsSlot && s.slots.isLimited():
		s.limit.left.Add(-1)
		one = &inFlightTask{}
		s.byID[t.id] = one
	case !s.limit.acquire():
		s.overflowed = true
		return false
	default:
		one = &inFlightTask{}
		s.byID[t.id] = one
	}
	before := *one
	s.hold(&t)
	s.slots.change(one.holdsSlot, t.holdsSlot)
	*one = t
	s.free(&before)
	s.plan(one)
	return true
}

// hold counts the slot of its limit key that a task has, and free gives the slot back.
func (s *inFlightSet) hold(t *inFlightTask) {
	if s.keys != nil && t.holdsSlot && t.limitKey != "" {
		s.keys.hold(t.limitKey)
	}
}

func (s *inFlightSet) free(t *inFlightTask) {
	if s.keys != nil && t.holdsSlot && t.limitKey != "" {
		s.keys.free(t.limitKey)
	}
}

// countKeys counts the slots of limit keys in keys from now on; nil: nowhere.
func (s *inFlightSet) countKeys(keys *keySlots) {
	for _, t := range s.byID {
		s.free(t)
	}
	s.keys = keys
	for _, t := range s.byID {
		s.hold(t)
	}
}

// plan schedules the next check of a task.
func (s *inFlightSet) plan(one *inFlightTask) {
	k := rowKey{one.checkAt, one.id}
	if one.inTree = len(s.queue) > 0 && k.less(s.queue[len(s.queue)-1]); one.inTree {
		s.tree.ReplaceOrInsert(k)
		return
	}
	if len(s.queue) > 2*len(s.byID)+staleMax {
		s.queue = slices.DeleteFunc(s.queue, s.isStale)
	}
	s.queue = append(s.queue, k)
}

// unplan cancels the next check of a task.
func (s *inFlightSet) unplan(one *inFlightTask) {
	if one.inTree {
		s.tree.Delete(rowKey{one.checkAt, one.id})
	}
}

func (s *inFlightSet) isStale(k rowKey) bool {
	one := s.byID[k.id]
	return one == nil || one.inTree || one.checkAt != k.at
}

// first returns the time and the id of the next check.
func (s *inFlightSet) first() (k rowKey, ok bool) {
	for len(s.queue) > 0 && s.isStale(s.queue[0]) {
		s.queue = s.queue[1:]
	}
	k, ok = s.tree.Min()
	if len(s.queue) > 0 && (!ok || s.queue[0].less(k)) {
		return s.queue[0], true
	}
	return k, ok
}

// drop forgets a task, and reports whether it was known.
func (s *inFlightSet) drop(id task.ID) bool {
	one := s.byID[id]
	if one == nil {
		return false
	}
	s.unplan(one)
	s.slots.change(one.holdsSlot, false)
	delete(s.byID, id)
	s.free(one)
	s.limit.release(1)
	return true
}

// has reports whether a task is in flight and its wake-up row stands at that instant.
func (s *inFlightSet) has(id task.ID, wakeRowAt task.Instant) bool {
	one := s.byID[id]
	return one != nil && one.wakeRowAt == wakeRowAt
}

// holders returns the places of the first and the last wake-up row of the tasks that have slots which others wait for: all
// have a slot of the exclusive group, in which somebody waits if groupWaits, and those with a limit key also one of the key.
// Both are zero if there is no such task.
func (s *inFlightSet) holders(groupWaits bool) (first, last rowKey) {
	if !groupWaits && s.keys == nil {
		return first, last
	}
	for id, t := range s.byID {
		if !t.holdsSlot || !groupWaits && (t.limitKey == "" || !s.keys.waits(t.limitKey)) {
			continue
		}
		k := rowKey{t.wakeRowAt, id}
		if last == (rowKey{}) || k.less(first) {
			first = k
		}
		if last.less(k) {
			last = k
		}
	}
	return first, last
}

// isOlder reports whether t is an older version of a task than the one in flight.
func (s *inFlightSet) isOlder(t *task.Task) bool {
	one := s.byID[t.ID]
	return one != nil && one.wakeRowAt == t.WakeRow.At && one.wakeRowSeq == t.WakeRow.Seq && t.Seq < one.seq
}

// postpone puts off the next check of a task.
func (s *inFlightSet) postpone(id task.ID, until task.Instant) {
	if one := s.byID[id]; one != nil {
		t := *one
		t.checkAt, t.rowAt, t.waiting = until, until, false
		s.put(t)
	}
}

// clear forgets all tasks.
func (s *inFlightSet) clear() {
	s.countKeys(nil)
	s.limit.release(len(s.byID))
	s.tree.Clear(false)
	s.queue = nil
	s.slots.join(nil)
	s.slots.used = 0
	clear(s.byID)
}

// noteScanned reports whether a wake-up row is that of a task in flight, and notes that a scan has seen it.
func (s *inFlightSet) noteScanned(row *task.Task) bool {
	if !s.has(row.ID, row.WakeRow.At) {
		return false
	}
	s.byID[row.ID].lastScan = s.scan
	return true
}

// beginScan starts a scan over wake-up rows.
func (s *inFlightSet) beginScan() { s.scan++ }

// endScan forgets the tasks whose wake-up rows lie in the range that was scanned and are gone: those tasks
// have ended, or another row wakes them.
func (s *inFlightSet) endScan(from, to rowKey) {
	for id, t := range s.byID {
		if k := (rowKey{t.wakeRowAt, id}); t.lastScan != s.scan && from.less(k) && !to.less(k) {
			s.drop(id)
		}
	}
}

// checkAll has the rows of all tasks read at once, because the processes that changed them last may be gone.
func (s *inFlightSet) checkAll(now task.Instant) {
	for _, one := range s.byID {
		t := *one
		t.checkAt, t.rowAt = min(t.checkAt, now), min(t.rowAt, now)
		s.put(t)
	}
}

// dropLaterThan forgets the tasks that are not checked until an instant.
func (s *inFlightSet) dropLaterThan(until task.Instant) {
	for id, t := range s.byID {
		if t.checkAt > until {
			s.drop(id)
		}
	}
}

// firstSeen returns when an attempt was first seen: now if it is not in flight.
func (s *inFlightSet) firstSeen(id task.ID, attempt uint32, now task.Instant) task.Instant {
	if t, found := s.byID[id]; found && t.attempt == attempt {
		return t.firstSeen
	}
	return now
}

// takeDue returns up to limit tasks whose check is due, and postpones the check of each until again. A check that succeeds
// puts or drops the task; after one that fails, the next check comes then.
func (s *inFlightSet) takeDue(now, again task.Instant, limit int) []inFlightTask {
	var taken []inFlightTask
	for k, ok := s.first(); ok && k.at <= now && len(taken) < limit; k, ok = s.first() {
		t := *s.byID[k.id]
		taken = append(taken, t)
		t.checkAt, t.waiting = again, false
		s.put(t)
	}
	return taken
}

// next returns when the next check is due.
func (s *inFlightSet) next() (task.Instant, bool) {
	k, ok := s.first()
	return k.at, ok
}

// shift moves the checks after the wall clock was set, except those of tasks that wait for their wake-up. A
// message that became too old by the step is refused by its receiver: its task is checked at once.
func (s *inFlightSet) shift(now task.Instant, by time.Duration) {
	s.queue = nil
	s.tree.Clear(false)
	for _, t := range s.byID {
		t.firstSeen = t.firstSeen.Add(by)
		switch {
		case t.waiting:
		case by > task.EnqueueTimeoutMax && t.checkAt > now: // no check is so far ahead: it was put after the step
		case !t.sentUntil.IsZero() && t.sentUntil <= now:
			t.checkAt, t.rowAt = min(t.checkAt, now), min(t.rowAt, now)
		default:
			t.checkAt, t.rowAt = t.checkAt.Add(by), t.rowAt.Add(by)
		}
		s.plan(t)
	}
}

// rowUnreadMax is how long a lease is checked instead of the row at most. After it a task that another process has moved on
// is forgotten.
const rowUnreadMax = 10 * time.Minute

// nextRowRead returns when to read a row again that was just read: the longer the task is in flight, the later.
func nextRowRead(firstSeen, now, next task.Instant) task.Instant {
	return max(next, now.Add(min(now.Sub(firstSeen), rowUnreadMax)))
}
