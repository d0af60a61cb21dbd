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
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Bounds and timing of deliver lambdas.
const (
	// deliverBatchesMax is how many batches of one partition are under way at a time. A batch takes up to the lead and two
	// writes and a send; while one hangs, the others go on.
	deliverBatchesMax = 8
	// deliverLeads is how many leads before its due time a task may be acquired. Where many are due together, each of them
	// makes it 1/crowdRows of a lead more, up to crowdLeadsMax, so that they can be sent at once when they are due.
	deliverLeads             = 4
	crowdRows, crowdLeadsMax = 10, 20
	// deliverHeldMax is how many tasks of one partition wait for another try at most; those that no queue will take are not
	// among them. Beyond that nothing more is acquired: its queue is down, and what is not acquired costs nothing.
	deliverHeldMax = 1024
	// Retry of a task that could not be sent, from the first try on.
	deliverRetryMin, deliverRetryMax = 100 * time.Millisecond, 5 * time.Second
	// strangerFor is how long a row is left to a process that was never seen among the members: it may have
	// come a moment ago.
	strangerFor = 5 * time.Second
	// finishMax is how long batches that are under way may take when their partition goes to somebody else.
	finishMax = 10 * time.Second
)

// Delivery is what a scheduler needs for lambdas in deliver mode.
type Delivery struct {
	// Process is the name of this process in the rows that it acquires: unique per start, where there is more than one.
	Process string
	// Is reports whether a partition is of such a lambda.
	Is func(p task.Partition) bool
	// Courier carries the orders out.
	Courier Courier
	// Presence tells what is known of a process by its name: whether it is there, and if not, whether
	// it is gone for sure. Neither means that it was never heard of.
	Presence func(process string) (here, gone bool)
}

// Courier puts tasks on the queues of their lambdas.
type Courier interface {
	// Deliver acquires tasks and returns what is left to do when it is through with the rest.
	Deliver(ctx context.Context, orders []task.Order) []task.Undelivered
}

// deliverer fires one partition of a deliver lambda. What it takes goes to the courier in batches, several at a
// time, so that no slow one delays the next. All fields below the inbox belong to run's goroutine.
type deliverer struct {
	*Scheduler
	partition task.Partition
	guest     bool // the partition is another process's: only what is hinted is fired
	stop      context.CancelFunc
	poke      chan struct{} // has an element when the inbox may have something
	head      atomic.Int64  // due time of the oldest task that nobody has taken, 0 for none
	stuck     atomic.Int64  // tasks that are acquired and not under way
	others    atomic.Bool   // some of them by other processes
	warm      atomic.Bool   // it was read ahead
	progress  progress
	forecast  forecast

	mu       sync.Mutex // guards what stands here
	inbox    []hint
	overflow bool
	demoted  bool // it is to be a guest from now on
	reports  []report

	waiting  *lookahead // waiting rows by due time
	wakeups  *lookahead // task rows by wake-up: tasks with a key
	retries  *lookahead // orders that wait for another try
	hopeless hopeless   // tasks that no try will help as things are
	batches  int        // under way
	recent   []recent   // hinted wake-ups that the index may not show yet
	foreign  int        // rows that others have acquired, as of the last scan
	turn     turn       // to scan
	nextScan task.Instant
	restTo   task.Instant // nothing is taken before, since the store refused a write
	failures int

	scanRetry    task.Instant // no scan before, since the last one failed
	scanFailures int
}

// report is how a batch went.
type report struct {
	orders []task.Order
	left   []task.Undelivered
}

func newDeliverer(s *Scheduler, p task.Partition, rows int) *deliverer {
	poke := make(chan struct{}, 1)
	return &deliverer{
		Scheduler: s, partition: p, poke: poke, turn: turn{poke: poke},
		waiting: newLookahead(rows), wakeups: newLookahead(rows), retries: newLookahead(deliverHeldMax + deliverBatchesMax*batchRowsMax),
	}
}

func (d *deliverer) tell(change func()) {
	d.mu.Lock()
	change()
	d.mu.Unlock()
	wake(d.poke)
}

