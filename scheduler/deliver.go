package scheduler

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/bits"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Bounds and timing of deliver lambdas.
const (
	// deliverBatchesMax is how many batches of one partition are under way at a time. A batch takes up to the
	// lead and two writes and a send; while one hangs, the others go on.
	deliverBatchesMax = 8
	// deliverLeads is how many leads before its due time a task may be acquired. Where many are due together,
	// each of them makes it 1/crowdRows of a lead more, up to crowdLeadsMax, so that they can be sent at once
	// when they are due.
	deliverLeads             = 5
	crowdRows, crowdLeadsMax = 10, 20
	// deliverHeldMax is how many tasks of one partition wait for another try at most; those that no queue
	// will take are not among them. Beyond that nothing more is acquired: its queue is down, and what is not
	// acquired costs nothing.
	deliverHeldMax = 1024
	// Retry of a task that could not be sent, from the first try on.
	deliverRetryMin, deliverRetryMax = 100 * time.Millisecond, 5 * time.Second
	// strangerFor is how long a row is left to a process that was never seen among the members: it may have
	// come a moment ago.
	strangerFor = 5 * time.Second
	// finishMax is how long batches that are under way may take when their partition goes to somebody else.
	finishMax = 10 * time.Second
	// hopelessEvery is how long a task rests that no queue will take; the lambda's queue, or what this
	// process may send, can be set up otherwise meanwhile.
	hopelessEvery = 10 * time.Minute
)

// Delivery is what a scheduler needs for lambdas in deliver mode.
type Delivery struct {
	// Is reports whether a partition is of such a lambda.
	Is func(p task.Partition) bool
	// Courier carries the orders out.
	Courier Courier
}

// Courier puts tasks on the queues of their lambdas.
type Courier interface {
	// Deliver acquires tasks and returns what is left to do when it is through with the rest.
	Deliver(ctx context.Context, orders []task.Order) []task.Undelivered
}

// delivering fires a partition of a deliver lambda. What it takes goes to the courier in batches, several at
// a time, so that no slow one delays the next.
type delivering struct {
	l       *loop
	retries *lookahead // orders that wait for another try
	orders  map[task.ID]*task.Order
	batches int // under way
	// remnants are wake-up rows that nobody needs
	remnants []task.Task
	restTo   task.Instant // nothing is taken before, since the store refused a write
	fails    int

	mu      sync.Mutex // guards reports
	reports []report
}

// report is how a batch went.
type report struct {
	orders []task.Order
	left   []task.Undelivered
}

func newDelivering(l *loop) *delivering {
	return &delivering{
		l: l, retries: newLookahead(deliverHeldMax + deliverBatchesMax*batchRowsMax), orders: map[task.ID]*task.Order{},
	}
}

// fire implements firing: it starts batches for what is due within the lead, tries that come again first.
// What is under way lasts until end, so it does not follow ctx.
func (d *delivering) fire(ctx context.Context) (busy bool, err error) {
	d.takeReports(ctx)
	now := d.l.now()
	if !d.rests(now) {
		err = d.lookAtFlight(ctx, now)
	}
	for err == nil && !d.rests(now) && d.batches < deliverBatchesMax {
		orders := d.takeRetries(now)
		if len(orders) == 0 && len(d.orders) < deliverHeldMax {
			orders, err = d.takeFresh(ctx, now)
		}
		if len(orders) == 0 {
			break
		}
		d.start(orders)
	}
	if err != nil {
		d.fail(ctx, err, now)
	}
	d.l.s.Dispatcher.Remove(ctx, d.remnants)
	d.remnants = nil
	d.l.stuck.Store(int64(len(d.orders) + len(d.l.flight.byID)))
	return false, nil
}

// start hands a batch to the courier.
func (d *delivering) start(orders []task.Order) {
	d.batches++
	lasting := d.l.lasting
	go func() {
		left := d.l.s.Delivery.Courier.Deliver(lasting, orders)
		d.mu.Lock()
		d.reports = append(d.reports, report{orders, left})
		d.mu.Unlock()
		wake(d.l.poke)
	}()
}

