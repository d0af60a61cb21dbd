package scheduler

import (
	"bytes"
	"cmp"
	"sync/atomic"
	"time"

	"github.com/google/btree"

	"github.com/kinesin-io/kinesin/task"
)

// treeDegree is the degree of the package's B-trees.
const treeDegree = 16

// rowKey is the place of a row in a partition's schedule, which is ordered by time, then by id.
type rowKey struct {
	at task.Instant
	id task.ID
}

// endOf returns the last key of an instant.
func endOf(at task.Instant) rowKey { return rowKey{at, lastID} }

var lastID = task.ID{
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
}

func keyOf(row *task.Task) rowKey { return rowKey{row.WakeRow.At, row.ID} }

func (k rowKey) less(other rowKey) bool {
	return k.at < other.at || k.at == other.at && bytes.Compare(k.id[:], other.id[:]) < 0
}

// previous returns the last key before k.
func (k rowKey) previous() rowKey {
	for i := len(k.id) - 1; i >= 0; i-- {
		k.id[i]--
		if k.id[i] != 0xff {
			return k
		}
	}
	k.at--
	return k
}

// next returns the first key behind k.
func (k rowKey) next() rowKey {
	for i := len(k.id) - 1; i >= 0; i-- {
		k.id[i]++
		if k.id[i] != 0 {
			return k
		}
	}
	k.at++
	return k
}

func compareKeys(a, b rowKey) int {
	return cmp.Or(cmp.Compare(a.at, b.at), bytes.Compare(a.id[:], b.id[:]))
}

// entry is a row to act on at an instant.
type entry struct {
	at  task.Instant // when to act: the row's wake-up, or a moment later in a foreign partition
	id  task.ID
	row *task.Task // the wake-up row, or a task row that came with a hint
	// mustRead says that there may be a task row, which has to be read before anything is done.
	mustRead bool
	// early allows dispatch ahead of time, together with others: the queue holds the message until it is due.
	early bool
	// sends says that the entry probably puts one more message on the partition's queue.
	sends bool
}

func (e entry) key() rowKey { return rowKey{e.at, e.id} }

// entryLess orders entries by their keys, without a copy of these: the tree compares some ten times for each
// entry that comes or goes.
func entryLess(a, b entry) bool {
	return a.at < b.at || a.at == b.at && bytes.Compare(a.id[:], b.id[:]) < 0
}

// expiry returns when the task expires, as far as its row tells; zero: never.
func (e entry) expiry() task.Instant {
	if e.row == nil || !e.row.MayExpire() {
		return 0
	}
	return e.row.StartBefore
}

// buffer holds what a partition does next, ordered by time and bounded: all wake-up rows up to the high-water
// mark that are not in flight. A row that does not fit lowers the mark and stays in the store. Other
// goroutines may read only the mark.
type buffer struct {
	entries   *btree.BTreeG[entry]
	limit     int
	highWater atomic.Int64 // task.Instant; of that very instant the buffer has the rows up to lastID
	lastID    task.ID
	roomless  int  // entries that may go although there is no room for those that send
	truncated bool // rows were left out: the high-water mark is nearer than was asked for
}

// isRoomless reports whether an entry may go without room on the queue, at once or when its task expires.
func (e *entry) isRoomless() bool { return !e.sends || e.row != nil && e.row.MayExpire() }

func newBuffer(limit int) *buffer {
	return &buffer{entries: btree.NewG(treeDegree, entryLess), limit: limit}
}

// covers reports whether a row at that instant may belong into the buffer; has says it exactly. It is safe
// for concurrent use.
func (b *buffer) covers(at task.Instant) bool { return int64(at) <= b.highWater.Load() }

// has reports whether a row with that key belongs into the buffer.
func (b *buffer) has(k rowKey) bool { return !b.end().less(k) }

// end returns the high-water mark.
func (b *buffer) end() rowKey { return rowKey{task.Instant(b.highWater.Load()), b.lastID} }

// extend moves the high-water mark before the scan that fills the buffer. So a row that is stored later sees
// the new mark and comes as a hint, and a row that was stored earlier is found by the scan. It returns the
// old mark, to be restored when the scan fails.
func (b *buffer) extend(mark rowKey) (before rowKey) {
	before = b.end()
	b.lastID = mark.id
	b.highWater.Store(int64(mark.at))
	return before
}

// lower brings the high-water mark nearer; it never moves it away.
func (b *buffer) lower(mark rowKey) {
	if mark.less(b.end()) {
		b.extend(mark)
	}
	b.truncated = true
}

// add inserts an entry, or replaces the one with its key. When the buffer is full the latest one goes.
func (b *buffer) add(e entry) {
	b.put(e)
	if b.entries.Len() > b.limit {
		last, _ := b.entries.DeleteMax()
		b.counted(&last, -1)
		b.lower(last.key().previous())
	}
}

// put inserts an entry, or replaces the one with its key, however full the buffer is.
func (b *buffer) put(e entry) {
	if old, replaced := b.entries.ReplaceOrInsert(e); replaced {
		b.counted(&old, -1)
	}
	b.counted(&e, 1)
}