// hint hands a row to the deliverer's goroutine. What does not fit is found by a scan.
func (d *deliverer) hint(t task.Task, waiting bool) {
	d.tell(func() {
		if len(d.inbox) < hintRowsMax {
			d.inbox = append(d.inbox, hint{t, waiting})
		} else {
			d.overflow = true
		}
	})
}

// rescan has the partition read again at once: somebody else's rows may be anybody's now.
func (d *deliverer) rescan() { d.tell(func() { d.overflow = true }) }

// demote makes a guest of it: the partition is another's now. What it has in hand it still gets rid of.
func (d *deliverer) demote() { d.tell(func() { d.demoted = true }) }

func (d *deliverer) beGuest(now task.Instant) {
	d.guest, d.foreign, d.recent = true, 0, nil
	d.dropHopeless(d.hopeless.all()) // its owner tries them
	forget(now, d.waiting, d.wakeups)
	extend(now, d.Window/2, d.waiting, d.wakeups)
}

// run fires what is due until ctx ends, and then finishes what is under way.
func (d *deliverer) run(ctx context.Context) {
	lasting, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	defer d.progress.end()
	defer d.turns.leave(&d.turn)
	for ctx.Err() == nil {
		d.progress.mark(d.Clock)
		if d.guest {
			extend(d.Clock.Now(), d.Window/2, d.waiting, d.wakeups)
		}
		d.takeInbox(ctx)
		d.scan(ctx)
		d.fire(lasting)
		d.note()
		d.idle(ctx)
	}
	d.finish(lasting, abandon)
}

// finish waits for the batches, and no longer than finishMax for what they wait for. What they leave is found by
// whoever scans the partition next.
func (d *deliverer) finish(ctx context.Context, abandon context.CancelFunc) {
	timer := d.Clock.NewTimer(finishMax)
	defer timer.Stop()
	for {
		d.takeInbox(ctx)
		if d.batches == 0 {
			break
		}
		select {
		case <-d.poke:
		case <-timer.C():
			abandon()
		}
	}
	d.retries.each(func(e entry) { d.hand.drop(e.id) })
	d.dropHopeless(d.hopeless.all())
	d.stuck.Store(0)
	d.head.Store(0)
}

func (d *deliverer) takeInbox(ctx context.Context) {
	d.mu.Lock()
	hints, overflow, reports, demoted := d.inbox, d.overflow, d.reports, d.demoted
	d.inbox, d.overflow, d.reports, d.demoted = nil, false, nil, false
	d.mu.Unlock()
	now := d.Clock.Now()
	if demoted {
		d.beGuest(now)
	}
	for i := range hints {
		h := &hints[i]
		if d.add(&h.task, h.waiting, now) && !h.waiting && !d.guest && len(d.recent) < hintRowsMax {
			e := entry{at: h.task.Wake, id: h.task.ID, order: d.acquire(h.task, false)}
			d.recent = append(d.recent, recent{e, now.Add(indexLagMax)})
		}
	}
	if overflow {
		d.nextScan = 0
	}
	for i := range reports {
		d.batches--
		d.settle(ctx, &reports[i], now)
	}
}

// settle lets go of what is done and keeps what is acquired for another try. What could not even be
// acquired is taken again when the partition has rested, or found by the next scan.
func (d *deliverer) settle(ctx context.Context, r *report, now task.Instant) {
	held := make(map[task.ID]bool, len(r.left))
	var failed error
	for i := range r.left {
		u := &r.left[i]
		switch {
		case u.Acquired:
			held[u.Order.Task.ID] = true
			d.retryLater(&u.Order, u.Err, now)
		case isLasting(u.Err):
			d.failed(d.partition, u.Err)
			d.Log.ErrorContext(ctx, "task cannot be moved on", slog.String("partition", d.partition.String()), slog.Any("error", u.Err))
		default:
			failed = u.Err
		}
	}
	for i := range r.orders {
		if id := r.orders[i].Task.ID; !held[id] {
			d.hand.drop(id)
		}
	}
	switch {
	case failed != nil:
		d.putBack(r.left, now)
		d.fail(ctx, failed, now)
	case len(held) > 0:
		d.failures = 0
		d.failed(d.partition, r.left[0].Err)
		if news, more := d.quiet.isNews(d.Clock, "tasks", r.left[0].Err); news {
			d.Log.WarnContext(ctx, "tasks not delivered, trying again", slog.String("partition", d.partition.String()),
				slog.Int("tasks", len(held)), slog.Int("more", more), slog.Any("error", r.left[0].Err))
		}
	default:
		d.failures = 0
	}
}

