package scheduler

import (
	"context"
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
		busy, wait, err := r.step(ctx)
		switch {
		case err != nil:
			r.pause(ctx, err)
		case !busy:
			r.failures = 0
			r.idle(ctx, wait)
		default:
			r.failures = 0
		}
	}
}

// recover sends every enqueued task of the partition again where the messages did
// not outlive the process. A message too many is refused at its claim.
func (r *runner) recover(ctx context.Context) error {
	if r.Queue.Durable() {
		return nil
	}
	through := r.Clock.Now().Add(2 * task.EnqueueTimeoutMax)
	var after store.WakeKey
	for {
		rows, err := r.Store.ScanWakeups(ctx, r.partition, after, through, batchRowsMax)
		if err != nil {
			return err
		}
		enqueued := make([]task.Task, 0, len(rows))
		for i := range rows {
			if rows[i].State == task.Enqueued {
				enqueued = append(enqueued, rows[i])
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

// step does one round. busy says that there may be more to do at once; wait is what else
// than the time can end the idling.
func (r *runner) step(ctx context.Context) (busy bool, wait <-chan struct{}, err error) {
	r.takeHints()
	if err := r.scan(ctx); err != nil {
		return false, nil, err
	}
	woken, err := r.fireWakeups(ctx)
	if err != nil {
		return false, nil, err
	}
	fired, wait, err := r.fireWaiting(ctx)
	return woken+fired > 0, wait, err
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
		r.waiting.add(entry{at: t.Due, id: t.ID, task: t})
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
	r.wakeups.add(entry{at: at, id: t.ID})
}

// scan reads the partition ahead, from the head of both ranges each time, so that a late
// insert is never behind a cursor.
func (r *runner) scan(ctx context.Context) error {
	now := r.Clock.Now()
	due := now >= r.nextScan
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

func (r *runner) scanWaiting(ctx context.Context, through task.Instant) error {
	r.waiting.open(through)
	rows, err := r.Store.ScanWaiting(ctx, r.partition, store.WaitingKey{}, through, r.waiting.limit)
	if err != nil {
		r.waiting.open(0)
		return err
	}
	for i := range rows {
		r.waiting.add(entry{at: rows[i].Due, id: rows[i].ID, task: &rows[i]})
	}
	if len(rows) == r.waiting.limit {
		r.waiting.lower(rows[len(rows)-1].Due)
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
		r.wakeups.lower(rows[len(rows)-1].Wake)
	}
	return nil
}

// fireWaiting dispatches what is due within the lead, as far as the queue has room.
func (r *runner) fireWaiting(ctx context.Context) (int, <-chan struct{}, error) {
	head, ok := r.waiting.next()
	r.head.Store(int64(head))
	now := r.Clock.Now()
	if !ok || head > now.Add(r.Lead/2) {
		return 0, nil, nil
	}
	name := queue.Name{Lambda: r.partition.Lambda, Priority: r.partition.Priority}
	room, wait := r.Dispatcher.Room(ctx, name)
	if room == 0 {
		return 0, r.orSoon(ctx, wait), nil
	}
	taken := r.waiting.takeUntil(now.Add(r.Lead), min(room, batchRowsMax))
	orders := make([]task.Order, len(taken))
	for i, e := range taken {
		orders[i] = task.Order{Task: *e.task, Waiting: true, Event: task.Event{Kind: task.Enqueue}}
	}
	err := firstError(r.Dispatcher.Dispatch(ctx, orders))
	if err != nil {
		r.nextScan = 0 // what was not dispatched is still in the store
	}
	return len(taken), nil, err
}

// orSoon makes up a signal for queues that cannot tell when they have room.
func (r *runner) orSoon(ctx context.Context, room <-chan struct{}) <-chan struct{} {
	if room != nil {
		return room
	}
	_ = clock.Sleep(ctx, r.Clock, roomEvery)
	return closed
}

var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// fireWakeups looks at the rows whose wake-up has come, as they are now.
func (r *runner) fireWakeups(ctx context.Context) (int, error) {
	now := r.Clock.Now()
	taken := r.wakeups.takeUntil(now, batchRowsMax)
	if len(taken) == 0 {
		return 0, nil
	}
	ids := make([]task.ID, len(taken))
	for i := range taken {
		ids[i] = taken[i].id
	}
	rows, err := r.Store.Tasks(ctx, ids)
	if err != nil {
		r.nextScan = 0
		return 0, err
	}
	orders, err := r.judge(ctx, rows, now)
	if err == nil && len(orders) > 0 {
		err = firstError(r.Dispatcher.Dispatch(ctx, orders))
	}
	if err != nil {
		r.nextScan = 0
		return 0, err
	}
	r.rearm(orders)
	return len(taken), nil
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

// judge decides each row, asking for every lease and queue once.
func (r *runner) judge(ctx context.Context, rows []task.Task, now task.Instant) ([]task.Order, error) {
	j := judgement{runner: r, now: now, leases: map[string]lease.Lease{}, ages: map[queue.Name]time.Duration{}}
	orders := make([]task.Order, 0, len(rows))
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
		if err != nil {
			return nil, err
		}
		if act {
			orders = append(orders, task.Order{Task: *t, Event: event})
		}
	}
	return orders, nil
}

// judgement is what one round of decisions has learnt so far.
type judgement struct {
	*runner
	now    task.Instant
	leases map[string]lease.Lease
	ages   map[queue.Name]time.Duration
}

func (j *judgement) rule(ctx context.Context, t *task.Task) (task.Event, bool, error) {
	c := circumstances{now: j.now, since: j.since}
	var err error
	switch {
	case t.State.IsRunning():
		c.lease, err = j.lease(ctx, t.Worker)
	case t.State == task.Enqueued:
		c.queueAge, err = j.age(ctx, queue.NameFor(t))
	}
	if err != nil {
		return task.Event{}, false, err
	}
	event, v := decide(t, c)
	if v != reclaim {
		return event, v == carryOut, nil
	}
	if err := j.Leases.MarkLost(ctx, c.lease); err != nil {
		return task.Event{}, false, err // renewed in between, or the store failed: look again
	}
	j.Log.WarnContext(ctx, "worker lost", slog.String("worker", t.Worker))
	if j.Hooks.Lost != nil {
		j.Hooks.Lost(t.Worker)
	}
	c.lease.Lost = true
	j.leases[t.Worker] = c.lease
	return event, true, nil
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

func firstError(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// idle waits for the next entry, the next scan, a hint, or the given signal.
func (r *runner) idle(ctx context.Context, wait <-chan struct{}) {
	now := r.Clock.Now()
	until := min(r.nextScan, now.Add(idleMax))
	if at, ok := r.waiting.next(); ok && wait == nil {
		until = min(until, at.Add(-r.Lead/2))
	}
	if at, ok := r.wakeups.next(); ok {
		until = min(until, at)
	}
	timer := r.Clock.NewTimer(until.Sub(now))
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-r.poke:
	case <-wait:
	case <-ctx.Done():
	}
}

// pause backs a failing partition off by itself, with full jitter, so that no other one waits for it.
func (r *runner) pause(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	if r.Hooks.Failed != nil {
		r.Hooks.Failed(r.partition, err)
	}
	r.Log.WarnContext(ctx, "partition will be tried again", slog.String("partition", r.partition.String()), slog.Any("error", err))
	ceiling := min(retryMin<<min(r.failures, 10), retryMax)
	r.failures++
	jitter, _ := bits.Mul64(r.Clock.Uint64(), uint64(ceiling))
	_ = clock.Sleep(ctx, r.Clock, retryMin+time.Duration(jitter))
}
