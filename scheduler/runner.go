package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/lease"
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
	nextScan task.Instant
	failures int

	recovered    bool
	recoverAfter store.WakeKey // where recover goes on
	scanFailures int
	scanRetry    task.Instant // not before then, after a scan that failed
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
	return &runner{
		Scheduler: s, partition: p, since: since, poke: make(chan struct{}, 1),
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

// step does one round. busy says that there may be more to do at once.
func (r *runner) step(ctx context.Context) (busy bool, full fullness, err error) {
	if r.guest {
		extend(r.Clock.Now(), r.Window/2, r.waiting, r.wakeups)
	}
	r.takeHints()
	r.scan(ctx)
	r.noteHead()
	r.progress.mark(r.Clock)
	woken, full, err := r.fireWakeups(ctx)
	if err != nil {
		return false, full, err
	}
	r.progress.mark(r.Clock)
	fired, more, err := r.fireWaiting(ctx)
	if more.left {
		full = more
	}
	return woken+fired > 0 || r.scanGoesOn(), full, err
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
		return
	}
	if r.scanWaits(now) {
		return
	}
	due := r.scanDue(now)
	err := r.scanBoth(ctx, now, due)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		r.tell(ctx, err)
		r.scanRetry = now.Add(r.backoff(r.scanFailures))
		r.scanFailures++
		return
	}
	r.scanRetry, r.scanFailures = 0, 0
	if due {
		r.nextScan = now.Add(r.nextLook(&r.warm))
	}
}

// scanWaits reports whether it is too early to try a scan again; a clock that was set back does not make it longer.
func (r *runner) scanWaits(now task.Instant) bool {
	return r.scanRetry > now && r.scanRetry <= now.Add(retryMin+retryMax)
}

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
	return append(rows, rest...), len(rest) == r.waiting.limit-limit, err
}

