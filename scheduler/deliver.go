package scheduler

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/internal/backoff"
	"github.com/kinesin-io/kinesin/internal/hold"
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
	// deliverWaitingMax is how many tasks of one partition wait for another try at most. Beyond that no more are
	// acquired: the queue is down, and a task that is not acquired costs nothing. Undeliverable tasks do not
	// count.
	deliverWaitingMax = 1024
	// deliverRetryMin and deliverRetryMax bound the pauses before a task is sent again.
	deliverRetryMin, deliverRetryMax = 50 * time.Millisecond, 5 * time.Second
	// unknownProcessWait is how long a row is left to a process that was never seen among the members: it may
	// have started a moment ago.
	unknownProcessWait = 5 * time.Second
	// finishMax is how long batches that are under way may take when their partition goes to another process.
	finishMax = 10 * time.Second
	// undeliverableEvery is how often a task that its queue refuses for good is tried again; the lambda's queue, or
	// what this process may send, can be changed meanwhile.
	undeliverableEvery = 10 * time.Minute
)

// deliverMode dispatches a partition of a deliver lambda. Due tasks go to the deliverer in batches, several
// at a time, so that a slow one does not delay the next.
type deliverMode struct {
	*loop

	retries  *buffer // when the tasks in waiting are tried again
	waiting  map[task.ID]*task.Order
	leftover []task.Task     // wake-up rows that no task needs
	breaker  backoff.Breaker // for reads and writes of rows
	quota    quotaWait       // set when the quota was lacking
	batches  deliverBatches
}

// deliverBatches are the batches that are under way.
type deliverBatches struct {
	running int
	ctx     context.Context //nolint:containedctx // outlives the loop's rounds; abandon ends it
	abandon context.CancelFunc
	results chan deliverResult // has room for all
}

// deliverResult says how a batch went.
type deliverResult struct {
	orders []task.Order
	left   []task.Undelivered
}

func newDeliverMode(l *loop) *deliverMode {
	d := &deliverMode{
		loop: l, retries: newBuffer(deliverWaitingMax + deliverBatchesMax*batchRowsMax), waiting: map[task.ID]*task.Order{},
		breaker: backoff.Breaker{Policy: retries},
	}
	d.batches.results = make(chan deliverResult, deliverBatchesMax)
	d.batches.ctx, d.batches.abandon = context.WithCancel(context.Background()) //nolint:fatcontext // in no loop
	return d
}

func (d *deliverMode) shift(by time.Duration) { d.retries.shift(by) }

func (d *deliverMode) rests() bool {
	return d.batches.running == 0 && len(d.waiting) == 0 && !d.breaker.Fails()
}

// dispatchDue implements mode: it starts batches for what is due within the lead, retries first.
func (d *deliverMode) dispatchDue(ctx context.Context) (busy bool, err error) {
	now := d.now()
	for len(d.batches.results) > 0 {
		r := <-d.batches.results
		d.settle(ctx, &r, now)
	}
	if d.breaker.Left(d.Clock) == 0 {
		err = d.checkInFlight(ctx, now)
	}
	for err == nil && d.breaker.Left(d.Clock) == 0 && d.batches.running < deliverBatchesMax {
		orders := d.takeRetries(now)
		if len(orders) == 0 && len(d.waiting) < deliverWaitingMax {
			orders, err = d.takeFresh(ctx, now)
		}
		if len(orders) == 0 {
			break
		}
		d.start(orders)
	}
	if err != nil {
		d.backOff(ctx, err)
	}
	d.dispatcher.Remove(ctx, d.leftover)
	d.leftover = nil
	d.stats.stuck.Store(int64(len(d.waiting) + len(d.inFlight.byID)))
	return false, nil
}

// start hands a batch to the deliverer.
func (d *deliverMode) start(orders []task.Order) {
	b := &d.batches
	b.running++
	go func() {
		b.results <- deliverResult{orders, d.Delivery.Deliverer.Deliver(b.ctx, orders)}
		notify(d.wake)
	}()
}

