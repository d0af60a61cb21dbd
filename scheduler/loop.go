package scheduler

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/task"
)

// firing is what firing a partition's tasks means: managed lambdas put them on a queue for workers and watch
// them until they end, deliver lambdas put them on a queue of somebody else. Only the partition's loop calls
// it.
type firing interface {
	// fire moves on what is due. busy says that there may be more to do at once.
	fire(ctx context.Context) (busy bool, err error)
	// next is when fire has something to do again, at the latest; room, if not nil, is closed when it may
	// have before.
	next(now task.Instant) (at task.Instant, room <-chan struct{})
	// end lets go of what is under way, when the partition goes to another process or ctx ended.
	end(ctx context.Context)
}

// loop fires one partition: it looks ahead in the schedule, waits, fires, and looks again at what is in
// flight. All fields below the inbox belong to run's goroutine.
type loop struct {
	s         *Scheduler
	partition task.Partition
	firing    firing
	stop      context.CancelFunc
	since     task.Instant  // the start of the scheduler, by clock.Steady: no heartbeat before it is missed
	poke      chan struct{} // has an element when the inbox may have something
	head      atomic.Int64  // due time of the oldest task that waits to be fired, 0 for none
	flying    atomic.Int64  // tasks in flight
	stuck     atomic.Int64  // tasks of a deliver lambda that are acquired and not under way
	warm      atomic.Bool   // it was read ahead
	crowded   atomic.Bool   // all that was left in the last round was left because the queue had no room
	progress  progress
	failing   atomic.Pointer[time.Duration] // monotonic time since when its reads fail; nil while they do not
	forecast  forecast

	inbox inbox

	guest    bool // the partition is another process's: only what is hinted is fired
	ahead    *lookahead
	flight   *flight
	look     look
	pass     pass
	turn     turn // to read the schedule
	failures int
	basis    time.Duration // from clock.Steady to the wall clock, as it was when the round began
	stepped  task.Instant  // when the wall clock was last found to be set, by clock.Steady; zero: never
	forward  time.Duration // by how much it was set forward then, and in the store.CallMax before

	lasting context.Context //nolint:containedctx // of what outlives a round; abandon ends it
	abandon context.CancelFunc
}

// inbox is what others tell a loop.
type inbox struct {
	mu       sync.Mutex // guards what stands here
	hints    []hint
	done     []task.WakeRow
	doneIDs  []task.ID
	missed   task.Instant // the earliest hint for which there was no room; zero for none
	reviewed bool         // what is in flight is to be looked at again
	demoted  bool         // it is to be a guest from now on
}

// hint is a row that was stored a moment ago.
type hint struct {
	task task.Task
	kind hintKind
}

type hintKind uint8

const (
	hintAdded hintKind = iota // a wake-up row
	hintAwake                 // a task row that waits in memory for its wake-up
	hintSent                  // a task row whose message is on its way
)

func newLoop(s *Scheduler, p task.Partition, since task.Instant, rows int) *loop {
	poke := make(chan struct{}, 1)
	l := &loop{
		s: s, partition: p, since: since, poke: poke, turn: turn{poke: poke},
		ahead: newLookahead(rows), flight: newFlight(s.flights), pass: newPass(s.Clock.Uint64()),
	}
	wall, steady := clock.Both(s.Clock)
	l.basis = wall.Sub(steady)
	if s.Delivery != nil && s.Delivery.Is(p) {
		l.firing = newDelivering(l)
	} else {
		l.firing = &managing{l: l}
	}
	return l
}

// newGuestLoop is a loop that only fires what it is told of.
func newGuestLoop(s *Scheduler, p task.Partition, since task.Instant) *loop {
	l := newLoop(s, p, since, partitionRowsMin)
	l.guest = true
	return l
}

// tell changes the inbox and has the loop look at it.
func (l *loop) tell(change func(*inbox)) {
	l.inbox.mu.Lock()
	change(&l.inbox)
	l.inbox.mu.Unlock()
	wake(l.poke)
}