// end waits for the batches, and no longer than finishMax for what they wait for. What they leave is found by
// whoever reads the partition next.
func (d *delivering) end(ctx context.Context) {
	timer := d.l.s.Clock.NewTimer(finishMax)
	defer timer.Stop()
	for {
		d.takeReports(ctx)
		if d.batches == 0 {
			break
		}
		select {
		case <-d.l.poke:
		case <-timer.C():
			d.l.abandon()
		}
	}
	for id := range d.orders {
		d.l.s.hand.drop(id)
	}
	d.l.stuck.Store(0)
}

func (d *delivering) takeReports(ctx context.Context) {
	d.mu.Lock()
	reports := d.reports
	d.reports = nil
	d.mu.Unlock()
	now := d.l.now()
	for i := range reports {
		d.batches--
		d.settle(ctx, &reports[i], now)
	}
}

// settle lets go of what is done and keeps what is acquired for another try. What could not even be
// acquired is taken again when the partition has rested.
func (d *delivering) settle(ctx context.Context, r *report, now task.Instant) {
	s := d.l.s
	held := make(map[task.ID]bool, len(r.left))
	var failed, undelivered error
	var again []*task.Order
	for i := range r.left {
		u := &r.left[i]
		switch {
		case u.Acquired:
			undelivered = cmp.Or(undelivered, u.Err)
			held[u.Order.Task.ID] = true
			d.retryLater(&u.Order, u.Err, now)
		case u.Err == nil: // another process has it
			d.watch(&u.Order.Task, d.forsakenAt(&u.Order.Task, now))
		case isLasting(u.Err):
			_ = s.worthRetry(ctx, d.l.partition, u.Err)
			d.watch(&u.Order.Task, now.Add(oddLook))
		default:
			failed = u.Err
			again = append(again, &u.Order)
		}
	}
	for i := range r.orders {
		if id := r.orders[i].Task.ID; !held[id] {
			s.hand.drop(id)
		}
	}
	for _, o := range again { // the next look may fail as well
		d.addOrder(o)
	}
	switch {
	case failed != nil:
		d.fail(ctx, failed, now)
	case len(held) > 0:
		d.fails = 0
		d.complain(ctx, undelivered, len(held))
	default:
		d.fails = 0
	}
}

func (d *delivering) complain(ctx context.Context, err error, tasks int) {
	s := d.l.s
	s.failed(d.l.partition, err)
	if news, more := s.quiet.isNews(s.Clock, "tasks", err); news {
		s.Log.WarnContext(ctx, "tasks not delivered, trying again", slog.String("partition", d.l.partition.String()),
			slog.Int("tasks", tasks), slog.Int("more", more), slog.Any("error", err))
	}
}

// addOrder puts a task back among those that are to be acquired.
func (d *delivering) addOrder(o *task.Order) {
	t := o.Task
	d.l.ahead.add(entry{at: d.l.later(t.WakeRow.At), id: t.ID, row: &t, read: !o.First, first: true, sends: true})
}

// watch looks at a row again later.
func (d *delivering) watch(t *task.Task, at task.Instant) {
	if !d.l.guest {
		d.l.flight.put(d.l.flightOf(t, at))
	}
}

// retryLater orders the same again after a while, with full jitter above a floor, longer each time it was
// acquired. What is hopeless rests, so that it takes no room from what is not.
func (d *delivering) retryLater(o *task.Order, failure error, now task.Instant) {
	id := o.Task.ID
	if errors.Is(failure, queue.ErrUndeliverable) {
		d.l.s.hand.drop(id)
		d.watch(&o.Task, now.Add(hopelessEvery))
		return
	}
	ceiling := min(deliverRetryMin<<min(o.Task.Enqueues, 10), deliverRetryMax)
	jitter, _ := bits.Mul64(d.l.s.Clock.Uint64(), uint64(ceiling))
	d.orders[id] = o
	d.retries.add(entry{at: now.Add(deliverRetryMin/2 + time.Duration(jitter)), id: id})
}