// end waits for the batches, at most finishMax. The next owner finds what they leave.
func (d *deliverMode) end(ctx context.Context) {
	defer d.batches.abandon()
	timer := d.Clock.NewTimer(finishMax)
	defer timer.Stop()
	for d.batches.running > 0 {
		select {
		case r := <-d.batches.results:
			d.settle(ctx, &r, d.now())
		case <-timer.C():
			d.batches.abandon()
		}
	}
	for id := range d.waiting {
		d.acquired.Delete(id)
	}
	d.stats.stuck.Store(0)
}

// settle takes in how a batch went: it forgets tasks that are done, and keeps acquired ones for another try. A task that
// could not even be acquired is taken again after the partition has backed off.
func (d *deliverMode) settle(ctx context.Context, r *deliverResult, now task.Instant) {
	d.batches.running--
	acquired := make(map[task.ID]bool, len(r.left))
	var failed, undelivered error
	var again []*task.Order
	for i := range r.left {
		u := &r.left[i]
		switch {
		case u.Acquired:
			undelivered = cmp.Or(undelivered, u.Err)
			acquired[u.Order.Task.ID] = true
			d.retryLater(&u.Order, u.Err, now)
		case u.Err == nil: // another process has it
			d.checkAt(&u.Order.Task, d.abandonedAt(&u.Order.Task, now))
		case isPermanent(u.Err):
			_ = d.retryable(ctx, d.partition, u.Err)
			d.checkAt(&u.Order.Task, now.Add(brokenRowPause))
		default:
			failed = u.Err
			again = append(again, &u.Order)
		}
	}
	for i := range r.orders {
		if id := r.orders[i].Task.ID; !acquired[id] {
			d.acquired.Delete(id)
		}
	}
	for _, o := range again { // the next scan may fail as well
		d.addOrder(o)
	}
	if failed != nil {
		d.backOff(ctx, failed)
		return
	}
	d.breaker.Worked() // a pause that other batches need is not cut short
	if len(acquired) > 0 {
		d.countFailure(d.partition, undelivered)
		d.warn(ctx, "tasks not delivered, trying again", undelivered,
			slog.String("partition", d.partition.String()), slog.Int("tasks", len(acquired)))
	}
}

// addOrder puts a task back among those that are to be acquired.
func (d *deliverMode) addOrder(o *task.Order) {
	t := o.Task
	d.buffer.add(entry{at: d.delayed(t.WakeRow.At), id: t.ID, row: &t, mustRead: !o.First, early: true, sends: true})
}

// checkAt has a row checked at an instant. A foreign partition leaves that to the owner.
func (d *deliverMode) checkAt(t *task.Task, at task.Instant) {
	if !d.foreign {
		d.inFlight.put(d.inFlightAt(t, at))
	}
}

// retryLater has a task sent again after a pause, longer each time that it was acquired. A task that its
// queue refuses for good waits apart, so that it takes no room from others.
func (d *deliverMode) retryLater(o *task.Order, failure error, now task.Instant) {
	id := o.Task.ID
	if errors.Is(failure, queue.ErrUndeliverable) {
		d.acquired.Delete(id)
		d.checkAt(&o.Task, now.Add(undeliverableEvery))
		return
	}
	pause := backoff.Policy{Min: deliverRetryMin, Max: deliverRetryMax}.Pause(d.Clock, int(o.Task.Enqueues)+1)
	d.waiting[id] = o
	d.retries.add(entry{at: now.Add(pause), id: id})
}

// backOff has the partition read and write nothing for a while, because the store refused a read or a write.
func (d *deliverMode) backOff(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	d.partitionFailed(ctx, d.partition, err)
	d.breaker.Failed(d.Clock)
}

// checkInFlight reads rows again that other processes have acquired, or that were to be checked later.
func (d *deliverMode) checkInFlight(ctx context.Context, now task.Instant) error {
	due := d.inFlight.takeDue(now, now.Add(checkRetry), batchRowsMax)
	if len(due) == 0 {
		return nil
	}
	keys, ids := make([]store.WakeKey, len(due)), make([]task.ID, len(due))
	for i, t := range due {
		keys[i] = d.wakeKey(rowKey{t.wakeRowAt, t.id})
		ids[i] = t.id
	}
	wakeups, err := d.Store.Wakeups(ctx, keys)
	if err != nil {
		return err
	}
	rows, err := d.keyedRows(ctx, ids, wakeups)
	if err != nil {
		return err
	}
	for i, t := range due {
		o := &task.Order{Task: rows[i]}
		if o.Task.ID.IsZero() {
			o = &task.Order{Task: wakeups[i], First: true}
		}
		if row := &o.Task; row.ID.IsZero() || row.State.IsEnd() || row.IsBare() {
			d.inFlight.drop(t.id)
		} else if at := d.abandonedAt(row, now); at > now {
			d.checkAt(row, at)
		} else {
			d.inFlight.drop(t.id)
			d.addOrder(o)
		}
	}
	return nil
}