// hint hands a row to the loop. What does not fit is found by the next look, which begins no later than
// there.
func (l *loop) hint(t *task.Task, kind hintKind) {
	l.tell(func(in *inbox) {
		if len(in.hints) < hintRowsMax {
			in.hints = append(in.hints, hint{*t, kind})
			return
		}
		if in.missed.IsZero() || t.WakeRow.At < in.missed {
			in.missed = t.WakeRow.At
		}
		in.reviewed = in.reviewed || kind == hintAwake // what is known of it may be older
	})
}

// forget tells that tasks need not be looked at again. What does not fit is found out in time.
func (l *loop) forget(rows []task.Task) {
	l.inbox.mu.Lock()
	defer l.inbox.mu.Unlock()
	for i := range rows {
		if t := &rows[i]; t.Partition == l.partition && len(l.inbox.done) < doneRowsMax {
			l.inbox.done, l.inbox.doneIDs = append(l.inbox.done, t.WakeRow), append(l.inbox.doneIDs, t.ID)
		}
	}
}

// review has all that is in flight looked at again: whoever changed it last may be gone.
func (l *loop) review() { l.tell(func(in *inbox) { in.reviewed = true }) }

// demote makes a guest of it: the partition is another's now.
func (l *loop) demote() { l.tell(func(in *inbox) { in.demoted = true }) }

func (l *loop) run(ctx context.Context) {
	l.lasting, l.abandon = context.WithCancel(context.WithoutCancel(ctx))
	defer l.abandon()
	defer l.flight.clear()
	defer l.progress.end()
	defer l.s.turns.leave(&l.turn)
	for ctx.Err() == nil {
		l.progress.mark(l.s.Clock)
		switch busy, err := l.step(ctx); {
		case err != nil:
			l.pause(ctx, err)
		case busy:
			l.failures = 0
		default:
			l.failures = 0
			l.idle(ctx)
		}
	}
	l.firing.end(ctx)
	l.head.Store(0)
}

// step does one round. What is known is fired whatever becomes of the reading.
func (l *loop) step(ctx context.Context) (busy bool, err error) {
	l.readClock()
	if l.guest {
		l.extend()
	}
	l.takeInbox()
	l.readAhead(ctx)
	l.noteHead()
	l.progress.mark(l.s.Clock)
	busy, err = l.firing.fire(ctx)
	l.noteHead()
	return busy, err
}

// noteHead publishes since when the oldest task waits that could be fired, and how many are in flight.
func (l *loop) noteHead() {
	l.head.Store(int64(l.ahead.waitsSince()))
	l.flying.Store(int64(len(l.flight.byID)))
}

func (l *loop) takeInbox() {
	in := &l.inbox
	in.mu.Lock()
	hints, done, ids, missed, reviewed, demoted := in.hints, in.done, in.doneIDs, in.missed, in.reviewed, in.demoted
	in.hints, in.done, in.doneIDs, in.missed, in.reviewed, in.demoted = nil, nil, nil, 0, false, false
	in.mu.Unlock()
	now := l.now()
	if demoted {
		l.beGuest(now)
	}
	if reviewed && !l.guest {
		l.flight.review(now)
	}
	for i := range hints {
		l.hinted(&hints[i])
	}
	for i := range done {
		if !l.flight.has(ids[i], done[i].At) || !l.flight.drop(ids[i]) {
			l.ahead.drop(done[i].At, ids[i])
		}
	}
	if !missed.IsZero() {
		l.look.from(missed)
	}
}

// hinted notes a row that was told of.
func (l *loop) hinted(h *hint) {
	t := &h.task
	_, known := l.flight.byID[t.ID]
	noLook := known || t.Wake != t.WakeRow.At // none will bring it at its time
	switch {
	case h.kind == hintSent || h.kind == hintAwake && noLook:
		l.await(t, h.kind == hintAwake)
	case l.ahead.has(placeOf(t)) && !l.knows(t):
		l.add(t)
	}
}

