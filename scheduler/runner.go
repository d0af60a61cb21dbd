package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// runner fires one partition. All fields below the inbox belong to run's goroutine.
type runner struct {
	*Scheduler
	partition task.Partition
	guest     bool // the partition is another process's: only what is hinted is fired
	stop      context.CancelFunc
	since     task.Instant  // the start of the scheduler: no heartbeat before it is missed
	poke      chan struct{} // has an element when the inbox may have something
	head      atomic.Int64  // due time of the oldest waiting task, 0 for none
	warm      atomic.Bool   // it was read ahead
	crowded   atomic.Bool   // all that was left in the last round was left because the queue had no room
	progress  progress
	forecast  forecast

	mu       sync.Mutex // guards what stands here
	inbox    []hint
	overflow bool
	demoted  bool // it is to be a guest from now on

	waiting  *lookahead // waiting rows by due time
	wakeups  *lookahead // task rows by wake-up
	watch    *watchlist // task rows whose wake-up has come and that are looked at again
	floor    floor      // of the scans of wake-ups
	pages    wakeScan   // the scan of wake-ups that goes on
	recent   []recent   // hinted wake-ups that the index may not show yet
	turn     turn       // to scan
	nextScan task.Instant
	failures int
	unsent   bool // something that there was room for in this round could not be sent

	recovered    bool
	recoverAfter store.WakeKey // where recover goes on
	scanFailures int
	scanRetry    task.Instant // not before then, after a scan that failed

	askFailures int
	askRetry    task.Instant // no lease or queue is asked before then, after a round in which some did not answer
}

// recent is a hinted entry, and until when a scan that does not show it says nothing.
type recent struct {
	entry

	until task.Instant
}

type hint struct {
	task    task.Task
	waiting bool
}

func newRunner(s *Scheduler, p task.Partition, since task.Instant, rows int) *runner {
	poke := make(chan struct{}, 1)
	return &runner{
		Scheduler: s, partition: p, since: since, poke: poke, turn: turn{poke: poke},
		waiting: newLookahead(rows), wakeups: newLookahead(rows), watch: newWatchlist(s.watched),
		floor: newFloor(s.Clock.Uint64()),
	}
}

// hint hands a row to the runner's goroutine. What does not fit is found by a scan.
func (r *runner) hint(t task.Task, waiting bool) {
	r.mu.Lock()
	if len(r.inbox) < hintRowsMax {
		r.inbox = append(r.inbox, hint{t, waiting})
	} else {
		r.overflow = true
	}
	r.mu.Unlock()
	wake(r.poke)
}

// demote makes a guest of it: the partition is another's now.
func (r *runner) demote() {
	r.mu.Lock()
	r.demoted = true
	r.mu.Unlock()
	wake(r.poke)
}

func (r *runner) beGuest() {
	now := r.Clock.Now()
	r.guest = true
	r.watch.clear()
	r.recent, r.pages = nil, wakeScan{}
	forget(now, r.waiting, r.wakeups)
	extend(now, r.Window/2, r.waiting, r.wakeups)
}

func (r *runner) run(ctx context.Context) {
	defer r.watch.clear()
	defer r.progress.end()
	defer r.turns.leave(&r.turn)
	for ctx.Err() == nil {
		r.progress.mark(r.Clock)
		if !r.recovered {
			if err := r.recover(ctx); err != nil {
				r.pause(ctx, err)
				continue
			}
			r.recovered = true
		}
		busy, full, err := r.step(ctx)
		r.crowded.Store(full.left && !r.unsent)
		switch {
		case err != nil:
			r.pause(ctx, err)
		case !busy:
			r.failures = 0
			r.idle(ctx, full)
		default:
			r.failures = 0
		}
	}
}

// recover sends every enqueued task of the partition again where the messages did
// not outlive the process. A message too many is refused at its claim. Those whose wake-up has
// come are left to it, since it sends them too. When the store fails on the way it goes on from where it was.
func (r *runner) recover(ctx context.Context) error {
	if r.Queue.Durable() {
		return nil
	}
	now := r.Clock.Now()
	through := now.Add(2 * task.EnqueueTimeoutMax)
	for {
		rows, err := r.Store.ScanWakeups(ctx, r.partition, r.recoverAfter, through, batchRowsMax)
		r.progress.mark(r.Clock)
		if err != nil {
			return err
		}
		enqueued := make([]task.Task, 0, len(rows))
		for i := range rows {
			switch {
			case rows[i].State == task.Enqueued && rows[i].Wake > now:
				enqueued = append(enqueued, rows[i])
			case rows[i].State == task.Claimed && r.Hooks.Found != nil:
				r.Hooks.Found(&rows[i])
			}
		}
		r.Dispatcher.Send(ctx, enqueued)
		r.progress.mark(r.Clock)
		if len(rows) < batchRowsMax {
			return ctx.Err()
		}
		r.recoverAfter = wakeKey(&rows[len(rows)-1])
	}
}

