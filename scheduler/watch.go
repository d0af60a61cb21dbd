package scheduler

import (
	"bytes"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/google/btree"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// watched is a row whose wake-up has come and that is to be looked at again later, while its wake-up stays where it is: moving an
// indexed attribute is the dearest write there is, and a task that runs for an hour would pay it with every lease.
type watched struct {
	at      task.Instant // when to look again
	id      task.ID
	wake    task.Instant // of the row, and so its place in the index
	attempt uint32       // of the row
	worker  string       // whose lease tells, until rowAt; empty when only the row does
	rowAt   task.Instant // when the row itself is read again
	since   task.Instant // when the watch began
}

func sooner(a, b watched) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	return bytes.Compare(a.id[:], b.id[:]) < 0
}

// budget bounds what all partitions of a process watch together.
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

// watchlist is what one partition watches. It is used by its runner alone.
type watchlist struct {
	byTime *btree.BTreeG[watched]
	byID   map[task.ID]watched
	budget *budget
}

func newWatchlist(b *budget) *watchlist {
	return &watchlist{byTime: btree.NewG(treeDegree, sooner), byID: map[task.ID]watched{}, budget: b}
}

// put watches a row, or changes when to look at it; false when there is no room for one more.
func (l *watchlist) put(w watched) bool {
	if old, found := l.byID[w.id]; found {
		l.byTime.Delete(old)
	} else if !l.budget.take() {
		return false
	}
	l.byID[w.id] = w
	l.byTime.ReplaceOrInsert(w)
	return true
}

// drop ends the watch of a row that moved on.
func (l *watchlist) drop(id task.ID) {
	if old, found := l.byID[id]; found {
		l.byTime.Delete(old)
		delete(l.byID, id)
		l.budget.give(1)
	}
}

// clear ends all watches.
func (l *watchlist) clear() {
	l.budget.give(len(l.byID))
	l.byTime.Clear(false)
	clear(l.byID)
}

// knows reports whether the row is watched as it is.
func (l *watchlist) knows(t *task.Task) bool {
	w, found := l.byID[t.ID]
	return found && w.wake == t.Wake && w.attempt == t.Attempt
}

// since is when the watch of a row began, which is now for one that is not watched.
func (l *watchlist) since(id task.ID, now task.Instant) task.Instant {
	if w, found := l.byID[id]; found {
		return w.since
	}
	return now
}

// due puts up to limit entries off until again and returns them as they were. Whoever comes to know more of such a row
// puts or drops it; what fails on the way is looked at again by itself.
func (l *watchlist) due(now, again task.Instant, limit int) []watched {
	var taken []watched
	l.byTime.Ascend(func(w watched) bool {
		if w.at > now || len(taken) == limit {
			return false
		}
		taken = append(taken, w)
		return true
	})
	for _, w := range taken {
		w.at = again
		l.put(w)
	}
	return taken
}

// next is when to look at the first one.
func (l *watchlist) next() (task.Instant, bool) {
	first, ok := l.byTime.Min()
	return first.at, ok
}

// rowLookMax bounds for how long the lease alone is believed: a row that moved on unseen leaves the memory then.
const rowLookMax = 10 * time.Minute

// rowLook is when to read a row again that was just read: the longer it has been watched, the later.
func rowLook(since, now, next task.Instant) task.Instant {
	return max(next, now.Add(min(now.Sub(since), rowLookMax)))
}

// floor is how far into the index of wake-ups a partition knows every row by heart: all up to that key are watched, so
// that a scan may begin behind it.
type floor struct {
	key store.WakeKey
	// headAt is when a scan begins at the head all the same: an entry may have come late, behind the floor.
	headAt task.Instant
	every  time.Duration // from head to head
}

const (
	// indexLagMax is how late an entry of the index of wake-ups may come without costing more than a scan; what comes
	// later still is found by a scan from the head.
	indexLagMax = 15 * time.Second
	// headScanEvery is how often a partition is scanned from its head, whatever is known of it.
	headScanEvery = 5 * time.Minute
)

// newFloor spreads the scans from the head, so that not all partitions make them at once.
func newFloor(random uint64) floor {
	spread, _ := bits.Mul64(random, uint64(headScanEvery/2))
	return floor{every: headScanEvery - headScanEvery/4 + time.Duration(spread)}
}

// start is the key that a scan at now begins behind. It goes back to the head from time to time, and when the clock was set back.
func (f *floor) start(now task.Instant) store.WakeKey {
	if now >= f.headAt || f.headAt > now.Add(f.every) {
		f.key, f.headAt = store.WakeKey{}, now.Add(f.every)
	}
	return f.key
}

// rise notes that the row at the key is watched like all before it.
func (f *floor) rise(key store.WakeKey, now task.Instant) {
	if key.Wake <= now.Add(-indexLagMax) {
		f.key = key
	}
}

// sink lets the next scan begin at the head.
func (f *floor) sink() { f.key, f.headAt = store.WakeKey{}, 0 }