// keyedRows reads the task rows of those wake-up rows whose tasks have one.
func (d *deliverMode) keyedRows(ctx context.Context, ids []task.ID, wakeups []task.Task) ([]task.Task, error) {
	rows := make([]task.Task, len(ids))
	var keyed []task.ID
	var at []int
	for i := range ids {
		if hasTaskRow(&wakeups[i]) {
			keyed, at = append(keyed, ids[i]), append(at, i)
		}
	}
	if len(keyed) == 0 {
		return rows, nil
	}
	found, err := d.taskRows(ctx, d.partition, keyed)
	d.stats.progress.mark(d.Clock)
	if err != nil {
		return nil, err
	}
	for n, i := range at {
		rows[i] = found[n]
	}
	return rows, nil
}

// abandonedAt returns from when on an acquired row may be acquired here: it depends on who acquired it and
// when, and never on when the task was due.
func (d *deliverMode) abandonedAt(t *task.Task, now task.Instant) task.Instant {
	if t.State != task.Acquired || t.Worker == d.Process {
		return now // acquired here, it is not under way, or the caller would not ask
	}
	wait := unknownProcessWait
	switch here, gone := d.Presence(t.Worker); {
	case gone:
		return now
	case here:
		wait = task.AcquireTimeout
	}
	since := t.ClaimedAt
	if isAhead(since, now) {
		since = d.inFlight.firstSeen(t.ID, t.Attempt, now)
	}
	return max(now, since.Add(wait))
}

func (d *deliverMode) takeRetries(now task.Instant) []task.Order {
	taken, _ := d.retries.take(now, 0, batchRowsMax, 0)
	orders := make([]task.Order, len(taken))
	for i, e := range taken {
		orders[i] = *d.waiting[e.id]
		delete(d.waiting, e.id)
	}
	return orders
}

// nextAcquire returns when the next tasks are acquired, and how long before their due times: so long that
// tasks of a steady load share requests and a crowd is ready in time, and so short that few are sent again
// when this process dies, and few cancels come too late. All partitions acquire at the same moments, half of
// deliverLeads apart, so that their writes share requests: at 100/s some 25 rows, which is a request.
func (d *deliverMode) nextAcquire() (at task.Instant, lead time.Duration, ok bool) {
	first, ok := d.buffer.first()
	if !ok {
		return 0, 0, false
	}
	crowd := d.buffer.count(first.Add(deliverLeads*d.Lead), crowdRows*crowdLeadsMax)
	lead = max(deliverLeads*d.Lead, time.Duration(crowd)*d.Lead/crowdRows)
	if d.hasQuota() { // what is acquired early would start together
		return max(first.Add(-d.Lead), d.quota.again), d.Lead, true
	}
	apart := deliverLeads * d.Lead / 2
	at = first.Add(apart - lead)
	return at - at%max(task.Instant(0).Add(apart), 1), lead, true
}

// takeFresh takes tasks that are due from the buffer. Tasks that this process has acquired are not taken
// again.
func (d *deliverMode) takeFresh(ctx context.Context, now task.Instant) (orders []task.Order, err error) {
	at, lead, ok := d.nextAcquire()
	if !ok || now < at && !d.quota.isSet() {
		return nil, nil
	}
	limit := d.acquireStarts(now, lead)
	taken, _ := d.buffer.take(now, lead, limit, limit)
	defer func() { d.returnUnused(limit - len(orders)) }()
	wakeups, ids := make([]task.Task, len(taken)), make([]task.ID, len(taken))
	for i, e := range taken {
		wakeups[i], ids[i] = *e.row, e.id
	}
	rows, err := d.keyedRows(ctx, ids, wakeups)
	if err != nil {
		for _, e := range taken {
			d.buffer.add(e)
		}
		return nil, err
	}
	var drops []task.Order
	for i := range taken {
		o, ok := d.order(&wakeups[i], &rows[i], now)
		if !ok {
			continue
		}
		if o.Event.Kind == task.Drop {
			drops = append(drops, o)
			continue
		}
		if _, known := d.acquired.LoadOrStore(o.Task.ID, struct{}{}); !known {
			orders = append(orders, o)
		}
	}
	return orders, d.drop(ctx, drops, now)
}

