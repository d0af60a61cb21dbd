package scheduler

import (
	"slices"

	"github.com/kinesin-io/kinesin/internal/minheap"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// keyRowsMax is how many waiting rows of one key a loop remembers at most.
	keyRowsMax = 1024
	// keyRowsShare bounds the rows of one key by what is left of the memory for all keys: one part in so many of
	// that, and one row in any case while there is room (dynamic thresholds, Choudhury and Hahne 1998).
	keyRowsShare = 16
	// keyForceMax is how many rows there may be beyond the bound, so that a key without a row gets one.
	keyForceMax = 4096
	// keyReadyMax is how many keys may be ready and wait for room while more rows are looked for.
	keyReadyMax = 512
)

// keyRow is the wake-up row of a task that waits for its limit key.
type keyRow struct {
	rowKey

	due      task.Instant // when to act on it
	row      *task.Task   // as it was seen; nil: it is read again
	mustRead bool         // there is a task row, which has to be read first
	mayGo    bool         // no gate held it, or one that resumes at a pace has let it go
}

// keyState is what the first row of a key waits for.
type keyState uint8

const (
	keyIdle   keyState = iota // for nothing: there is no row
	keyTimed                  // for its time, or for the next start that the key's rate allows
	keyReady                  // for its turn among the keys
	keyFilled                 // for a slot
)

// keyList has the first waiting rows of one key in one partition, in the order of the schedule.
type keyList struct {
	minheap.Place // in keyQueue.timed

	key   string
	rows  []keyRow
	state keyState
	at    task.Instant // of keyTimed

	// more says that rows of the key at or behind from may be in the schedule and not in rows.
	more    bool
	from    rowKey
	left    int    // about how many rows were left in the schedule
	counted rowKey // up to where left counts them
	low     bool   // it is in keyQueue.low
	stopped uint64 // the pass that has left a row of the key out
}

// keyQueue has the waiting rows of limit keys of one partition, a short list of the first ones for each key.
// Keys take turns. Rows that do not fit stay in the schedule: the list remembers where they begin, and a pass
// over the schedule from there fills it again. It does no I/O, and knows no slots: whoever takes a row from
// it has to have one.
type keyQueue struct {
	lists map[string]*keyList
	ready []*keyList             // in turn
	timed minheap.Heap[*keyList] // by the instant that they wait for
	low   []*keyList             // those that ran low; a pass fills those that still are
	limit *inFlightLimit
	rows  int // in all lists
	kept  int // rows whose tasks are kept, too
	keep  int // as many at most

	// unlisted says that rows at or behind unlistedFrom may be in the schedule whose keys have no list.
	unlisted     bool
	unlistedFrom rowKey
	pass         keyPass

	othersDue float64 // turns of tasks without a limit key that are due
}

// keyPass is a pass over the schedule that fills lists.
type keyPass struct {
	number   uint64
	underWay bool
	from     rowKey // it has seen all rows from there on,
	after    rowKey // up to there
	target   *keyList
	pages    int
	leftOut  bool   // it has left out rows of keys without a list, or was told of some behind it
	leftFrom rowKey // the first of them
}

func newKeyQueue(limit *inFlightLimit, keep int) *keyQueue {
	return &keyQueue{lists: map[string]*keyList{}, limit: limit, keep: keep}
}

// isEmpty reports whether no row waits, here or in the schedule.
func (q *keyQueue) isEmpty() bool {
	return q.rows == 0 && len(q.low) == 0 && !q.unlisted && !q.pass.underWay
}

// most returns how many rows a key may have here.
func (q *keyQueue) most() int {
	return max(1, min(keyRowsMax, int(q.limit.left.Load())/keyRowsShare))
}

// keyOffer says where a row comes from.
type keyOffer uint8

const (
	keyKnown   keyOffer = iota // a scan or a hint: rows before it may not be known
	keyScanned                 // the pass under way has come to it
	keyRead                    // its task row was read to know its key, so no pass would take it in by itself
)

