package scheduler

import (
	"context"
	"math/bits"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// A partition's schedule is read in two ways. A look reads from a margin before now, or from the first row
// that is not known if that is earlier, up to the window's end, every half window. A pass reads all that lies
// before that, from the head, when the partition comes to this process and every few minutes: it finds what
// is in flight, what came late, and what a crash left behind. So neither a backlog nor what runs for hours is
// read with every look.

const (
	// lookMargin is how long before now a look begins: what is stored later than that after it was due is
	// told to the owner, or waits for the next pass.
	lookMargin = time.Minute
	// passEvery is how often a partition is read from its head.
	passEvery = 5 * time.Minute
	// passRowsMax bounds the rows that a pass reads at once, passPause is the time between two such reads
	// where the store is remote: 5,000 rows a second.
	passRowsMax = 512
	passPause   = 100 * time.Millisecond
)

// look is where the looks of a partition stand.
type look struct {
	missed   task.Instant // a row at or behind it may be unknown though the horizon covers it; zero for none
	through  task.Instant // where the last one ended; zero when there was none
	next     task.Instant
	second   bool         // there was one, at least
	retry    task.Instant // not before then, after one that failed
	failures int
}

// from has the next look begin no later than an instant, at once.
func (k *look) from(at task.Instant) {
	if k.missed.IsZero() || at < k.missed {
		k.missed = at
	}
	k.next = 0
}

// pass is the reading of a partition from its head.
type pass struct {
	underWay bool
	after    store.WakeKey // where it goes on
	through  task.Instant  // where it ends
	begins   task.Instant  // when the next one does
	page     task.Instant  // when the next page may be read
	every    time.Duration
	since    task.Instant  // when the partition came here: the task of an older row may be in flight
	behind   store.WakeKey // how far a pass that is held up was gone over again
}

// newPass spreads the passes, so that not all partitions make them at once.
func newPass(random uint64) pass {
	spread, _ := bits.Mul64(random, uint64(passEvery/2))
	return pass{every: passEvery - passEvery/4 + time.Duration(spread)}
}

// passIsDue reports whether there is more of a pass to read at once, and room for it.
func (l *loop) passIsDue(now task.Instant) bool {
	soon := l.pass.page <= now || l.pass.page > now.Add(passPause) // the clock may be set back
	return l.pass.underWay && !l.guest && soon && l.roomForPass()
}

// roomForPass reports whether half of the look-ahead is free of what the pass has brought. What comes later
// gives way to it, and is found again by a look.
func (l *loop) roomForPass() bool {
	most := l.ahead.limit / 2
	return l.ahead.count(l.pass.after.Wake, most+1) <= most
}

// nextRead is when to read next.
func (l *loop) nextRead(now task.Instant) task.Instant {
	if l.guest {
		return now.Add(idleMax)
	}
	at := l.look.next
	if l.ahead.low() {
		at = now
	}
	if l.pass.underWay && l.roomForPass() {
		at = min(at, max(l.pass.page, now))
	}
	if waits(now, l.look.retry) {
		at = max(at, l.look.retry)
	}
	return at
}

// readAhead reads the partition when it is time: a look, or a page of a pass. What cannot be read is tried
// again soon; meanwhile what is known is fired.
func (l *loop) readAhead(ctx context.Context) {
	now := l.now()
	due := now >= l.look.next || l.look.next > now.Add(l.s.Window/2) // the clock may be set back
	refill := l.ahead.low()
	if l.guest || waits(now, l.look.retry) || !due && !refill && !l.passIsDue(now) {
		l.s.turns.leave(&l.turn)
		return
	}
	if !l.s.turns.take(&l.turn, !l.warm.Load(), l.look.failures > 0) {
		l.widen(now)
		return
	}
	defer l.s.turns.done(&l.turn)
	if l.pass.since.IsZero() {
		l.pass.since = now
	}
	if due || refill {
		if err := l.read(ctx, now, due); !l.readDone(ctx, err) {
			return
		}
	}
	if due {
		l.look.next = now.Add(l.lookEvery())
		l.beginPass(now)
	}
	if l.passIsDue(now) {
		l.goThrough(ctx)
	} else if due && l.pass.underWay && now >= l.pass.begins {
		l.goBehind(ctx)
	}
	if (!l.pass.underWay || !l.roomForPass()) && !l.warm.Swap(true) { // all is known that there is room for
		l.s.warmed()
	}
}

// lookEvery is how long after a look the next one is: the second comes soon where others fired the partition
// before, since it finds what only they were told of in the meantime.
func (l *loop) lookEvery() time.Duration {
	second := !l.look.second && l.s.Guests
	l.look.second = true
	if second {
		return min(SecondLook, l.s.Window/2)
	}
	return l.s.Window / 2
}

// readDone notes how a read of the schedule went.
func (l *loop) readDone(ctx context.Context, err error) bool {
	l.progress.mark(l.s.Clock)
	switch {
	case ctx.Err() != nil:
		return false
	case err != nil:
		l.noteRead(err)
		l.s.complain(ctx, l.partition, err)
		l.look.retry = l.now().Add(l.s.backoff(l.look.failures))
		l.look.failures++
		return false
	}
	l.noteRead(nil)
	l.look.retry, l.look.failures = 0, 0
	return true
}

// widen moves the horizon of a partition that waits for its turn, so that it is told of what is due soon:
// what is due before that and was stored earlier is found by the look. A set that is full keeps its horizon:
// it has left things out.
func (l *loop) widen(now task.Instant) {
	if through := through(now.Add(l.s.Window)); !l.ahead.truncated && !l.ahead.has(through) {
		l.ahead.reach(through)
	}
}

// start is where a look begins: behind that place.
func (l *loop) start(now task.Instant) position {
	from := now.Add(-lookMargin)
	if !l.look.through.IsZero() {
		from = min(from, l.look.through) // it may be long ago, when the store was away
	}
	if !l.look.missed.IsZero() {
		from = min(from, l.look.missed-1)
	}
	place := through(max(from, 0))
	if end := l.ahead.end(); l.ahead.truncated && end.less(place) {
		return end
	}
	return place
}

// read is a look, or, when none is due, goes on where the last one ran out of room. It takes in what lies
// between its start and the window's end, as far as memory has room, and forgets what is known of that range
// and is no more.
func (l *loop) read(ctx context.Context, now task.Instant, due bool) error {
	from, until := l.ahead.end(), through(now.Add(l.s.Window))
	if due {
		from = l.start(now)
	}
	before := l.ahead.reach(until)
	l.flight.begin()
	rows, end, err := l.rows(ctx, now, from, until)
	if err != nil {
		l.ahead.reach(before)
		return err
	}
	l.ahead.cutBehind(from, l.isFound)
	l.ahead.truncated = false
	l.ahead.reach(until)
	l.look.through = until.at
	if due {
		l.look.missed = 0
	}
	for i := range rows {
		if l.ahead.has(placeOf(&rows[i])) {
			l.add(&rows[i])
		}
	}
	if end.less(until) {
		l.ahead.lower(end)
	}
	if due {
		l.flight.end(from, end)
	}
	return nil
}

// isFound reports whether a look finds an entry again: by its wake-up row, unless its task is in flight, too.
func (l *loop) isFound(e entry) bool {
	_, flies := l.flight.byID[e.id]
	return !flies && e.at == e.row.WakeRow.At
}

// knows reports whether a wake-up row needs no look: its task is in flight, or in hand.
func (l *loop) knows(row *task.Task) bool { return l.flight.meet(row) || l.s.hand.has(row.ID) }

// rows reads wake-up rows behind one place and up to another, until there are enough that are not known, and
// now and then further, to count. It returns those, and up to where there are no others.
func (l *loop) rows(ctx context.Context, now task.Instant, from, until position) (unknown []task.Task, end position, err error) {
	after := store.WakeKey{Wake: from.at, ID: from.id}
	to, limit, counts := l.forecast.span(now, until.at, l.ahead.limit)
	enough := limit
	var waiting []task.Task // those that are counted
	for {
		page, err := l.s.Store.ScanSchedule(ctx, l.partition, after, to, limit)
		l.progress.mark(l.s.Clock)
		if err != nil {
			return nil, position{}, err
		}
		for i := range page {
			if l.knows(&page[i]) {
				continue
			}
			if counts {
				waiting = append(waiting, page[i])
			}
			if page[i].WakeRow.At <= until.at {
				unknown = append(unknown, page[i])
			}
		}
		full := len(page) == limit
		if counts && (!full || len(waiting) >= enough) {
			l.forecast.count(l.s.Clock, now, waiting, full)
			to, limit, counts = until.at, l.ahead.limit, false
		}
		if !full || page[len(page)-1].WakeRow.At > to {
			return unknown, until, nil
		}
		after = store.KeyOf(&page[len(page)-1])
		if len(unknown) >= l.ahead.limit {
			return unknown, position{after.Wake, after.ID}, nil
		}
	}
}

// beginPass begins a pass when it is time: over all that lies before the margin of a look.
func (l *loop) beginPass(now task.Instant) {
	p := &l.pass
	if p.underWay || now < p.begins && p.begins <= now.Add(p.every) { // the clock may be set back
		return
	}
	p.underWay, p.after, p.through = true, store.WakeKey{}, now.Add(-lookMargin)
	p.begins, p.page = now.Add(p.every), now
}

// goThrough reads one page of the pass that is under way.
func (l *loop) goThrough(ctx context.Context) {
	p, limit := &l.pass, min(passRowsMax, l.ahead.limit/2)
	page, err := l.s.Store.ScanSchedule(ctx, l.partition, p.after, p.through, limit)
	if !l.readDone(ctx, err) {
		return
	}
	for i := range page {
		if !l.knows(&page[i]) {
			l.add(&page[i])
		}
	}
	now := l.now()
	if len(page) < limit {
		p.underWay = false
		return
	}
	p.after, p.page = store.KeyOf(&page[limit-1]), now
	if l.s.Queue.Durable() {
		p.page = now.Add(passPause * time.Duration(limit) / passRowsMax)
	}
}

// goBehind reads a page of what a pass that waits for room has been through, again and again, when the next
// pass is due: a backlog may hold a pass up for longer than ended rows are kept, and what it has passed may
// hold remnants, and what memory has lost.
func (l *loop) goBehind(ctx context.Context) {
	p, limit := &l.pass, min(passRowsMax, l.ahead.limit/2)
	page, err := l.s.Store.ScanSchedule(ctx, l.partition, p.behind, p.after.Wake, limit)
	if !l.readDone(ctx, err) {
		return
	}
	for i := range page {
		e := entry{at: l.later(page[i].WakeRow.At), id: page[i].ID}
		if !l.ahead.entries.Has(e) && !l.knows(&page[i]) {
			l.add(&page[i])
		}
	}
	if p.behind = (store.WakeKey{}); len(page) == limit {
		p.behind = store.KeyOf(&page[limit-1])
	}
}