// putBack keeps in view what could not be acquired, since the next scan may fail as well.
func (d *deliverer) putBack(left []task.Undelivered, now task.Instant) {
	for i := range left {
		if u := &left[i]; !u.Acquired && !isLasting(u.Err) {
			d.add(&u.Order.Task, u.Order.Waiting, now)
		}
	}
}

// retryLater orders the same again after a while, with full jitter above a floor, longer each time it was acquired. What is
// hopeless rests apart, so that it takes no room from what is not.
func (d *deliverer) retryLater(o *task.Order, failure error, now task.Instant) {
	id := o.Task.ID
	if errors.Is(failure, queue.ErrUndeliverable) {
		if d.guest || !d.hopeless.add(id, now) {
			d.hand.drop(id) // whoever looks next tries it
		}
		return
	}
	ceiling := min(deliverRetryMin<<min(o.Task.Enqueues, 10), deliverRetryMax)
	jitter, _ := bits.Mul64(d.Clock.Uint64(), uint64(ceiling))
	d.retries.add(entry{at: now.Add(deliverRetryMin/2 + time.Duration(jitter)), id: id, order: o})
}

func (d *deliverer) dropHopeless(ids []task.ID) {
	for _, id := range ids {
		d.hand.drop(id)
	}
}

// fail backs the whole partition off, because the store refuses writes.
func (d *deliverer) fail(ctx context.Context, err error, now task.Instant) {
	if ctx.Err() != nil {
		return
	}
	d.complain(ctx, d.partition, err)
	d.restTo = now.Add(d.backoff(d.failures))
	d.failures++
	d.nextScan = d.restTo
}

// rests reports whether the store is left alone for now.
func (d *deliverer) rests(now task.Instant) bool { return waits(now, d.restTo) }

// add notes a row of the store if it is to be acquired, and says whether it is.
func (d *deliverer) add(t *task.Task, waiting bool, now task.Instant) bool {
	if waiting {
		return d.addTo(d.waiting, t, true, now)
	}
	return d.addTo(d.wakeups, t, false, now)
}

func (d *deliverer) addTo(ahead *lookahead, t *task.Task, waiting bool, now task.Instant) bool {
	at := t.Due
	if !waiting {
		at = t.Wake
	}
	if t.State != task.Scheduled && !d.isForsaken(t, now) || d.hand.has(t.ID) || !ahead.covers(at) {
		return false
	}
	if t.State == task.Acquired {
		at = min(at, now)
	}
	ahead.add(entry{at: at, id: t.ID, order: d.acquire(*t, waiting)})
	return true
}

func (d *deliverer) acquire(t task.Task, waiting bool) *task.Order {
	return &task.Order{Task: t, Waiting: waiting, Event: task.Event{Kind: task.Acquire, Worker: d.Delivery.Process}}
}

// isForsaken reports whether a row is acquired by nobody who will still send it: judged by who that was and when, and
// never by when the task was due.
func (d *deliverer) isForsaken(t *task.Task, now task.Instant) bool {
	if t.State != task.Acquired {
		return false
	}
	if t.Worker == d.Delivery.Process {
		return !d.hand.has(t.ID)
	}
	wait := strangerFor
	switch here, gone := d.Delivery.Presence(t.Worker); {
	case gone:
		return true
	case here:
		wait = task.AcquireTimeout
	}
	return now >= t.ClaimedAt.Add(wait)
}