// queueRoom is how many more messages the partition's queue takes.
func (r *runner) queueRoom(ctx context.Context) (room int, full fullness) {
	name := queue.Name{Lambda: r.partition.Lambda, Priority: r.partition.Priority}
	room, full.room = r.Dispatcher.Room(ctx, name)
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
	j := judgement{runner: r, now: now, leases: map[string]lease.Lease{}, ages: map[queue.Name]time.Duration{}}
	ids, looked := j.lookAtWatched(ctx)
	var full fullness
	if first, ok := r.wakeups.next(); ok && first <= now {
		var room int
		room, full = r.queueRoom(ctx)
		var taken []entry
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
	if err != nil {
		r.nextScan = 0
		return 0, full, err
	}
	for i := range rows {
		if !r.watch.knows(&rows[i]) {
			r.watch.drop(ids[i])
		}
	}
	orders, judged := j.judge(ctx, rows)
	err = errors.Join(judged, r.dispatch(ctx, orders))
	if judged != nil {
		r.nextScan = 0
	}
	r.rearm(orders)
	return looked, full, err
}

// dispatch gives orders to the dispatcher. What fails is still in the store: it is found again by a
// scan, at once when trying again may help. Only then is the failure the partition's.
func (r *runner) dispatch(ctx context.Context, orders []task.Order) error {
	if len(orders) == 0 {
		return nil
	}
	for i, err := range r.watchWrites(orders, func() []error { return r.Dispatcher.Dispatch(ctx, orders) }) {
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
		r.failed(err)
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

// judgement is what one round of decisions has learnt so far.
type judgement struct {
	*runner
	now    task.Instant
	leases map[string]lease.Lease
	ages   map[queue.Name]time.Duration
}

// judge decides each row, asking for every lease and queue once. The orders are good even with an error, which
// is the first of those rows that could not be decided.
func (j *judgement) judge(ctx context.Context, rows []task.Task) (orders []task.Order, failed error) {
	orders = make([]task.Order, 0, len(rows))
	for i := range rows {
		t := &rows[i]
		if t.Wake.IsZero() {
			continue
		}
		if t.Wake > j.now && (t.State != task.Scheduled || t.Attempt > 0 || t.Wake > j.now.Add(j.Lead)) {
			j.addWakeup(t) // it moved since it was read
			continue
		}
		event, act, err := j.rule(ctx, t)
		j.putAside(t, err)
		if err = j.worthRetry(ctx, err); err != nil && failed == nil {
			failed = err
		}
		if act {
			orders = append(orders, task.Order{Task: *t, Event: event})
		}
	}
	return orders, failed
}

// rule decides a row. A lease that was renewed between the look and the verdict is looked at again.
func (j *judgement) rule(ctx context.Context, t *task.Task) (event task.Event, act bool, err error) {
	for range leaseLooksMax {
		var c circumstances
		if c, err = j.circumstances(ctx, t); err != nil {
			return task.Event{}, false, err
		}
		d := decide(t, c)
		if d.event.Kind == task.WorkerLost && !j.dog.mayReclaim(j.now, &c.lease) {
			d = decision{verdict: lookAgain, until: j.now.Add(rampLook)}
		}
		switch d.verdict {
		case nothing:
			return task.Event{}, false, nil
		case carryOut:
			return d.event, true, nil
		case lookAgain, lookLease:
			event, act = j.watchRow(t, d)
			return event, act, nil
		case reclaim:
		}
		if err = j.markLost(ctx, c.lease); err == nil {
			return d.event, true, nil
		}
		if !errors.Is(err, store.ErrConflict) {
			break
		}
		delete(j.leases, t.Worker)
	}
	return task.Event{}, false, err
}

const (
	// rampLook is when a task is looked at again that may not be taken back yet.
	rampLook = time.Second
	// watchRetry is when a watched row is looked at again of which the last look brought no end.
	watchRetry = 5 * time.Second
	// leasesAtOnceMax bounds the leases that one partition reads at once.
	leasesAtOnceMax = 16
)

// watchRow remembers when to look at a row again. Where memory has no room, the wake-up is moved.
func (j *judgement) watchRow(t *task.Task, d decision) (event task.Event, act bool) {
	w := watched{at: d.until, id: t.ID, wake: t.Wake, attempt: t.Attempt, since: j.watch.since(t.ID, j.now), rowAt: d.until}
	if d.verdict == lookLease {
		w.worker, w.rowAt = t.Worker, rowLook(w.since, j.now, d.until)
	}
	if j.watch.put(w) {
		return task.Event{}, false
	}
	return task.Event{Kind: task.Extend, Until: d.until}, true
}

// lookAtWatched looks at the leases of watched rows whose time has come, and returns the ids of those rows that have to
// be read, and how many it looked at. Each is put off for a moment first, so that none is forgotten whatever happens to it.
func (j *judgement) lookAtWatched(ctx context.Context) (ids []task.ID, looked int) {
	due := j.watch.due(j.now, j.now.Add(watchRetry), batchRowsMax)
	j.readLeases(ctx, due)
	for _, w := range due {
		if w.worker != "" && j.now < w.rowAt {
			if end := j.leaseEnd(ctx, w.worker); j.now < end {
				w.at = min(end, w.rowAt)
				j.watch.put(w)
				continue
			}
		}
		ids = append(ids, w.id)
	}
	return ids, len(due)
}

// readLeases reads the leases that watched rows follow and that are not known to be good, several at a time: one after the
// other they would hold up the partition. What cannot be read is read again by whoever needs it.
func (j *judgement) readLeases(ctx context.Context, due []watched) {
	var workers []string
	for _, w := range due {
		if w.worker != "" && j.now < w.rowAt && j.now >= j.Scheduler.leases.end(w.worker) && !slices.Contains(workers, w.worker) {
			workers = append(workers, w.worker)
		}
	}
	if len(workers) < 2 {
		return
	}
	var reading sync.WaitGroup
	read := make([]lease.Lease, len(workers))
	room := make(chan struct{}, leasesAtOnceMax)
	for i, worker := range workers {
		room <- struct{}{}
		reading.Go(func() {
			read[i], _ = j.Leases.Look(ctx, worker)
			<-room
		})
	}
	reading.Wait()
	for i := range read {
		if read[i].Worker != "" {
			j.leases[workers[i]] = read[i]
		}
	}
}

// leaseEnd is until when a worker's lease holds at least, as far as is known here or can be read.
func (j *judgement) leaseEnd(ctx context.Context, worker string) task.Instant {
	if end := j.Scheduler.leases.end(worker); j.now < end {
		return end
	}
	l, err := j.lease(ctx, worker)
	if err != nil || l.Lost {
		return 0 // the row's verdict will say what follows
	}
	return goodUntil(&l, j.since)
}

func (j *judgement) circumstances(ctx context.Context, t *task.Task) (c circumstances, err error) {
	c = circumstances{now: j.now, since: j.since}
	switch {
	case t.State.IsRunning():
		c.lease, err = j.lease(ctx, t.Worker)
		c.since = max(j.since, j.dog.quiet(&c.lease))
	case t.State == task.Enqueued:
		c.queueAge, err = j.age(ctx, queue.NameFor(t))
	}
	return c, err
}

func (j *judgement) markLost(ctx context.Context, l lease.Lease) error {
	if err := j.Leases.MarkLost(ctx, l); err != nil {
		return err
	}
	j.Log.WarnContext(ctx, "worker lost", slog.String("worker", l.Worker))
	if j.Hooks.Lost != nil {
		j.Hooks.Lost(l.Worker)
	}
	l.Lost = true
	j.leases[l.Worker] = l
	return nil
}

func (j *judgement) lease(ctx context.Context, worker string) (lease.Lease, error) {
	if l, ok := j.leases[worker]; ok {
		return l, nil
	}
	l, err := j.Leases.Look(ctx, worker)
	if err == nil {
		j.leases[worker] = l
	}
	return l, err
}

func (j *judgement) age(ctx context.Context, name queue.Name) (time.Duration, error) {
	if age, ok := j.ages[name]; ok {
		return age, nil
	}
	depth, err := j.Queue.Depth(ctx, name)
	if err == nil {
		j.ages[name] = depth.Oldest
	}
	return depth.Oldest, err
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
	r.tell(ctx, err)
	wait := r.backoff(r.failures)
	r.failures++
	_ = clock.Sleep(ctx, r.Clock, wait)
}

// backoff is the wait after so many failures: full jitter.
func (r *runner) backoff(failures int) time.Duration {
	jitter, _ := bits.Mul64(r.Clock.Uint64(), uint64(min(retryMin<<min(failures, 10), retryMax)))
	return retryMin + time.Duration(jitter)
}

func (r *runner) tell(ctx context.Context, err error) {
	r.failed(err)
	if r.quiet.isNews(r.Clock, err) {
		r.Log.WarnContext(ctx, "partition will be tried again", slog.String("partition", r.partition.String()), slog.Any("error", err))
	}
}

func (r *runner) failed(err error) {
	if r.Hooks.Failed != nil {
		r.Hooks.Failed(r.partition, err)
	}
}