// remove removes the entry with the key of e.
func (b *buffer) remove(e entry) {
	if old, found := b.entries.Delete(e); found {
		b.counted(&old, -1)
	}
}

// counted keeps roomless up to date: by is 1 for an entry that came, and -1 for one that went.
func (b *buffer) counted(e *entry, by int) {
	if e.isRoomless() {
		b.roomless += by
	}
}

// dropUpTo removes the entry of a wake-up row, unless it is of one with a higher seq.
func (b *buffer) dropUpTo(k rowKey, seq uint64) {
	e, found := b.entries.Get(entry{at: k.at, id: k.id})
	if found && (e.row == nil || e.row.WakeRow.Seq <= seq) {
		b.remove(e)
	}
}

// dropAfter removes the entries behind a key that match.
func (b *buffer) dropAfter(k rowKey, matches func(entry) bool) {
	var found []entry
	b.entries.AscendGreaterOrEqual(entry{at: k.at, id: k.id}, func(e entry) bool {
		if k.less(e.key()) && matches(e) {
			found = append(found, e)
		}
		return true
	})
	for _, e := range found {
		b.remove(e)
	}
}

// take removes and returns up to limit entries that are due, earliest first; early ones count as due when
// they are at or before now+lead. Of those that send it takes no more than room and passes over the others;
// full says that it passed over any. A task that has expired needs no room.
func (b *buffer) take(now task.Instant, lead time.Duration, limit, room int) (taken []entry, full bool) {
	last, passed := now.Add(lead), false
	b.entries.Ascend(func(e entry) bool {
		switch {
		case e.at > last || len(taken) == limit:
			return false
		case e.at > now && !e.early:
			passed = true
		case !e.sends || e.expiry() > 0 && e.expiry() <= now:
			taken = append(taken, e)
		case room > 0:
			room--
			taken = append(taken, e)
		default:
			full = true
			return b.roomless > 0
		}
		return true
	})
	for i := range taken {
		if passed || full && b.roomless > 0 {
			b.entries.Delete(taken[i])
		} else {
			b.entries.DeleteMin() // the same without a search
		}
	}
	for i := range taken {
		b.counted(&taken[i], -1)
	}
	return taken, full
}

// waiting counts the entries that take would take if there was room, and that need some; it stops at most.
func (b *buffer) waiting(now task.Instant, lead time.Duration, most int) (n int) {
	if b.roomless == 0 && b.isAllDue(now) {
		return min(b.entries.Len(), most)
	}
	last := now.Add(lead)
	b.entries.Ascend(func(e entry) bool {
		if e.at > last || n == most {
			return false
		}
		if (e.at <= now || e.early) && e.sends && (e.expiry().IsZero() || e.expiry() > now) {
			n++
		}
		return true
	})
	return n
}

// first returns the instant of the earliest entry.
func (b *buffer) first() (task.Instant, bool) {
	first, ok := b.entries.Min()
	return first.at, ok
}

// nextDispatch returns when the next entry is to be dispatched, if early ones go that long before their time.
// With silent it leaves out those that send, until they expire.
func (b *buffer) nextDispatch(lead time.Duration, silent bool) (at task.Instant, ok bool) {
	if silent && b.roomless == 0 {
		return 0, false
	}
	b.entries.Ascend(func(e entry) bool {
		if ok && e.at.Add(-lead) >= at {
			return false
		}
		when := e.at
		switch {
		case silent && e.sends && e.expiry().IsZero():
			return true
		case silent && e.sends:
			when = max(when, e.expiry())
		case e.early:
			when = when.Add(-lead)
		}
		if !ok || when < at {
			at, ok = when, true
		}
		return true
	})
	return at, ok
}

// oldestSend returns the instant of the earliest entry that sends; zero when there is none.
func (b *buffer) oldestSend() (at task.Instant) {
	b.entries.Ascend(func(e entry) bool {
		if e.sends {
			at = e.at
		}
		return at.IsZero()
	})
	return at
}

// isAllDue reports whether all entries are at or before t, as in a backlog that fills the buffer: then nobody need walk it.
func (b *buffer) isAllDue(t task.Instant) bool {
	last, ok := b.entries.Max()
	return ok && last.at <= t
}

// count returns how many entries are at or before t, and stops at most.
func (b *buffer) count(t task.Instant, most int) (n int) {
	if b.isAllDue(t) {
		return min(b.entries.Len(), most)
	}
	b.entries.Ascend(func(e entry) bool {
		if e.at > t || n == most {
			return false
		}
		n++
		return true
	})
	return n
}

// isLow reports whether the buffer should be filled again before the next read-ahead is due.
func (b *buffer) isLow() bool { return b.truncated && b.entries.Len() < b.limit/8 }

// shift moves all entries in time.
func (b *buffer) shift(by time.Duration) {
	var all []entry
	b.entries.Ascend(func(e entry) bool {
		all = append(all, e)
		return true
	})
	b.entries.Clear(false)
	b.roomless = 0
	for _, e := range all {
		e.at = e.at.Add(by)
		b.put(e)
	}
}