// drop ends tasks that a gate drops. One that cannot be ended now is tried again after a moment.
func (d *deliverMode) drop(ctx context.Context, orders []task.Order, now task.Instant) (failed error) {
	if len(orders) == 0 {
		return nil
	}
	for i, r := range d.dispatcher.Dispatch(ctx, orders) {
		switch {
		case r.Err != nil:
			failed = cmp.Or(failed, r.Err)
			d.checkAt(&orders[i].Task, now.Add(checkRetry))
		case r.Done && d.Hooks.Ended != nil:
			d.Hooks.Ended(&r.Task)
		}
	}
	return failed
}

// order returns the order that follows from a wake-up row and the task row, if there is one.
func (d *deliverMode) order(wakeup, row *task.Task, now task.Instant) (o task.Order, ok bool) {
	o = task.Order{Task: *wakeup, First: true, Event: task.Event{Kind: task.Acquire, Worker: d.Process}}
	if hasTaskRow(wakeup) {
		switch store.Conclude(wakeup, row, d.nowWithoutSteps()) {
		case store.Undispatched: // the call that stored it did not get to its task row
		case store.Live:
			o.Task, o.First = *row, false
		case store.Leftover:
			d.leftover = append(d.leftover, leftoverOf(wakeup, row))
			return o, false
		case store.Unclear:
			d.held.unsure = true
			return o, false
		}
	}
	if at := d.abandonedAt(&o.Task, now); at > now {
		d.checkAt(&o.Task, at)
		return o, false
	}
	return o, o.Task.State == task.Acquired || d.gateOrder(&o, now)
}

// gateOrder reports whether a task that was not acquired before is to be dispatched: not if a gate holds it. If a gate drops
// it, gateOrder turns the order into a drop once the task is due.
func (d *deliverMode) gateOrder(o *task.Order, now task.Instant) bool {
	g := d.gateAt(&o.Task, now)
	switch {
	case g == nil:
		return true
	case g.Action == hold.Pause:
		return !d.isPaused(&o.Task, false)
	case o.Task.Due > now:
		d.checkAt(&o.Task, o.Task.Due)
		return false
	}
	o.Event, o.Delivers = dropBy(g), true
	return true
}

// next implements mode.
func (d *deliverMode) next(now task.Instant) (at task.Instant, room <-chan struct{}) {
	at = never
	if check, ok := d.inFlight.next(); ok {
		at = min(at, check)
	}
	if d.batches.running < deliverBatchesMax {
		if retry, ok := d.retries.first(); ok {
			at = min(at, retry)
		}
		if fresh, _, ok := d.nextAcquire(); ok && len(d.waiting) < deliverWaitingMax {
			at, room = min(at, fresh), d.quota.more
		}
	}
	left := d.breaker.Left(d.Clock)
	if left > 0 {
		room = nil
	}
	return max(at, now.Add(left)), room
}

// acquireStarts returns how many tasks a deliver lambda's partition may acquire now.
func (d *deliverMode) acquireStarts(now task.Instant, lead time.Duration) (allowed int) {
	d.quota = quotaWait{}
	if !d.hasQuota() {
		d.stats.heldByQuota.Store(0)
		return batchRowsMax
	}
	waiting := d.buffer.count(now.Add(lead), partitionRowsMax)
	allowed, d.quota = d.takeStarts(min(waiting, batchRowsMax), waiting)
	var held int64
	if d.quota.isSet() {
		held = int64(max(0, d.buffer.count(now, partitionRowsMax)-allowed))
	}
	d.stats.heldByQuota.Store(held)
	return allowed
}

// returnUnused gives back starts for which no task was acquired.
func (d *deliverMode) returnUnused(starts int) {
	if starts > 0 && d.hasQuota() {
		d.Quotas.Return(d.partition, starts)
	}
}
