package scheduler

import (
	"bytes"
	"sync/atomic"

	"github.com/google/btree"

	"github.com/kinesin-io/kinesin/task"
)

// treeDegree is of the tree that orders the entries.
const treeDegree = 16

// entry is one thing to do at a moment. A wake-up has no task: its row is read again when it fires.
type entry struct {
	at    task.Instant
	id    task.ID
	task  *task.Task
	order *task.Order // of a deliver lambda, instead of a task
	sends bool        // it puts one more message on the partition's queue, as far as was known when it was added
}

func before(a, b entry) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	return bytes.Compare(a.id[:], b.id[:]) < 0
}

// lookahead is the bounded, time-ordered set of what a partition does next: all
// that the store has up to the horizon. What does not fit lowers the horizon
// and stays in the store. Only the horizon may be read by other goroutines.
type lookahead struct {
	entries   *btree.BTreeG[entry]
	limit     int
	horizon   atomic.Int64 // task.Instant
	truncated bool         // the horizon is nearer than it was asked to be
}

func newLookahead(limit int) *lookahead {
	return &lookahead{entries: btree.NewG(treeDegree, before), limit: limit}
}

// covers reports whether a row at that instant belongs into the set. It is safe for concurrent use.
func (l *lookahead) covers(at task.Instant) bool { return int64(at) <= l.horizon.Load() }

// reach moves the horizon before the scan that fills the set begins: a row that is stored later then sees
// the new horizon and is hinted, a row that was stored earlier is found by the scan. It returns the horizon that there
// was, for a scan that fails: what was known before is then good for as far as it went.
func (l *lookahead) reach(horizon task.Instant) (before task.Instant) {
	return task.Instant(l.horizon.Swap(int64(horizon)))
}

// open empties the set for what a scan up to the horizon found.
func (l *lookahead) open(horizon task.Instant) {
	l.entries.Clear(true)
	l.truncated = false
	l.horizon.Store(int64(horizon))
}

// become takes over what a scan found, and how far that goes.
func (l *lookahead) become(found *lookahead) {
	l.entries, l.truncated = found.entries, found.truncated
	l.horizon.Store(found.horizon.Load())
}

// resume moves the horizon away for a scan that went on from where the set ends.
func (l *lookahead) resume(horizon task.Instant) {
	l.truncated = false
	l.horizon.Store(int64(horizon))
}

// lower brings the horizon nearer; it never moves it away.
func (l *lookahead) lower(horizon task.Instant) {
	l.horizon.Store(min(int64(horizon), l.horizon.Load()))
	l.truncated = true
}

// add puts an entry in, or replaces the one with its key.
func (l *lookahead) add(e entry) {
	l.entries.ReplaceOrInsert(e)
	if l.entries.Len() > l.limit {
		last, _ := l.entries.DeleteMax()
		l.lower(last.at - 1)
	}
}

// cut removes all entries later than t.
func (l *lookahead) cut(t task.Instant) {
	for last, ok := l.entries.Max(); ok && last.at > t; last, ok = l.entries.Max() {
		l.entries.DeleteMax()
	}
}

// has reports whether the entry is in the set.
func (l *lookahead) has(e entry) bool { return l.entries.Has(e) }

// takeUntil removes and returns up to limit entries at or before t, earliest first. Of those that send it
// takes no more than room and passes over the others; full says that it passed over any.
func (l *lookahead) takeUntil(t task.Instant, limit, room int) (taken []entry, full bool) {
	l.entries.Ascend(func(e entry) bool {
		switch {
		case e.at > t || len(taken) == limit:
			return false
		case !e.sends:
			taken = append(taken, e)
		case room > 0:
			room--
			taken = append(taken, e)
		default:
			full = true
		}
		return true
	})
	for _, e := range taken {
		l.entries.Delete(e)
	}
	return taken, full
}

// next is the instant of the earliest entry.
func (l *lookahead) next() (task.Instant, bool) {
	first, ok := l.entries.Min()
	return first.at, ok
}

// count is how many entries are at or before t; it counts no further than most.
func (l *lookahead) count(t task.Instant, most int) (n int) {
	l.entries.Ascend(func(e entry) bool {
		if e.at > t || n == most {
			return false
		}
		n++
		return true
	})
	return n
}

// each visits all entries, earliest first.
func (l *lookahead) each(visit func(entry)) {
	l.entries.Ascend(func(e entry) bool {
		visit(e)
		return true
	})
}

// nextSilent is the instant of the earliest entry that does not send.
func (l *lookahead) nextSilent() (at task.Instant, ok bool) {
	l.entries.Ascend(func(e entry) bool {
		if !e.sends {
			at, ok = e.at, true
		}
		return !ok
	})
	return at, ok
}

// nextSending is the instant of the earliest entry that sends, if that is at or before t.
func (l *lookahead) nextSending(t task.Instant) (at task.Instant, ok bool) {
	l.entries.Ascend(func(e entry) bool {
		if e.at > t {
			return false
		}
		if e.sends {
			at, ok = e.at, true
		}
		return !ok
	})
	return at, ok
}

// low reports whether the set should be filled again although its time has not come.
func (l *lookahead) low() bool { return l.truncated && l.entries.Len() < l.limit/8 }