// scan reads the partition ahead, from the head of both ranges each time. What cannot be read is tried again soon;
// meanwhile what is known is fired.
func (d *deliverer) scan(ctx context.Context) {
	now := d.Clock.Now()
	if d.guest {
		d.nextScan = now.Add(idleMax)
	}
	due := now >= d.nextScan || d.nextScan > now.Add(max(d.Window/2, retryMin+retryMax)) // the clock may be set back
	low := !d.rests(now) && (d.waiting.low() || d.wakeups.low())
	if d.guest || waits(now, d.scanRetry) || !due && !low {
		d.turns.leave(&d.turn)
		return
	}
	if !d.turns.take(&d.turn, !d.warm.Load(), d.scanFailures > 0) {
		widen(now, d.Scheduler, d.waiting, d.wakeups)
		return
	}
	defer d.turns.done(&d.turn)
	d.dropHopeless(d.hopeless.rested(now))
	through := now.Add(d.Window)
	foreign, err := d.scanWaiting(ctx, now, through)
	if err == nil {
		err = d.scanWakeups(ctx, now, through)
	}
	d.addRecent(now)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		d.complain(ctx, d.partition, err)
		d.scanRetry = now.Add(d.backoff(d.scanFailures))
		d.scanFailures++
		return
	}
	d.scanRetry, d.scanFailures = 0, 0
	d.foreign = foreign
	d.nextScan = now.Add(d.nextLook(&d.warm))
}

// scanWaiting goes on, page by page, past rows that are acquired: however many there are, they take no room from those
// that are to be fired.
func (d *deliverer) scanWaiting(ctx context.Context, now, through task.Instant) (foreign int, err error) {
	before, found := d.waiting.reach(through), newLookahead(d.waiting.limit)
	found.open(through)
	to, limit, counts := d.forecast.span(now, through, found.limit)
	var after store.WaitingKey
	for added := 0; ; {
		rows, err := d.Store.ScanWaiting(ctx, d.partition, after, to, limit)
		d.progress.mark(d.Clock)
		if err != nil {
			d.waiting.reach(before)
			return 0, err
		}
		if counts {
			d.forecast.count(d.Clock, now, rows, len(rows) == limit)
		}
		for i := range rows {
			switch {
			case d.addTo(found, &rows[i], true, now):
				added++
			case rows[i].State == task.Acquired && rows[i].Worker != d.Delivery.Process:
				foreign++
			}
		}
		if len(rows) < limit || rows[limit-1].Due > through {
			break
		}
		to, limit, counts = through, found.limit, false
		last := &rows[len(rows)-1]
		if added >= found.limit {
			found.lower(last.Due - 1) // more may be due with the last one
			break
		}
		after = store.KeyOf(last)
	}
	d.waiting.become(found)
	return foreign, nil
}

// scanWakeups does the same with the rows of tasks with a key.
func (d *deliverer) scanWakeups(ctx context.Context, now, through task.Instant) error {
	before, found := d.wakeups.reach(through), newLookahead(d.wakeups.limit)
	found.open(through)
	var after store.WakeKey
	for added := 0; ; {
		rows, err := d.Store.ScanWakeups(ctx, d.partition, after, through, found.limit)
		d.progress.mark(d.Clock)
		if err != nil {
			d.wakeups.reach(before)
			return err
		}
		for i := range rows {
			if d.addTo(found, &rows[i], false, now) {
				added++
			}
		}
		if len(rows) < found.limit {
			break
		}
		last := &rows[len(rows)-1]
		if added >= found.limit {
			found.lower(last.Wake - 1)
			break
		}
		after = wakeKey(last)
	}
	d.wakeups.become(found)
	return nil
}

// addRecent puts wake-ups back that were hinted a moment ago and that a scan of the index may have missed.
func (d *deliverer) addRecent(now task.Instant) {
	kept := d.recent[:0]
	for _, e := range d.recent {
		if now < e.until && e.at > now { // else it was fired, or the index shows it
			kept = append(kept, e)
			if d.wakeups.covers(e.at) && !d.hand.has(e.id) {
				d.wakeups.add(e.entry)
			}
		}
	}
	d.recent = kept
}