// await notes a task row that is to be looked at when it wakes. Where memory has no room for one more in
// flight, what wakes soon waits in the look-ahead.
func (l *loop) await(t *task.Task, sends bool) {
	if t.Wake == t.WakeRow.At && !l.guest && !l.ahead.covers(t.Wake) { // its wake-up row stands there: a look brings it
		l.flight.drop(t.ID)
		return
	}
	if !l.flight.put(l.flightOf(t, t.Wake)) && t.Wake <= l.now().Add(l.s.Window) {
		l.ahead.add(entry{at: l.later(t.Wake), id: t.ID, row: t, read: true, sends: sends})
	}
}

// flightOf is a task as it is to be looked at again then.
func (l *loop) flightOf(t *task.Task, at task.Instant) inFlight {
	w := inFlight{
		at: l.later(at), id: t.ID, place: t.WakeRow.At, rowAt: at,
		attempt: t.Attempt, since: l.flight.since(t.ID, t.Attempt, l.now()), parked: isParked(t) && at == t.Wake,
	}
	if t.State == task.Scheduled && t.Attempt == 0 && !t.Enqueued.IsZero() {
		w.until = t.Enqueued.Add(task.UndispatchedMax)
	}
	return w
}

// later is when to act on a row that wakes at an instant: a guest leaves the owner of the partition the first
// try.
func (l *loop) later(at task.Instant) task.Instant {
	if l.guest {
		return at.Add(guestDelay)
	}
	return at
}

// add notes a wake-up row that is not in flight. It is read before anything is done with it if there is, or
// may be, a task row.
func (l *loop) add(row *task.Task) {
	e := entry{at: l.later(row.WakeRow.At), id: row.ID, row: row, first: row.State == task.Scheduled && row.Attempt == 0, sends: true}
	_, deliver := l.firing.(*delivering)
	switch old := row.WakeRow.At < l.pass.since; {
	case row.Key != "" || row.IsBare() || row.Attempt > 0 || row.State != task.Scheduled && row.State != task.Acquired:
		e.read, e.sends = true, !old
	case old && !deliver:
		e.read, e.sends = true, false
	}
	e.first = e.first || deliver
	if l.guest && e.first {
		e.at = e.at.Add(l.s.Lead / 2) // it is fired that much before its moment
	}
	l.ahead.add(e)
}

func (l *loop) beGuest(now task.Instant) {
	l.guest = true
	l.pass.underWay = false
	l.ahead.cut(now.Add(Linger))
	l.flight.keep(now.Add(l.s.Window)) // retries that only this process knows of wake by then
	l.extend()
}

// extend keeps the horizon of a guest where it is worth it: what lies behind it the owner hears of in time.
func (l *loop) extend() {
	l.ahead.truncated = false
	l.ahead.reach(through(l.now().Add(l.s.Window / 2)))
}

// idle waits for the next thing to fire or to read, a hint, or room in the queue.
func (l *loop) idle(ctx context.Context) {
	timer := l.s.Clock.NewTimer(idleMax)
	defer timer.Stop()
	began, now := clock.StampOf(timer), l.now()
	until := min(l.nextRead(now), now.Add(idleMax))
	if l.turn.asks() {
		until = now.Add(progressEvery)
		l.s.turns.rest(&l.turn)
		defer l.s.turns.rise(&l.turn)
	}
	at, room := l.firing.next(now)
	until = min(until, at)
	clock.ResetFrom(timer, began, until.Sub(now))
	select {
	case <-timer.C():
	case <-l.poke:
	case <-room:
	case <-ctx.Done():
	}
}

// pause backs a failing partition off by itself, so that no other one waits for it.
func (l *loop) pause(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	l.s.complain(ctx, l.partition, err)
	wait := l.s.backoff(l.failures)
	l.failures++
	_ = clock.Sleep(ctx, l.s.Clock, wait)
}

// isIdle reports whether there is nothing in hand.
func (l *loop) isIdle() bool {
	return l.head.Load() == 0 && l.flying.Load() == 0 && l.stuck.Load() == 0
}
