package scheduler

import (
	"bytes"
	"sync/atomic"
	"time"

	"github.com/google/btree"

	"github.com/kinesin-io/kinesin/task"
)

// treeDegree is of the tree that orders the entries.
const treeDegree = 16

// entry is a wake-up row to act on at a moment.
type entry struct {
	at  task.Instant // when to act; the row's wake, or a moment later for a guest
	id  task.ID
	row *task.Task // the wake-up row, or a task row that was told of
	// read says that the task row is to be read before anything is done: there is one, or there may be.
	read bool
	// first says that it is fired ahead of its moment, together with others: its message is held back until
	// it is due.
	first bool
	// sends says that it most likely puts one more message on the partition's queue.
	sends bool
}

func before(a, b entry) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	return bytes.Compare(a.id[:], b.id[:]) < 0
}

// position is a place in a partition's schedule.
type position struct {
	at task.Instant
	id task.ID
}

// through is the position behind all rows of an instant and of those before it.
func through(at task.Instant) position { return position{at, lastID} }

// lastID is behind all ids.
var lastID = task.ID{
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
}

func placeOf(row *task.Task) position { return position{row.WakeRow.At, row.ID} }

func (p position) less(q position) bool {
	return p.at < q.at || p.at == q.at && bytes.Compare(p.id[:], q.id[:]) < 0
}

// previous is the last position before p.
func (p position) previous() position {
	for i := len(p.id) - 1; i >= 0; i-- {
		p.id[i]--
		if p.id[i] != 0xff {
			return p
		}
	}
	p.at--
	return p
}

// lookahead is the bounded, time-ordered set of what a partition does next: all
// wake-up rows up to the horizon that are not in flight. What does not fit lowers the horizon
// and stays in the store. Only the horizon may be read by other goroutines.
type lookahead struct {
	entries   *btree.BTreeG[entry]
	limit     int
	horizon   atomic.Int64 // task.Instant; of that very instant it has the rows up to lastOf
	lastOf    task.ID
	truncated bool // the horizon is nearer than it was asked to be
}

func newLookahead(limit int) *lookahead {
	return &lookahead{entries: btree.NewG(treeDegree, before), limit: limit}
}

// covers reports whether a row at that instant may belong into the set; has says it exactly. It is safe for
// concurrent use.
func (l *lookahead) covers(at task.Instant) bool { return int64(at) <= l.horizon.Load() }

// has reports whether a row at that place belongs into the set.
func (l *lookahead) has(p position) bool { return !l.end().less(p) }

// end is the horizon: the set has all up to there, and nothing behind it.
func (l *lookahead) end() position { return position{task.Instant(l.horizon.Load()), l.lastOf} }

// reach moves the horizon before the scan that fills the set begins: a row that is stored later then sees the
// new horizon and is hinted, a row that was stored earlier is found by the scan. It returns the horizon that
// there was, for a scan that fails: what was known before is then good for as far as it went.
func (l *lookahead) reach(horizon position) (before position) {
	before = l.end()
	l.lastOf = horizon.id
	l.horizon.Store(int64(horizon.at))
	return before
}

// lower brings the horizon nearer; it never moves it away.
func (l *lookahead) lower(horizon position) {
	if horizon.less(l.end()) {
		l.reach(horizon)
	}
	l.truncated = true
}

// add puts an entry in, or replaces the one with its key.
func (l *lookahead) add(e entry) {
	l.entries.ReplaceOrInsert(e)
	if l.entries.Len() > l.limit {
		last, _ := l.entries.DeleteMax()
		l.lower(position{last.at, last.id}.previous())
	}
}

// drop removes the entry at that place, if there is one.
func (l *lookahead) drop(at task.Instant, id task.ID) { l.entries.Delete(entry{at: at, id: id}) }

// cut removes all entries later than t that are fired for the first time.
func (l *lookahead) cut(t task.Instant) {
	var late []entry
	l.each(func(e entry) {
		if e.at > t && !e.read {
			late = append(late, e)
		}
	})
	for _, e := range late {
		l.entries.Delete(e)
	}
}

// cutBehind removes the entries behind a position that a scan finds again.
func (l *lookahead) cutBehind(p position, isFound func(entry) bool) {
	var found []entry
	l.entries.AscendGreaterOrEqual(entry{at: p.at, id: p.id}, func(e entry) bool {
		if p.less(position{e.at, e.id}) && isFound(e) {
			found = append(found, e)
		}
		return true
	})
	for _, e := range found {
		l.entries.Delete(e)
	}
}

// take removes and returns up to limit entries whose moment has come, earliest first: those that are fired
// ahead if they are at or before now+ahead. Of those that send it takes no more than room and passes over the
// others; full says that it passed over any.
func (l *lookahead) take(now task.Instant, ahead time.Duration, limit, room int) (taken []entry, full bool) {
	last := now.Add(ahead)
	l.entries.Ascend(func(e entry) bool {
		switch {
		case e.at > last || len(taken) == limit:
			return false
		case e.at > now && !e.first:
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

// nextFiring is when the earliest entry is to be fired, if those that are fired ahead go that much before
// their moment. With silent it leaves out those that send.
func (l *lookahead) nextFiring(ahead time.Duration, silent bool) (at task.Instant, ok bool) {
	l.entries.Ascend(func(e entry) bool {
		if ok && e.at.Add(-ahead) >= at {
			return false
		}
		if silent && e.sends {
			return true
		}
		when := e.at
		if e.first {
			when = when.Add(-ahead)
		}
		if !ok || when < at {
			at, ok = when, true
		}
		return true
	})
	return at, ok
}

// waitsSince is the instant of the earliest entry that waits to be sent for the first time.
func (l *lookahead) waitsSince() (at task.Instant) {
	l.entries.Ascend(func(e entry) bool {
		if e.sends {
			at = e.at
		}
		return at.IsZero()
	})
	return at
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

// low reports whether the set should be filled again although its time has not come.
func (l *lookahead) low() bool { return l.truncated && l.entries.Len() < l.limit/8 }