// fire starts batches for what is due within the lead, tries that come again first.
func (d *deliverer) fire(ctx context.Context) {
	now := d.Clock.Now()
	for !d.rests(now) && d.batches < deliverBatchesMax {
		orders := d.takeRetries(now)
		if len(orders) == 0 && d.retries.entries.Len() < deliverHeldMax {
			orders = d.takeFresh(now)
		}
		if len(orders) == 0 {
			return
		}
		d.batches++
		go func() {
			left := d.Delivery.Courier.Deliver(ctx, orders)
			d.tell(func() { d.reports = append(d.reports, report{orders, left}) })
		}()
	}
}

func (d *deliverer) takeRetries(now task.Instant) []task.Order {
	taken, _ := d.retries.takeUntil(now, batchRowsMax, 0)
	orders := make([]task.Order, len(taken))
	for i, e := range taken {
		orders[i] = *e.order
	}
	return orders
}

// ahead is how long before it is due a task may be acquired: so long that a steady load shares requests and a crowd is
// ready in time, and so short that few are sent again when this process dies, and few cancels come too late.
func (d *deliverer) ahead(from *lookahead, head task.Instant) time.Duration {
	least := deliverLeads * d.Lead
	crowd := from.count(head.Add(least), crowdRows*crowdLeadsMax)
	return max(least, time.Duration(crowd)*d.Lead/crowdRows)
}

// toFire is when the earliest of a set are taken, and how far ahead of their due times. Partitions wake up at the same
// moments, one lead apart, so that what they write goes together.
func (d *deliverer) toFire(from *lookahead) (at task.Instant, ahead time.Duration, ok bool) {
	head, ok := from.next()
	if !ok {
		return 0, 0, false
	}
	ahead = d.ahead(from, head)
	at = head.Add(deliverLeads*d.Lead/2 - ahead)
	return at - at%max(task.Instant(0).Add(d.Lead), 1), ahead, true
}

// takeFresh takes what comes into hand; what is there already is not taken again.
func (d *deliverer) takeFresh(now task.Instant) (orders []task.Order) {
	for _, from := range []*lookahead{d.wakeups, d.waiting} {
		at, ahead, ok := d.toFire(from)
		if !ok || now < at {
			continue
		}
		taken, _ := from.takeUntil(now.Add(ahead), batchRowsMax-len(orders), 0)
		for _, e := range taken {
			if d.hand.take(e.id) {
				orders = append(orders, *e.order)
			}
		}
	}
	return orders
}

// note publishes what others may ask for.
func (d *deliverer) note() {
	head, ok := d.waiting.next()
	if at, has := d.wakeups.next(); has && (!ok || at < head) {
		head = at
	}
	d.head.Store(int64(head))
	d.stuck.Store(int64(d.retries.entries.Len() + len(d.hopeless.resting) + d.foreign))
	d.others.Store(d.foreign > 0)
}

// idle waits for the next entry, the next scan, a hint or the end of a batch.
func (d *deliverer) idle(ctx context.Context) {
	timer := d.Clock.NewTimer(idleMax)
	defer timer.Stop()
	began, now := clock.StampOf(timer), d.Clock.Now()
	until := min(max(d.nextScan, d.scanRetry), now.Add(idleMax))
	if d.turn.asks() {
		until = now.Add(progressEvery)
		d.turns.rest(&d.turn)
		defer d.turns.rise(&d.turn)
	}
	if d.batches < deliverBatchesMax {
		until = min(until, max(d.nextToFire(), d.restTo))
	}
	clock.ResetFrom(timer, began, until.Sub(now))
	select {
	case <-timer.C():
	case <-d.poke:
	case <-ctx.Done():
	}
}

// nextToFire is when the next batch can be started.
func (d *deliverer) nextToFire() task.Instant {
	next := d.Clock.Now().Add(idleMax)
	if at, ok := d.retries.next(); ok {
		next = min(next, at)
	}
	if d.retries.entries.Len() >= deliverHeldMax {
		return next
	}
	for _, from := range []*lookahead{d.waiting, d.wakeups} {
		if at, _, ok := d.toFire(from); ok {
			next = min(next, at)
		}
	}
	return next
}