func wakeKey(t *task.Task) store.WakeKey { return store.WakeKey{Wake: t.Wake, ID: t.ID} }

// fullness says what a round left because the queue had no room.
type fullness struct {
	left bool
	room <-chan struct{} // closed when there is room again; nil when the queue cannot tell
}

// step does one round. busy says that there may be more to do at once. What is due for the first time is fired whatever
// becomes of the wake-ups. Each call that comes back is progress: in an outage a round may take long, and is not stuck.
func (r *runner) step(ctx context.Context) (busy bool, full fullness, err error) {
	r.unsent = false
	if r.guest {
		extend(r.Clock.Now(), r.Window/2, r.waiting, r.wakeups)
	}
	r.takeHints()
	r.scan(ctx)
	r.noteHead()
	r.progress.mark(r.Clock)
	woken, full, err := r.fireWakeups(ctx)
	r.progress.mark(r.Clock)
	fired, more, failed := r.fireWaiting(ctx)
	if more.left {
		full = more
	}
	return woken+fired > 0 || r.scanGoesOn(), full, errors.Join(err, failed)
}

// noteHead publishes since when the oldest task waits that could be dispatched: a waiting row, or a wake-up that
// was passed over for want of room. A wake-up ahead of its due time counts from the lead on, so as not to be overdue early.
func (r *runner) noteHead() {
	head, ok := r.waiting.next()
	if at, overdue := r.wakeups.nextSending(r.Clock.Now()); overdue {
		if at = at.Add(r.Lead); !ok || at < head {
			head = at
		}
	}
	r.head.Store(int64(head))
}

func (r *runner) takeHints() {
	r.mu.Lock()
	hints, overflow, demoted := r.inbox, r.overflow, r.demoted
	r.inbox, r.overflow, r.demoted = nil, false, false
	r.mu.Unlock()
	if demoted {
		r.beGuest()
	}
	for i := range hints {
		if hints[i].waiting {
			r.addWaiting(&hints[i].task)
		} else {
			r.hinted(&hints[i].task)
		}
	}
	if overflow {
		r.rescan()
	}
}

// hinted notes a wake-up that was told of, and keeps it past scans of an index that does not show it yet.
func (r *runner) hinted(t *task.Task) {
	e, fits := r.addWakeup(t)
	if fits && !r.guest && len(r.recent) < hintRowsMax { // a guest never scans
		r.recent = append(r.recent, recent{e, r.Clock.Now().Add(indexLagMax)})
	}
}

// rescan reads the partition again at once, from its head.
func (r *runner) rescan() {
	r.nextScan = 0
	r.floor.sink()
}

func (r *runner) addWaiting(t *task.Task) {
	if !r.waiting.covers(t.Due) {
		return
	}
	at := t.Due
	if r.guest {
		at = at.Add(r.Lead/2 + guestDelay)
	}
	r.waiting.add(entry{at: at, id: t.ID, task: t, sends: true})
}

// addWakeup notes when to look at a row. A task that only waits for its due time may be enqueued ahead of it.
func (r *runner) addWakeup(t *task.Task) (e entry, fits bool) {
	if !r.watch.knows(t) {
		r.watch.drop(t.ID) // it moved on
	}
	if t.Wake.IsZero() || !r.wakeups.covers(t.Wake) {
		return entry{}, false
	}
	at := t.Wake
	switch {
	case r.guest:
		at = at.Add(guestDelay)
	case t.State == task.Scheduled && t.Attempt == 0:
		at = at.Add(-r.Lead)
	}
	e = entry{at: at, id: t.ID, sends: t.State == task.Scheduled || t.State == task.RetriableFailure}
	r.wakeups.add(e)
	return e, true
}

// scan reads the partition ahead, so that a late insert is never behind a cursor: waiting rows from the head each time,
// wake-ups from behind those that are watched. What cannot be read is tried again soon; meanwhile what is known is fired.
func (r *runner) scan(ctx context.Context) {
	now := r.Clock.Now()
	if r.guest {
		r.nextScan = now.Add(idleMax)
	}
	due := r.scanDue(now)
	if r.guest || r.scanWaits(now) || !due && !r.waiting.low() && !r.wakeups.low() {
		r.turns.leave(&r.turn)
		return
	}
	if !r.turns.take(&r.turn, !r.warm.Load(), r.scanFailures > 0) {
		widen(now, r.Scheduler, r.waiting, r.wakeups)
		return
	}
	defer r.turns.done(&r.turn)
	err := r.scanBoth(ctx, now, due)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		r.complain(ctx, r.partition, err)
		r.scanRetry = now.Add(r.backoff(r.scanFailures))
		r.scanFailures++
		return
	}
	r.scanRetry, r.scanFailures = 0, 0
	if due {
		r.nextScan = now.Add(r.nextLook(&r.warm))
	}
}