// fail backs the whole partition off, because the store refuses writes.
func (d *delivering) fail(ctx context.Context, err error, now task.Instant) {
	if ctx.Err() != nil {
		return
	}
	d.l.s.complain(ctx, d.l.partition, err)
	d.restTo = now.Add(d.l.s.backoff(d.fails))
	d.fails++
}

// rests reports whether the store is left alone for now.
func (d *delivering) rests(now task.Instant) bool { return waits(now, d.restTo) }

// lookAtFlight reads rows that others have acquired, or that rested, and have been left alone for long
// enough.
func (d *delivering) lookAtFlight(ctx context.Context, now task.Instant) error {
	due := d.l.flight.due(now, now.Add(lookRetry), batchRowsMax)
	if len(due) == 0 {
		return nil
	}
	keys, ids := make([]store.WakeKey, len(due)), make([]task.ID, len(due))
	for i, w := range due {
		keys[i] = store.WakeKey{Partition: d.l.partition, Wake: w.place, ID: w.id}
		ids[i] = w.id
	}
	wakeups, err := d.l.s.Store.Wakeups(ctx, keys)
	if err != nil {
		return err
	}
	rows, err := d.tasks(ctx, ids, wakeups)
	if err != nil {
		return err
	}
	for i, w := range due {
		row := &wakeups[i]
		if !rows[i].ID.IsZero() {
			row = &rows[i]
		}
		if row.ID.IsZero() || row.State.IsEnd() || row.IsBare() {
			d.l.flight.drop(w.id)
			continue
		}
		d.consider(row, rows[i].ID.IsZero(), now)
	}
	return nil
}

// tasks reads the task rows of those wake-up rows whose tasks have one: tasks with a key.
func (d *delivering) tasks(ctx context.Context, ids []task.ID, wakeups []task.Task) ([]task.Task, error) {
	rows := make([]task.Task, len(ids))
	var keyed []task.ID
	var at []int
	for i := range ids {
		if wakeups[i].Key != "" {
			keyed, at = append(keyed, ids[i]), append(at, i)
		}
	}
	if len(keyed) == 0 {
		return rows, nil
	}
	found, err := d.l.s.Store.Tasks(ctx, keyed)
	d.l.progress.mark(d.l.s.Clock)
	if err != nil {
		return nil, err
	}
	for n, i := range at {
		rows[i] = found[n]
	}
	return rows, nil
}

// consider puts a row among those that are to be acquired, or looks at it again when whoever has acquired it
// is too slow.
func (d *delivering) consider(row *task.Task, first bool, now task.Instant) {
	if at := d.forsakenAt(row, now); at > now {
		d.watch(row, at)
		return
	}
	d.l.flight.drop(row.ID)
	d.addOrder(&task.Order{Task: *row, First: first})
}

// forsakenAt is from when on a row may be acquired here, if it is acquired: judged by who did that and when,
// and never by when the task was due.
func (d *delivering) forsakenAt(t *task.Task, now task.Instant) task.Instant {
	if t.State != task.Acquired || t.Worker == d.l.s.Process {
		return now // acquired here, it is not in hand, or nobody would ask
	}
	wait := strangerFor
	switch here, gone := d.l.s.presence(t.Worker); {
	case gone:
		return now
	case here:
		wait = task.AcquireTimeout
	}
	since := t.ClaimedAt
	if isAhead(since, now) {
		since = d.l.flight.since(t.ID, t.Attempt, now)
	}
	return max(now, since.Add(wait))
}

func (d *delivering) takeRetries(now task.Instant) []task.Order {
	taken, _ := d.retries.take(now, 0, batchRowsMax, 0)
	orders := make([]task.Order, len(taken))
	for i, e := range taken {
		orders[i] = *d.orders[e.id]
		delete(d.orders, e.id)
	}
	return orders
}

