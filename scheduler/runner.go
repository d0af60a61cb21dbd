package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"math/bits"
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
	stop      context.CancelFunc
	since     task.Instant  // the start of the scheduler: no heartbeat before it is missed
	poke      chan struct{} // has an element when the inbox may have something
	head      atomic.Int64  // due time of the oldest waiting task, 0 for none

	mu       sync.Mutex // guards inbox and overflow
	inbox    []hint
	overflow bool

	waiting  *lookahead // waiting rows by due time
	wakeups  *lookahead // task rows by wake-up
	nextScan task.Instant
	failures int
}

type hint struct {
	task    task.Task
	waiting bool
}

func newRunner(s *Scheduler, p task.Partition, since task.Instant, rows int) *runner {
	return &runner{
		Scheduler: s, partition: p, since: since, poke: make(chan struct{}, 1),
		waiting: newLookahead(rows), wakeups: newLookahead(rows),
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
	select {
	case r.poke <- struct{}{}:
	default:
	}
}

func (r *runner) run(ctx context.Context) {
	for recovered := false; ctx.Err() == nil; {
		if !recovered {
			if err := r.recover(ctx); err != nil {
				r.pause(ctx, err)
				continue
			}
			recovered = true
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
// come are left to it, since it sends them too.
func (r *runner) recover(ctx context.Context) error {
	if r.Queue.Durable() {
		return nil
	}
	now := r.Clock.Now()
	through := now.Add(2 * task.EnqueueTimeoutMax)
	var after store.WakeKey
	for {
		rows, err := r.Store.ScanWakeups(ctx, r.partition, after, through, batchRowsMax)
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
		last := &rows[len(rows)-1]
		after = store.WakeKey{Wake: last.Wake, ID: last.ID}
	}
}

// fullness says what a round left because the queue had no room.
type fullness struct {
	left bool
	room <-chan struct{} // closed when there is room again; nil when the queue cannot tell
}

// step does one round. busy says that there may be more to do at once.
func (r *runner) step(ctx context.Context) (busy bool, full fullness, err error) {
	r.takeHints()
	if err := r.scan(ctx); err != nil {
		return false, full, err
	}
	r.noteHead()
	woken, full, err := r.fireWakeups(ctx)
	if err != nil {
		return false, full, err
	}
	fired, more, err := r.fireWaiting(ctx)
	if more.left {
		full = more
	}
	return woken+fired > 0, full, err
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
	hints, overflow := r.inbox, r.overflow
	r.inbox, r.overflow = nil, false
	r.mu.Unlock()
	for i := range hints {
		if hints[i].waiting {
			r.addWaiting(&hints[i].task)
		} else {
			r.addWakeup(&hints[i].task)
		}
	}
	if overflow {
		r.nextScan = 0
	}
}

func (r *runner) addWaiting(t *task.Task) {
	if r.waiting.covers(t.Due) {
		r.waiting.add(entry{at: t.Due, id: t.ID, task: t, sends: true})
	}
}

// addWakeup notes when to look at a row. A task that only waits for its due time may be enqueued ahead of it.
func (r *runner) addWakeup(t *task.Task) {
	if !r.wakeups.covers(t.Wake) {
		return
	}
	at := t.Wake
	if t.State == task.Scheduled && t.Attempt == 0 {
		at = at.Add(-r.Lead)
	}
	r.wakeups.add(entry{at: at, id: t.ID, sends: t.State == task.Scheduled || t.State == task.RetriableFailure})
}

// scan reads the partition ahead, from the head of both ranges each time, so that a late
// insert is never behind a cursor.
func (r *runner) scan(ctx context.Context) error {
	now := r.Clock.Now()
	due := r.scanDue(now)
	if due || r.waiting.low() {
		if err := r.scanWaiting(ctx, now.Add(r.Window)); err != nil {
			return err
		}
	}
	if due || r.wakeups.low() {
		if err := r.scanWakeups(ctx, now.Add(r.Window)); err != nil {
			return err
		}
	}
	if due {
		r.nextScan = now.Add(r.Window / 2)
	}
	return nil
}

// scanDue reports whether it is time to read ahead again; also when the clock was set back, since the next scan would
// then be far away.
func (r *runner) scanDue(now task.Instant) bool {
	return now >= r.nextScan || r.nextScan > now.Add(r.Window/2)
}

func (r *runner) scanWaiting(ctx context.Context, through task.Instant) error {
	r.waiting.open(through)
	rows, err := r.Store.ScanWaiting(ctx, r.partition, store.WaitingKey{}, through, r.waiting.limit)
	if err != nil {
		r.waiting.open(0)
		return err
	}
	for i := range rows {
		r.waiting.add(entry{at: rows[i].Due, id: rows[i].ID, task: &rows[i], sends: true})
	}
	if len(rows) == r.waiting.limit {
		r.waiting.lower(rows[len(rows)-1].Due - 1) // more may be due with the last one
	}
	return nil
}

func (r *runner) scanWakeups(ctx context.Context, through task.Instant) error {
	r.wakeups.open(through)
	rows, err := r.Store.ScanWakeups(ctx, r.partition, store.WakeKey{}, through, r.wakeups.limit)
	if err != nil {
		r.wakeups.open(0)
		return err
	}
	for i := range rows {
		r.addWakeup(&rows[i])
	}
	if len(rows) == r.wakeups.limit {
		r.wakeups.lower(rows[len(rows)-1].Wake - 1)
	}
	return nil
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

// fireWakeups looks at the rows whose wake-up has come, as they are now. What would be sent waits for
// room in the queue, as first dispatches do; what runs never waits behind it.
func (r *runner) fireWakeups(ctx context.Context) (int, fullness, error) {
	now := r.Clock.Now()
	if first, ok := r.wakeups.next(); !ok || first > now {
		return 0, fullness{}, nil
	}
	room, full := r.queueRoom(ctx)
	var taken []entry
	taken, full.left = r.wakeups.takeUntil(now, batchRowsMax, room)
	if len(taken) == 0 {
		return 0, full, nil
	}
	ids := make([]task.ID, len(taken))
	for i := range taken {
		ids[i] = taken[i].id
	}
	rows, err := r.Store.Tasks(ctx, ids)
	if err != nil {
		r.nextScan = 0
		return 0, full, err
	}
	orders, judged := r.judge(ctx, rows, now)
	err = errors.Join(judged, r.dispatch(ctx, orders))
	if judged != nil {
		r.nextScan = 0
	}
	r.rearm(orders)
	return len(taken), full, err
}

// dispatch gives orders to the dispatcher. What fails is still in the store: it is found again by a
// scan, at once when trying again may help. Only then is the failure the partition's.
func (r *runner) dispatch(ctx context.Context, orders []task.Order) error {
	if len(orders) == 0 {
		return nil
	}
	for _, err := range r.Dispatcher.Dispatch(ctx, orders) {
		if err = r.worthRetry(ctx, err); err != nil {
			r.nextScan = 0
			return err
		}
	}
	return nil
}

// worthRetry passes an error on unless it is of one row that will fail in the same way again: such a
// row must not hold up the others, so it is told of and left to the next scan.
func (r *runner) worthRetry(ctx context.Context, err error) error {
	for _, lasting := range []error{store.ErrMalformed, store.ErrTooLarge, store.ErrCorrupt, store.ErrVersion} {
		if errors.Is(err, lasting) {
			r.failed(err)
			r.Log.ErrorContext(ctx, "task cannot be moved on", slog.String("partition", r.partition.String()), slog.Any("error", err))
			return nil
		}
	}
	return err
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

// judge decides each row, asking for every lease and queue once. The orders are good even with an error, which
// is the first of those rows that could not be decided.
func (r *runner) judge(ctx context.Context, rows []task.Task, now task.Instant) (orders []task.Order, failed error) {
	j := judgement{runner: r, now: now, leases: map[string]lease.Lease{}, ages: map[queue.Name]time.Duration{}}
	orders = make([]task.Order, 0, len(rows))
	for i := range rows {
		t := &rows[i]
		if t.Wake.IsZero() {
			continue
		}
		if t.Wake > now && (t.State != task.Scheduled || t.Attempt > 0 || t.Wake > now.Add(r.Lead)) {
			r.addWakeup(t) // it moved since it was read
			continue
		}
		event, act, err := j.rule(ctx, t)
		if err = r.worthRetry(ctx, err); err != nil && failed == nil {
			failed = err
		}
		if act {
			orders = append(orders, task.Order{Task: *t, Event: event})
		}
	}
	return orders, failed
}

// judgement is what one round of decisions has learnt so far.
type judgement struct {
	*runner
	now    task.Instant
	leases map[string]lease.Lease
	ages   map[queue.Name]time.Duration
}

// rule decides a row. A lease that was renewed between the look and the verdict is looked at again.
func (j *judgement) rule(ctx context.Context, t *task.Task) (event task.Event, act bool, err error) {
	for range leaseLooksMax {
		var c circumstances
		if c, err = j.circumstances(ctx, t); err != nil {
			return task.Event{}, false, err
		}
		event, v := decide(t, c)
		if v != reclaim {
			return event, v == carryOut, nil
		}
		if err = j.markLost(ctx, c.lease); err == nil {
			return event, true, nil
		}
		if !errors.Is(err, store.ErrConflict) {
			break
		}
		delete(j.leases, t.Worker)
	}
	return task.Event{}, false, err
}

func (j *judgement) circumstances(ctx context.Context, t *task.Task) (c circumstances, err error) {
	c = circumstances{now: j.now, since: j.since}
	switch {
	case t.State.IsRunning():
		c.lease, err = j.lease(ctx, t.Worker)
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

// pause backs a failing partition off by itself, with full jitter, so that no other one waits for it.
func (r *runner) pause(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	r.failed(err)
	r.Log.WarnContext(ctx, "partition will be tried again", slog.String("partition", r.partition.String()), slog.Any("error", err))
	ceiling := min(retryMin<<min(r.failures, 10), retryMax)
	r.failures++
	jitter, _ := bits.Mul64(r.Clock.Uint64(), uint64(ceiling))
	_ = clock.Sleep(ctx, r.Clock, retryMin+time.Duration(jitter))
}

func (r *runner) failed(err error) {
	if r.Hooks.Failed != nil {
		r.Hooks.Failed(r.partition, err)
	}
}