// scanWaits reports whether it is too early to try a scan again.
func (r *runner) scanWaits(now task.Instant) bool { return waits(now, r.scanRetry) }

func (r *runner) scanBoth(ctx context.Context, now task.Instant, due bool) error {
	if due || r.waiting.low() {
		if err := r.scanWaiting(ctx, now.Add(r.Window)); err != nil {
			return err
		}
	}
	if due || r.wakeups.low() {
		return r.scanWakeups(ctx, now, now.Add(r.Window), due)
	}
	return nil
}

// scanDue reports whether it is time to read ahead again; also when the clock was set back, since the next scan would
// then be far away.
func (r *runner) scanDue(now task.Instant) bool {
	return now >= r.nextScan || r.nextScan > now.Add(r.Window/2)
}

func (r *runner) scanWaiting(ctx context.Context, through task.Instant) error {
	before := r.waiting.reach(through)
	rows, more, err := r.readWaiting(ctx, through)
	if err != nil {
		r.waiting.reach(before)
		return err
	}
	r.waiting.open(through)
	for i := range rows {
		if r.waiting.covers(rows[i].Due) {
			r.waiting.add(entry{at: rows[i].Due, id: rows[i].ID, task: &rows[i], sends: true})
		}
	}
	if more {
		r.waiting.lower(rows[len(rows)-1].Due - 1) // more may be due with the last one
	}
	return nil
}

// readWaiting reads the head of the partition up to an instant, and now and then further, to count. more says that there may
// be more rows up to there.
func (r *runner) readWaiting(ctx context.Context, through task.Instant) (rows []task.Task, more bool, err error) {
	now := r.Clock.Now()
	to, limit, counts := r.forecast.span(now, through, r.waiting.limit)
	rows, err = r.Store.ScanWaiting(ctx, r.partition, store.WaitingKey{}, to, limit)
	r.progress.mark(r.Clock)
	if err != nil || !counts {
		return rows, len(rows) == limit, err
	}
	r.forecast.count(r.Clock, now, rows, len(rows) == limit)
	if len(rows) < limit || rows[limit-1].Due > through {
		return rows, false, nil
	}
	if limit == r.waiting.limit {
		return rows, true, nil
	}
	rest, err := r.Store.ScanWaiting(ctx, r.partition, store.KeyOf(&rows[limit-1]), through, r.waiting.limit-limit)
	r.progress.mark(r.Clock)
	return append(rows, rest...), len(rest) == r.waiting.limit-limit, err
}

// queueRoom is how many more messages the partition's queue takes.
func (r *runner) queueRoom(ctx context.Context) (room int, full fullness) {
	name := queue.Name{Lambda: r.partition.Lambda, Priority: r.partition.Priority}
	room, full.room = r.Dispatcher.Room(ctx, name)
	r.progress.mark(r.Clock)
	return room, full
}

// fireWaiting dispatches what is due within the lead, as far as the queue has room.
func (r *runner) fireWaiting(ctx context.Context) (int, fullness, error) {
	now := r.Clock.Now()
	if head, ok := r.waiting.next(); !ok || head > now.Add(r.Lead/2) {
		return 0, fullness{}, nil
	}
	room, full := r.queueRoom(ctx)
	var taken []entry
	taken, full.left = r.waiting.takeUntil(now.Add(r.Lead), batchRowsMax, room)
	orders := make([]task.Order, len(taken))
	for i, e := range taken {
		orders[i] = task.Order{Task: *e.task, Waiting: true, Event: task.Event{Kind: task.Enqueue}}
	}
	return len(taken), full, r.dispatch(ctx, orders)
}

// fireWakeups looks at the rows whose wake-up has come, and at those that are watched, as they are now. What would be sent
// waits for room in the queue, as first dispatches do; what runs never waits behind it.
func (r *runner) fireWakeups(ctx context.Context) (int, fullness, error) {
	now := r.Clock.Now()
	j := newJudgement(r, now)
	defer j.end(ctx)
	ids, looked := j.lookAtWatched(ctx)
	var full fullness
	var taken []entry
	if first, ok := r.wakeups.next(); ok && first <= now {
		var room int
		room, full = r.queueRoom(ctx)
		taken, full.left = r.wakeups.takeUntil(now, batchRowsMax, room)
		for i := range taken {
			ids = append(ids, taken[i].id)
		}
		looked += len(taken)
	}
	if len(ids) == 0 {
		return looked, full, nil
	}
	rows, err := r.Store.Tasks(ctx, ids)
	r.progress.mark(r.Clock)
	if err != nil {
		r.nextScan = 0
		r.unsent = slices.ContainsFunc(taken, func(e entry) bool { return e.sends })
		return 0, full, err
	}
	for i := range rows {
		if !r.watch.knows(&rows[i]) {
			r.watch.drop(ids[i])
		}
	}
	orders, judged := j.judge(ctx, rows)
	err = errors.Join(judged, r.dispatch(ctx, orders))
	r.rearm(orders)
	return looked, full, err
}