// offer takes in a waiting row of a key, or leaves it in the schedule.
func (q *keyQueue) offer(key string, r keyRow, how keyOffer) {
	scanned := how == keyScanned
	l := q.lists[key]
	if l == nil {
		if l = q.newList(key, r.rowKey, scanned); l == nil {
			return
		}
	}
	i, found := slices.BinarySearchFunc(l.rows, r.rowKey, func(a keyRow, k rowKey) int { return compareKeys(a.rowKey, k) })
	if found {
		if r.mustRead || !l.rows[i].mustRead { // else its task row says more
			q.replace(l, i, r)
		}
		return
	}
	behind := l.more && !r.less(q.fromOf(l))
	switch {
	case behind && how != keyRead && (!scanned || !q.completes(l)):
		l.count(r.rowKey)
		return
	case len(l.rows) >= q.most() || !q.limit.acquire() && !q.force(l):
		q.squeeze(l, i, r, scanned)
		return
	}
	q.insert(l, i, r)
	if behind && scanned {
		l.uncount(r.rowKey)
		l.from = r.next()
	}
}

// newList makes the list of a key that has none; nil if there is no memory for it.
func (q *keyQueue) newList(key string, k rowKey, scanned bool) *keyList {
	if q.limit.left.Load() <= 0 && (!scanned || !q.mayForce()) {
		q.leaveUnlisted(k, scanned)
		return nil
	}
	l := &keyList{key: key}
	q.lists[key] = l
	return l
}

// mayForce reports whether there may be one row more than there is memory for.
func (q *keyQueue) mayForce() bool {
	return len(q.ready) < keyReadyMax && q.limit.left.Load() > -keyForceMax
}

// force lets a key have one row although there is no memory left, because a key without a row would never
// start one.
func (q *keyQueue) force(l *keyList) bool {
	if len(l.rows) > 0 || !q.mayForce() {
		return false
	}
	q.limit.left.Add(-1)
	return true
}

// squeeze makes room for a row in a list that is full by leaving out its last one, or leaves the row out if
// that is the last.
func (q *keyQueue) squeeze(l *keyList, i int, r keyRow, scanned bool) {
	out := r.rowKey
	if n := len(l.rows); i < n {
		out = l.rows[n-1].rowKey
		q.forget(&l.rows[n-1])
		l.rows = l.rows[:n-1]
		q.rows--
		q.insert(l, i, r)
	}
	if !l.more || out.less(l.from) {
		l.more, l.from = true, out
	}
	l.count(out)
	if q.pass.underWay && (scanned || !q.pass.after.less(out)) {
		l.stopped = q.pass.number
	}
	q.noteLow(l)
}

func (q *keyQueue) insert(l *keyList, i int, r keyRow) {
	q.note(&r)
	l.rows = slices.Insert(l.rows, i, r)
	q.rows++
	if i == 0 {
		q.retime(l)
	}
}

func (q *keyQueue) replace(l *keyList, i int, r keyRow) {
	q.forget(&l.rows[i])
	q.note(&r)
	l.rows[i] = r
	if i == 0 {
		q.retime(l)
	}
}

// note keeps the task of a row if there is room for it, forget lets it go.
func (q *keyQueue) note(r *keyRow) {
	if r.row != nil && q.kept >= q.keep {
		r.row = nil
	}
	if r.row != nil {
		q.kept++
	}
}

func (q *keyQueue) forget(r *keyRow) {
	if r.row != nil {
		q.kept--
	}
}

// leaveUnlisted notes a row of a key for which there is no memory.
func (q *keyQueue) leaveUnlisted(k rowKey, scanned bool) {
	if !q.unlisted || k.less(q.unlistedFrom) {
		q.unlisted, q.unlistedFrom = true, k
	}
	p := &q.pass
	if p.underWay && (scanned || !p.after.less(k)) && (!p.leftOut || k.less(p.leftFrom)) {
		p.leftOut, p.leftFrom = true, k
	}
}

// retime has a list wait for the time of its first row, unless it waits for a slot.
func (q *keyQueue) retime(l *keyList) {
	if l.state == keyFilled || l.state == keyReady {
		return
	}
	q.time(l, l.rows[0].due)
}

// time has a list wait until an instant.
func (q *keyQueue) time(l *keyList, at task.Instant) {
	l.at, l.state = at, keyTimed
	q.timed.Put(l)
}