// ahead is how long before it is due a task may be acquired: so long that a steady load shares requests and a
// crowd is ready in time, and so short that few are sent again when this process dies, and few cancels come
// too late.
func (d *delivering) ahead(head task.Instant) time.Duration {
	lead := d.l.s.Lead
	crowd := d.l.ahead.count(head.Add(deliverLeads*lead), crowdRows*crowdLeadsMax)
	return max(deliverLeads*lead, time.Duration(crowd)*lead/crowdRows)
}

// toFire is when the earliest are taken, and how far ahead of their due times. All partitions take at the
// same moments, half of deliverLeads apart, so that what they write goes together: at 100/s some 25 rows,
// which is a request.
func (d *delivering) toFire() (at task.Instant, ahead time.Duration, ok bool) {
	head, ok := d.l.ahead.next()
	if !ok {
		return 0, 0, false
	}
	ahead, apart := d.ahead(head), deliverLeads*d.l.s.Lead/2
	at = head.Add(apart - ahead)
	return at - at%max(task.Instant(0).Add(apart), 1), ahead, true
}

// takeFresh takes what comes into hand; what is there already is not taken again.
func (d *delivering) takeFresh(ctx context.Context, now task.Instant) (orders []task.Order, err error) {
	at, ahead, ok := d.toFire()
	if !ok || now < at {
		return nil, nil
	}
	taken, _ := d.l.ahead.take(now, ahead, batchRowsMax, batchRowsMax)
	wakeups, ids := make([]task.Task, len(taken)), make([]task.ID, len(taken))
	for i, e := range taken {
		wakeups[i], ids[i] = *e.row, e.id
	}
	rows, err := d.tasks(ctx, ids, wakeups)
	if err != nil {
		for _, e := range taken {
			d.l.ahead.add(e)
		}
		return nil, err
	}
	for i := range taken {
		if o, ok := d.order(&wakeups[i], &rows[i], now); ok && d.l.s.hand.take(o.Task.ID) {
			orders = append(orders, o)
		}
	}
	return orders, nil
}

// order is what is to be done about a wake-up row and the task row, if there is one.
func (d *delivering) order(wakeup, row *task.Task, now task.Instant) (o task.Order, ok bool) {
	o = task.Order{Task: *wakeup, First: true, Event: task.Event{Kind: task.Acquire, Worker: d.l.s.Process}}
	if wakeup.Key != "" {
		switch store.Conclude(wakeup, row, d.l.nowWithoutSteps()) {
		case store.Undispatched: // the call that stored it did not get to its task row
		case store.Live:
			o.Task, o.First = *row, false
		case store.Leftover:
			d.remnants = append(d.remnants, *wakeup)
			return o, false
		case store.Unclear:
			return o, false
		}
	}
	if at := d.forsakenAt(&o.Task, now); at > now {
		d.watch(&o.Task, at)
		return o, false
	}
	return o, true
}

// next implements firing.
func (d *delivering) next(now task.Instant) (at task.Instant, room <-chan struct{}) {
	at = now.Add(idleMax)
	if look, ok := d.l.flight.next(); ok {
		at = min(at, d.notBefore(now, look))
	}
	if d.batches >= deliverBatchesMax {
		return at, nil
	}
	fire := at
	if retry, ok := d.retries.next(); ok {
		fire = min(fire, retry)
	}
	if len(d.orders) < deliverHeldMax {
		if fresh, _, ok := d.toFire(); ok {
			fire = min(fire, fresh)
		}
	}
	return min(at, d.notBefore(now, fire)), nil
}

// notBefore is an instant, or the end of the rest if that is later.
func (d *delivering) notBefore(now, at task.Instant) task.Instant {
	if d.rests(now) {
		return max(at, d.restTo)
	}
	return at
}