// dispatch gives orders to the dispatcher. What fails is still in the store: it is found again by a
// scan, at once when trying again may help. Only then is the failure the partition's.
func (r *runner) dispatch(ctx context.Context, orders []task.Order) error {
	if len(orders) == 0 {
		return nil
	}
	results := r.watchWrites(orders, func() []error {
		ctx, done := limited(ctx, r.Clock)
		defer done()
		return r.Dispatcher.Dispatch(ctx, orders)
	})
	r.progress.mark(r.Clock)
	for i, err := range results {
		if err != nil && orders[i].Event.Kind == task.Enqueue {
			r.unsent = true
		}
	}
	for i, err := range results {
		if !orders[i].Waiting {
			r.putAside(&orders[i].Task, err)
		}
		if err = r.worthRetry(ctx, err); err != nil {
			r.nextScan = 0
			return err
		}
	}
	return nil
}

// oddLook is when a row is looked at again that cannot be moved on.
const oddLook = 30 * time.Second

// putAside watches a row that an error keeps where it is for good, so that scans need not meet it again and again, and
// what runs behind it with it.
func (r *runner) putAside(t *task.Task, err error) {
	if isLasting(err) {
		now := r.Clock.Now()
		r.watch.put(watched{at: now.Add(oddLook), id: t.ID, wake: t.Wake, attempt: t.Attempt, since: now, rowAt: now.Add(oddLook)})
	}
}

// worthRetry passes an error on unless it is of one row that will fail in the same way again: such a
// row must not hold up the others, so it is told of and left to the next scan.
func (r *runner) worthRetry(ctx context.Context, err error) error {
	if isLasting(err) {
		r.failed(r.partition, err)
		r.Log.ErrorContext(ctx, "task cannot be moved on", slog.String("partition", r.partition.String()), slog.Any("error", err))
		return nil
	}
	return err
}

// isLasting reports whether an error is of one row, and the same each time.
func isLasting(err error) bool {
	lasting := []error{store.ErrMalformed, store.ErrTooLarge, store.ErrCorrupt, store.ErrVersion}
	return slices.ContainsFunc(lasting, func(l error) bool { return errors.Is(err, l) })
}

// rearm keeps the wake-ups that were only moved in view.
func (r *runner) rearm(orders []task.Order) {
	for i := range orders {
		o := &orders[i]
		if r.Hooks.Waked != nil {
			r.Hooks.Waked(&o.Task, o.Event.Kind)
		}
		if o.Event.Kind == task.Extend {
			moved := o.Task
			moved.Wake = o.Event.Until
			r.addWakeup(&moved)
		}
	}
}

// idle waits for the next entry, the next scan, a hint, or room in the queue.
func (r *runner) idle(ctx context.Context, full fullness) {
	timer := r.Clock.NewTimer(idleMax)
	defer timer.Stop()
	began, now := clock.StampOf(timer), r.Clock.Now()
	until := min(r.nextScan, now.Add(idleMax))
	if r.scanWaits(now) {
		until = r.scanRetry
	}
	if r.turn.asks() {
		until = now.Add(progressEvery)
		r.turns.rest(&r.turn)
		defer r.turns.rise(&r.turn)
	}
	if full.left {
		if isClosed(full.room) {
			full.room = nil // the queue's own bound is further away than ours, so it tells nothing
		}
		if full.room == nil {
			until = min(until, now.Add(roomEvery))
		}
	} else if at, ok := r.waiting.next(); ok {
		until = min(until, at.Add(-r.Lead/2))
	}
	if at, ok := r.nextWakeup(full); ok {
		until = min(until, at)
	}
	if at, ok := r.watch.next(); ok {
		if waits(now, r.askRetry) {
			at = max(at, r.askRetry)
		}
		until = min(until, at)
	}
	clock.ResetFrom(timer, began, until.Sub(now))
	select {
	case <-timer.C():
	case <-r.poke:
	case <-full.room:
	case <-ctx.Done():
	}
}

func (r *runner) nextWakeup(full fullness) (task.Instant, bool) {
	if full.left {
		return r.wakeups.nextSilent()
	}
	return r.wakeups.next()
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// pause backs a failing partition off by itself, so that no other one waits for it.
func (r *runner) pause(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	r.complain(ctx, r.partition, err)
	wait := r.backoff(r.failures)
	r.failures++
	_ = clock.Sleep(ctx, r.Clock, wait)
}
