package scheduler

import (
	"time"

	"github.com/kinesin-io/kinesin/internal/gates"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// A row that a gate pauses is passed over like one that is known: it is neither in the buffer nor in flight,
// and the schedule keeps it. So a backlog of them takes no room from others. The loop remembers up to where
// it has passed over them, so that they are not read again and again; when the gates of its lambda change it
// reads from the head.

const (
	// heldPassMax is for how long a full scan at most begins behind the rows that gates hold. Rows behind its
	// begin that are not known here are found after that.
	heldPassMax = time.Hour
	// heldPassShare is how often in the retention of a lambda's ended rows a full scan begins at the head at
	// least, so that a leftover row is met while the ended row is there to tell.
	heldPassShare = 16
	// heldPagesMax bounds the pages that one read-ahead reads at once where gates hold rows: due tasks have
	// their turn in between.
	heldPagesMax = 8
	// marginEvery is how often a read-ahead begins at its margin where gates hold rows.
	marginEvery = time.Minute
	// pacedRowsMin is the smallest page of a full scan while a gate resumes at a pace.
	pacedRowsMin = 16
	// paceWaitMax bounds the time until a gate that resumes is asked again.
	paceWaitMax = time.Second
	// gateKnownMax is how long after it was made a gate is known everywhere, by all clocks.
	gateKnownMax = time.Minute
)

// heldPassEvery returns for how long a full scan may begin behind the rows that gates hold.
func heldPassEvery(kept time.Duration) time.Duration {
	return min((max(kept, task.EndedMin)-store.CallMax)/heldPassShare, heldPassMax)
}

// passesApart returns how far apart two full scans from the head of a partition are at most, whose lambda
// keeps ended rows for so long.
func passesApart(kept time.Duration) time.Duration {
	if every := heldPassEvery(kept); every > scanEvery {
		return every + scansApart
	}
	return scansApart
}

// heldRows is what a loop knows of the rows that gates hold.
type heldRows struct {
	number  uint64      // of the gates, when they were looked at last
	gates   gates.Gates // of the loop's lambda; none: nothing is held
	ends    task.Instant
	isPaced bool // one of them resumes at a pace
	probes  bool // one of them holds back also what comes due meanwhile, and lets probes through
	some    bool // a row was passed over since these are the gates

	every    time.Duration // between two passes from the head
	pass     task.Instant  // when the last one began; zero: it is to begin
	through  task.Instant  // behind which the next full scan begins
	count    int           // rows that full scans have passed over since then
	scanning int           // by the one that goes on
	unsure   bool          // a row behind through may be neither held nor known

	ahead   rowKey       // behind which the next read-ahead begins, at the earliest
	margin  task.Instant // when a read-ahead begins at its margin again
	counted rowKey       // up to which read-aheads have counted what they pass over
	further int          // rows that they have counted, and no full scan
	before  int          // as many of these there were when the full scan began

	expiring *buffer              // rows that expire while they are held
	mayGo    map[task.ID]struct{} // rows that go although a gate that resumes at a pace holds them
	paceRows int                  // as many rows the last page of the full scan came to before it had to wait
	paceNext task.Instant         // when the latest of the tasks with task rows that wait for their pace asks again
}

// followGates notes changes of the gates, and of which of them are in force. It costs one atomic load while
// nothing changes.
func (l *loop) followGates() {
	if l.Gating == nil {
		return
	}
	h, number := &l.held, l.Gating.Gates.Number()
	over := !h.ends.IsZero() && l.now() >= h.ends
	if number == h.number && !over {
		return
	}
	h.number = number
	now, of := l.now(), l.Gating.Gates.OfLambda(l.partition.Lambda)
	if of.Equal(h.gates) && !over {
		return
	}
	before := l.held
	l.held = heldRows{number: number, gates: of, ends: of.Ends(now), every: l.heldPassEvery()}
	for _, g := range of {
		l.held.isPaced = l.held.isPaced || g.InForce(now) && !g.Resumed.IsZero()
		l.held.probes = l.held.probes || g.InForce(now) && g.Probes()
	}
	if len(before.gates) > 0 {
		l.readAnew(now)
		if before.isPaced && !l.foreign {
			l.inFlight.checkAll(now) // some wait there for their pace
		}
	}
	l.gateBuffer(now)
	l.publishHeld()
}

func (l *loop) heldPassEvery() time.Duration {
	if l.Gating.Retention == nil {
		return 0
	}
	kept, known := l.Gating.Retention(l.partition.Lambda)
	if every := heldPassEvery(kept); known && every > scanEvery {
		return every
	}
	return 0
}

// readAnew reads the partition from its head, because rows that were held may be so no longer. A task that
// another process has put back is in flight here and has to be read as well.
func (l *loop) readAnew(now task.Instant) {
	f := &l.reader.full
	f.underWay, f.begins = false, now
	l.reader.ahead.next, l.reader.ahead.partial = 0, false
	if l.Foreign && !l.foreign {
		l.inFlight.checkAll(now)
	}
}

// gateBuffer applies new gates to the buffer, so that what they hold takes no room there, and what they drop
// waits for none in the queue.
func (l *loop) gateBuffer(now task.Instant) {
	var held, dropped []entry
	l.buffer.entries.Ascend(func(e entry) bool {
		switch g := l.gateOf(e.row, now); {
		case g == nil:
		case g.Action == gates.Drop:
			dropped = append(dropped, e)
		case !e.mustRead && l.passesOver(e.row):
			held = append(held, e)
		}
		return true
	})
	for _, e := range held {
		l.buffer.entries.Delete(e)
	}
	for _, e := range dropped {
		e.early, e.sends = l.delivers, false
		l.buffer.entries.ReplaceOrInsert(e)
	}
}

// gateOf returns the gate that holds a task back now; nil: none. A task that has expired is not held.
func (l *loop) gateOf(t *task.Task, now task.Instant) *gates.Gate {
	if len(l.held.gates) == 0 || t.IsExpired(now) {
		return nil
	}
	g := l.held.gates.Of(t, now)
	if g != nil && !g.Resumed.IsZero() && l.Gating.Pace == nil {
		return nil
	}
	return g
}

// isPaused returns whether a gate holds a waiting task back, and notes it if so.
func (l *loop) isPaused(t *task.Task, mustRead bool) bool {
	g := l.gateOf(t, l.now())
	if g == nil || g.Action != gates.Pause || l.takePace(g, t.ID) {
		return false
	}
	l.held.some = true
	switch f := &l.reader.full; {
	case f.underWay && t.WakeRow.At <= f.after.Wake:
		l.held.scanning++
	case !f.underWay && t.WakeRow.At <= f.through:
		l.held.count++
	}
	l.endWhenExpired(t, mustRead)
	return true
}

// passesRows reports whether there may be rows that are passed over.
func (l *loop) passesRows() bool { return len(l.held.gates) > 0 || l.keys != nil }

// passesOver reports whether a wake-up row is left in the schedule, because of a gate or its limit key. One
// whose task may have a task row is not before that is read.
func (l *loop) passesOver(row *task.Task) bool {
	if l.keys != nil && l.listsRow(row) {
		return true
	}
	if len(l.held.gates) == 0 {
		return false
	}
	if mustRead, _ := l.mustRead(row); mustRead {
		return false
	}
	g := l.gateOf(row, l.now())
	if g == nil || g.Action != gates.Pause {
		return false
	}
	if _, goes := l.held.mayGo[row.ID]; goes {
		return false
	}
	l.held.some = true
	l.endWhenExpired(row, false)
	return true
}

// mayBeLeftover reports whether the task of a wake-up row that a gate holds may have been dispatched before
// the gate was known, and have ended. The row is then read with each scan that meets it, while the ended row
// is there to tell: one that was left in the schedule for longer than that would start its task again when
// the gate ends. Where ended rows do not expire by themselves, no such row stays without them.
func (l *loop) mayBeLeftover(row *task.Task) bool {
	if len(l.held.gates) == 0 || l.Downtime == nil || l.delivers {
		return false
	}
	g := l.gateOf(row, l.now())
	return g != nil && g.Action == gates.Pause && g.Resumed.IsZero() && row.WakeRow.At < g.Created.Add(gateKnownMax)
}

// passesOverAhead is passesOver for a read-ahead.
func (l *loop) passesOverAhead(row *task.Task) bool {
	if !l.passesOver(row) {
		return false
	}
	if h, key := &l.held, keyOf(row); h.counted.less(key) {
		h.counted = key
		h.further++
	}
	return true
}

// holdScanned is passesOver for a full scan, which lets rows go where a gate resumes at a pace; if not zero,
// the scan goes on with this row at again.
func (l *loop) holdScanned(row *task.Task) (held bool, again task.Instant) {
	h, now := &l.held, l.now()
	if g := l.gateOf(row, now); g != nil && g.Action == gates.Pause && !g.Resumed.IsZero() {
		granted, at := l.Gating.Pace(g, l.partition)
		if !granted {
			return true, min(max(at, now.Add(scanPause)), now.Add(paceWaitMax))
		}
		if h.mayGo == nil {
			h.mayGo = map[task.ID]struct{}{}
		}
		h.mayGo[row.ID] = struct{}{}
		return false, 0
	}
	if held = l.passesOver(row); held {
		h.scanning++
	}
	return held, 0
}

// takePace reports whether a task goes although a gate that resumes at a pace holds it.
func (l *loop) takePace(g *gates.Gate, id task.ID) bool {
	if g.Resumed.IsZero() {
		return false
	}
	if _, goes := l.held.mayGo[id]; goes {
		delete(l.held.mayGo, id)
		return true
	}
	granted, _ := l.Gating.Pace(g, l.partition)
	return granted
}

// leave leaves a task with a task row that a gate holds in its row. While the gate resumes at a pace the task
// asks again by itself, one after the other at that pace: its wake-up row may not tell what the gate selects
// by, so the full scan asks for no start of it.
func (l *loop) leave(t *task.Task) {
	now, h := l.now(), &l.held
	g := l.gateOf(t, now)
	if g == nil || g.Resumed.IsZero() || l.foreign {
		l.inFlight.drop(t.ID)
		return
	}
	soonest, last := now.Add(scanPause), now.Add(scanEvery)
	h.paceNext = min(max(h.paceNext, soonest).Add(time.Second/time.Duration(max(g.Pace, 1))), last)
	l.inFlight.put(l.inFlightAt(t, h.paceNext))
}

// endWhenExpired remembers a row that is held and expires, as far as there is room. The others end when a
// full scan meets them.
func (l *loop) endWhenExpired(row *task.Task, mustRead bool) {
	if !row.MayExpire() || l.foreign {
		return
	}
	h := &l.held
	if h.expiring == nil {
		h.expiring = newBuffer(l.buffer.limit)
	}
	copied := *row
	h.expiring.add(entry{at: row.StartBefore, id: row.ID, row: &copied, mustRead: mustRead})
}

// takeExpired moves the held rows that have expired to the buffer, from which they end.
func (l *loop) takeExpired() {
	if l.held.expiring == nil {
		return
	}
	taken, _ := l.held.expiring.take(l.now(), 0, batchRowsMax, 0)
	for _, e := range taken {
		l.buffer.add(entry{at: l.delayed(e.row.WakeRow.At), id: e.id, row: e.row, mustRead: e.mustRead, early: true, sends: true})
	}
}

// nextExpiry returns when the next held row expires, now+idleMax at the latest.
func (l *loop) nextExpiry(now task.Instant) task.Instant {
	at := now.Add(idleMax)
	if h := &l.held; h.expiring != nil {
		if first, ok := h.expiring.first(); ok {
			at = min(at, first)
		}
	}
	if ends := l.held.ends; !ends.IsZero() {
		at = min(at, max(ends, now))
	}
	return at
}

// followPutBack notes a task that a claim put back because a gate holds it.
func (l *loop) followPutBack(t *task.Task, hasRow bool) {
	l.inFlight.drop(t.ID)
	if !hasRow {
		t.Wake, t.Enqueued = t.WakeRow.At, 0
	}
	switch {
	case !l.isPaused(t, hasRow):
		l.buffer.add(entry{at: l.delayed(t.Wake), id: t.ID, row: t, mustRead: hasRow, sends: true})
	case hasRow:
		l.leave(t)
	}
}

// forget forgets which rows were passed over, so that scans begin before them.
func (h *heldRows) forget() {
	h.some, h.pass, h.count, h.scanning, h.further, h.before = false, 0, 0, 0, 0, 0
	h.ahead, h.counted, h.margin = rowKey{}, rowKey{}, 0
}

// pacedRows returns how many rows the next page of a full scan has, limit at most, while a gate resumes at a
// pace: not many more than may go, since it has to read the others again.
func (h *heldRows) pacedRows(limit int) int { return min(2*h.paceRows+pacedRowsMin, limit) }

// scanAfter returns the key behind which a full scan begins that begins now.
func (h *heldRows) scanAfter(now task.Instant, s *inFlightSet) (after store.WakeKey) {
	h.scanning, h.before = 0, h.further
	clear(h.mayGo)
	fresh := h.pass <= now && now < h.pass.Add(h.every)
	if fresh && h.count > 0 && !h.isPaced && !h.unsure && !s.overflowed {
		return store.WakeKey{Wake: h.through, ID: lastID}
	}
	h.pass, h.count, h.unsure, s.overflowed = now, 0, false, false
	return after
}

// scanned notes that a full scan has come to its end.
func (h *heldRows) scanned(through task.Instant) {
	h.count += h.scanning
	h.further -= h.before
	h.scanning, h.before, h.through = 0, 0, through
}

// readFrom returns where a read-ahead begins that would begin at a key: behind what it has passed over. Once
// in a while it begins at the key all the same, since another process may have stored rows there.
func (h *heldRows) readFrom(key rowKey, now task.Instant) rowKey {
	if !h.some || now >= h.margin || h.margin > now.Add(marginEvery) { // the clock may be set back
		h.margin = now.Add(marginEvery)
		return key
	}
	if key.less(h.ahead) {
		return h.ahead
	}
	return key
}

// readUpTo notes how far a read-ahead has come. Rows that another process stores ahead of now are read again.
func (l *loop) readUpTo(end rowKey, now task.Instant) {
	if h := &l.held; h.some {
		if h.ahead = end; l.Foreign && endOf(now).less(end) {
			h.ahead = endOf(now)
		}
	}
}

// publishHeld lets others see how many rows are held.
func (l *loop) publishHeld() {
	l.stats.held.Store(int64(max(l.held.count, l.held.scanning) + l.held.further))
}

// gateFirst reports whether a due entry without a task row is dispatched, or dropped by the order. A task is
// never dropped before it is due.
func (m *managedMode) gateFirst(e *entry, o *task.Order, now task.Instant) bool {
	g := m.gateOf(e.row, now)
	switch {
	case g == nil:
		return true
	case g.Action == gates.Pause:
		return m.hasPace(g, e.id) || !m.isPaused(e.row, false)
	case e.row.Due > now:
		m.buffer.add(entry{at: m.delayed(e.row.Due), id: e.id, row: e.row})
		return false
	}
	o.Event = dropBy(g)
	return true
}

// gateOrder reports whether what was decided about a task that wakes is done. A gate leaves a waiting task in
// its row and has one whose message was not claimed in time wait again; a drop gate ends both.
func (m *managedMode) gateOrder(t *task.Task, event *task.Event, now task.Instant) bool {
	g := m.gateOf(t, now)
	switch {
	case event.Kind != task.Enqueue || g == nil:
		return true
	case g.Action == gates.Drop && t.HeldUntil() > now:
		m.inFlight.put(m.inFlightAt(t, t.HeldUntil()))
		return false
	case g.Action == gates.Drop:
		*event = dropBy(g)
		return true
	case t.State == task.Enqueued:
		*event = task.Event{Kind: task.Reschedule, Due: t.Due}
		return true
	case !m.hasPace(g, t.ID) && m.isPaused(t, true):
		m.leave(t)
		return false
	}
	return true
}

func dropBy(g *gates.Gate) task.Event { return task.Event{Kind: task.Drop, Error: g.String()} }