// wake makes the keys whose time has come ready: when the first of them waits for an instant that is not after first, all
// that wait for one until through, so that their tasks share a dispatch.
func (q *keyQueue) wake(first, through task.Instant) {
	if next, ok := q.next(); !ok || next > first {
		return
	}
	for q.timed.Len() > 0 && q.timed.First().at <= through {
		l := q.timed.Pop()
		l.state = keyReady
		q.ready = append(q.ready, l)
	}
}

// freed makes a key for which a slot is free ready, if rows of the key wait for a slot.
func (q *keyQueue) freed(key string) {
	if l := q.lists[key]; l != nil && l.state == keyFilled {
		q.refree(l)
	}
}

// refree makes a list that waits for a slot ready.
func (q *keyQueue) refree(l *keyList) {
	l.state = keyReady
	q.ready = append(q.ready, l)
}

// freedAll makes all keys that wait for a slot or for their rate ready, because the limits have changed.
func (q *keyQueue) freedAll() {
	for _, l := range q.lists {
		switch l.state {
		case keyFilled:
			q.refree(l)
		case keyTimed:
			q.time(l, l.rows[0].due)
		case keyIdle, keyReady:
		}
	}
}

// next returns when the next key becomes ready; false: none does by itself.
func (q *keyQueue) next() (task.Instant, bool) {
	if q.timed.Len() == 0 {
		return 0, false
	}
	return q.timed.First().at, true
}

// due returns about how many rows are due: waiting for their limit keys, and ready, which wait for their turn or for room.
func (q *keyQueue) due(now task.Instant) (waiting, ready int) {
	for _, l := range q.lists {
		rows := l.left
		for i := range l.rows {
			if l.rows[i].due > now {
				break
			}
			rows++
		}
		if l.state == keyReady {
			ready += rows
		} else {
			waiting += rows
		}
	}
	return waiting, ready
}

// take takes up to most rows from the keys that are ready, one of each in turn. start takes a slot for the
// first row of a key; if there is none it says when to try again, zero: when freed is called.
func (q *keyQueue) take(now task.Instant, most int, start func(l *keyList) (ok bool, again task.Instant)) (taken []keyedRow) {
	for len(taken) < most && len(q.ready) > 0 {
		l := q.ready[0]
		q.ready = q.ready[1:]
		l.state = keyIdle
		if first := l.rows[0].due; first > now {
			q.time(l, first)
			continue
		}
		ok, again := start(l)
		switch {
		case ok:
			taken = append(taken, keyedRow{l.rows[0], l.key})
			q.dropFirst(l)
			if len(l.rows) > 0 {
				l.state = keyReady
				q.ready = append(q.ready, l)
			}
		case !again.IsZero():
			q.time(l, again)
		default:
			l.state = keyFilled
		}
		q.noteLow(l)
		q.dropIdle(l)
	}
	return taken
}

// keyedRow is a row with its key.
type keyedRow struct {
	keyRow

	key string
}

// following returns when the row behind the first one is due, at the earliest; never if there is none.
func (l *keyList) following() task.Instant {
	switch {
	case len(l.rows) > 1:
		return l.rows[1].due
	case l.more:
		return l.from.at
	}
	return never
}

func (q *keyQueue) dropFirst(l *keyList) {
	q.forget(&l.rows[0])
	l.rows[0] = keyRow{}
	l.rows = l.rows[1:]
	q.rows--
	q.limit.release(1)
}

// remove forgets a row that no task needs any more.
func (q *keyQueue) remove(key string, k rowKey) {
	l := q.lists[key]
	if l == nil {
		return
	}
	i, found := slices.BinarySearchFunc(l.rows, k, func(a keyRow, k rowKey) int { return compareKeys(a.rowKey, k) })
	if !found {
		return
	}
	q.forget(&l.rows[i])
	l.rows = slices.Delete(l.rows, i, i+1)
	q.rows--
	q.limit.release(1)
	if len(l.rows) == 0 {
		switch l.state {
		case keyTimed:
			q.timed.Remove(l)
		case keyReady:
			q.ready = slices.DeleteFunc(q.ready, func(o *keyList) bool { return o == l })
		case keyFilled, keyIdle:
		}
		l.state = keyIdle
	}
	q.noteLow(l)
	q.dropIdle(l)
}

// dropIdle forgets a list without rows, here or in the schedule.
func (q *keyQueue) dropIdle(l *keyList) {
	if len(l.rows) == 0 && !l.more && !l.low {
		delete(q.lists, l.key)
	}
}

// clear forgets everything.
func (q *keyQueue) clear() {
	q.limit.release(q.rows)
	*q = *newKeyQueue(q.limit, q.keep)
}

// isLow reports whether a list has few rows and may have more in the schedule.
func (q *keyQueue) isLow(l *keyList) bool { return l.more && len(l.rows) <= q.most()/4 }

// noteLow has a pass fill a list that is low.
func (q *keyQueue) noteLow(l *keyList) {
	if l.low || !q.isLow(l) {
		return
	}
	l.low = true
	q.low = append(q.low, l)
}

// wantsPass reports whether a pass over the schedule would help.
func (q *keyQueue) wantsPass() bool {
	return (q.pass.underWay || len(q.low) > 0 || q.unlisted) && len(q.ready) < keyReadyMax
}

// beginPass begins a pass, if none is under way, at the first row that a list misses. So it serves all lists that are low;
// one that began farther on would read rows of others again and again.
func (q *keyQueue) beginPass() {
	p := &q.pass
	if p.underWay {
		return
	}
	q.low = slices.DeleteFunc(q.low, func(l *keyList) bool {
		l.low = q.isLow(l)
		q.dropIdle(l)
		return !l.low
	})
	from := q.unlistedFrom
	var target *keyList
	if len(q.low) > 0 {
		target = slices.MinFunc(q.low, func(a, b *keyList) int { return compareKeys(a.from, b.from) })
		from = target.from
	}
	q.pass = keyPass{number: p.number + 1, underWay: target != nil || q.unlisted, from: from, after: from.previous(), target: target}
}

// completes reports whether the pass under way fills a list in order: it has seen all that the list misses.
func (q *keyQueue) completes(l *keyList) bool {
	return q.pass.underWay && l.stopped != q.pass.number && !l.from.less(q.pass.from)
}

// fromOf returns where rows begin that a list may miss, as far as the pass under way has not seen them.
func (q *keyQueue) fromOf(l *keyList) rowKey {
	if q.completes(l) && l.from.less(q.pass.after.next()) {
		return q.pass.after.next()
	}
	return l.from
}

// passed notes that the pass has come to a key; ended says that nothing is behind it. The pass is over when
// its target is filled, or it has read most pages.
func (q *keyQueue) passed(after rowKey, ended bool, most int) {
	p := &q.pass
	p.after = after
	p.pages++
	filled := p.target != nil && (p.target.stopped == p.number || !p.target.more)
	if !ended && !filled && p.pages < most {
		return
	}
	for _, l := range q.lists { // also those of which it met no row: it saw that there is none
		if l.more && q.completes(l) {
			l.from = q.fromOf(l)
			if ended {
				l.more, l.left, l.counted = false, 0, rowKey{}
				q.dropIdle(l)
			}
		}
	}
	if q.unlisted && !q.unlistedFrom.less(p.from) {
		switch {
		case p.leftOut:
			q.unlistedFrom = p.leftFrom
		case ended:
			q.unlisted = false
		default:
			q.unlistedFrom = maxKey(q.unlistedFrom, p.after.next())
		}
	}
	p.underWay, p.target = false, nil
}

// count counts a row that is left in the schedule, and uncount takes one back that was taken into the list.
func (l *keyList) count(k rowKey) {
	if l.counted.less(k) {
		l.counted = k
		l.left++
	}
}

func maxKey(a, b rowKey) rowKey {
	if a.less(b) {
		return b
	}
	return a
}

func (l *keyList) uncount(k rowKey) {
	if !l.counted.less(k) {
		l.left = max(0, l.left-1)
	}
}

// Before orders lists by the instant that they wait for.
func (l *keyList) Before(other *keyList) bool { return l.at < other.at }
