package inbound

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/envelope"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/catalog"
	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const (
	// A task of a lambda that is not known may be ahead of the catalog: it is looked at a few times, a while
	// apart, before it is set aside.
	unknownTriesMax  = 6
	unknownTryAfter  = 2 * catalog.RefreshEvery
	consumePauseMin  = 100 * time.Millisecond // after the buffer or the store failed
	consumePauseMax  = 30 * time.Second
	retryAfterMin    = time.Second // of a message that the store did not take
	retryAfterMax    = 2 * time.Minute
	fullRetryAfter   = buffer.DelayMax // of a message that could not be set aside
	settleMax        = 20 * time.Second
	consumeBurstMax  = time.Second // worth of tasks that may be taken at once after a quiet time
	consumedBatchMax = 500 * time.Millisecond
)

// Why messages stay in the buffer for now; see Hooks.Left.
const (
	LeftStore   = "store"          // the store did not take it
	LeftUnknown = "unknown_lambda" // its lambda is not known yet
	LeftFull    = "aside_full"     // it is to be set aside, and there is no room for more
)

// Lefts lists them.
func Lefts() []string { return []string{LeftStore, LeftUnknown, LeftFull} }

// Consume takes tasks from the buffer to the store until ctx ends; then it finishes what it has in hand. Nothing
// leaves the buffer before it is in the store or set aside. A message that is good for nothing costs one receive,
// and one that cannot be taken now comes again after a growing while; while the store or the buffer fails all of it pauses.
func (in *Inbound) Consume(ctx context.Context) error {
	if in.Buffering.Buffer == nil {
		<-ctx.Done()
		return nil
	}
	c := &consumer{Inbound: in, pace: pace{rate: in.Buffering.Rate}, tasksEach: 1}
	var group errgroup.Group
	for range in.Buffering.Concurrency {
		group.Go(func() error {
			c.run(ctx)
			return nil
		})
	}
	err := group.Wait()
	closing, cancel := clock.Within(context.WithoutCancel(ctx), in.Clock, bufferSendMax)
	defer cancel()
	return errors.Join(err, in.front.Close(closing))
}

// consumer is one Consume.
type consumer struct {
	*Inbound
	pace pace

	mu        sync.Mutex // guards all below
	pause     time.Duration
	until     task.Instant
	tasksEach float64 // how many tasks a message has, on average
}

func (c *consumer) run(ctx context.Context) {
	for ctx.Err() == nil {
		limit, tasks := c.next()
		if clock.Sleep(ctx, c.Clock, c.pace.reserve(c.Clock.Now(), tasks)) != nil || c.rest(ctx) != nil {
			return
		}
		messages, err := c.Buffering.Buffer.Receive(ctx, limit)
		if err != nil {
			c.pace.spend(-tasks)
			if ctx.Err() != nil || errors.Is(err, buffer.ErrClosed) {
				return
			}
			c.trouble(ctx, fmt.Errorf("receive from the inbound buffer: %w", err))
			continue
		}
		n := c.handle(context.WithoutCancel(ctx), messages)
		c.pace.spend(n - tasks)
		c.learn(len(messages), n)
	}
}

// next is how many messages to ask for, and how many tasks these may have: few when the rate is low,
// so that it is steady.
func (c *consumer) next() (messages, tasks int) {
	c.mu.Lock()
	each := c.tasksEach
	c.mu.Unlock()
	messages = buffer.BatchMax
	if c.pace.rate > 0 {
		messages = min(messages, max(1, int(c.pace.rate*consumedBatchMax.Seconds()/each)))
	}
	return messages, max(1, int(float64(messages)*each))
}

func (c *consumer) learn(messages, tasks int) {
	if messages == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	const weight = 0.2
	c.tasksEach = max(1, (1-weight)*c.tasksEach+weight*float64(tasks)/float64(messages))
}

// rest waits while consuming pauses.
func (c *consumer) rest(ctx context.Context) error {
	c.mu.Lock()
	until := c.until
	c.mu.Unlock()
	return clock.Sleep(ctx, c.Clock, until.Sub(c.Clock.Now()))
}

// trouble makes all of the consumer pause, longer each time.
func (c *consumer) trouble(ctx context.Context, err error) {
	c.mu.Lock()
	c.pause = min(max(2*c.pause, consumePauseMin), consumePauseMax)
	pause := jittered(c.Clock, c.pause)
	c.until = c.Clock.Now().Add(pause)
	c.mu.Unlock()
	if c.Hooks.Trouble != nil {
		c.Hooks.Trouble(ctx, err, pause)
	}
}

func (c *consumer) well() {
	c.mu.Lock()
	c.pause = 0
	c.mu.Unlock()
}

// pace keeps tasks to a rate: each one moves the moment from which on the next may come.
type pace struct {
	rate float64 // tasks a second; none when not positive

	mu   sync.Mutex // guards next
	next task.Instant
}

// reserve accounts for n tasks and returns how long to wait before taking them.
func (p *pace) reserve(now task.Instant, n int) time.Duration {
	if p.rate <= 0 {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = max(p.next, now.Add(-consumeBurstMax))
	wait := p.next.Sub(now)
	p.next = p.next.Add(p.worth(n))
	return wait
}

// spend corrects a reservation.
func (p *pace) spend(more int) {
	if p.rate <= 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next = p.next.Add(p.worth(more))
}

func (p *pace) worth(n int) time.Duration {
	return time.Duration(float64(n) / p.rate * float64(time.Second))
}

// handle takes in what is in messages, and deletes those of which nothing is left to do. It returns how many tasks
// they have.
func (c *consumer) handle(ctx context.Context, messages []buffer.Message) (tasks int) {
	if len(messages) == 0 {
		return 0
	}
	all := make([]delivery, len(messages))
	var arrivals []arrival
	for i, m := range messages {
		d := &all[i]
		d.message = m
		e, err := envelope.Open(c.inboundSealer, m.Body)
		if err != nil {
			d.broken = err
			tasks++
			continue
		}
		d.tries, d.tasks = int(e.Tries)+m.Receives, len(e.Tasks)
		for _, t := range e.Tasks {
			arrivals = append(arrivals, arrival{BufferedTask: t, tries: d.tries})
		}
	}
	tasks += len(arrivals)
	fates := c.takeIn(ctx, arrivals)
	fatesAll := fates
	var failed error
	for i := range all {
		n := all[i].tasks
		failed = cmp.Or(failed, c.settleDelivery(ctx, &all[i], arrivals[:n], fates[:n]))
		arrivals, fates = arrivals[n:], fates[n:]
	}
	if err := c.conclude(ctx, all); failed == nil {
		failed = err
	}
	switch {
	case failed == nil:
		c.well()
	case !anyTaken(fatesAll): // a single task that the store never takes is no reason for all to wait
		c.trouble(ctx, failed)
	}
	return tasks
}

func anyTaken(fates []fate) bool {
	return slices.ContainsFunc(fates, func(f fate) bool { return f.verdict == taken })
}

// delivery is a message in hand.
type delivery struct {
	message buffer.Message
	broken  error // why it was not opened
	tries   int
	tasks   int

	again time.Duration // when it is to come again; 0: it is done with
}

// settleDelivery sets aside what is to be, and decides whether the message comes again. Its error is trouble with
// the store.
func (c *consumer) settleDelivery(ctx context.Context, d *delivery, arrivals []arrival, fates []fate) error {
	if d.broken != nil {
		_, err := c.setAside(ctx, d, brokenMessage(d.message.Body, d.broken), d.broken)
		return err
	}
	var failed error
	var rest []*kinesinv1.BufferedTask
	for i, f := range fates {
		left := true
		switch f.verdict {
		case taken:
			left = false
		case rejected:
			var err error
			left, err = c.setAside(ctx, d, refusedTask(arrivals[i].BufferedTask, f), f.err)
			failed = cmp.Or(failed, err)
		case unknown:
			c.leave(d, LeftUnknown, unknownTryAfter)
		case later:
			failed = cmp.Or(failed, f.err)
			c.leave(d, LeftStore, c.retryAfter(d.tries))
		}
		if left {
			rest = append(rest, arrivals[i].BufferedTask)
		}
	}
	if len(rest) > 0 && len(rest) < len(fates) {
		c.splitOff(ctx, d, rest)
	}
	return failed
}

func (c *consumer) leave(d *delivery, why string, after time.Duration) {
	if d.again == 0 && c.Hooks.Left != nil {
		c.Hooks.Left(why, 1)
	}
	d.again = max(d.again, after)
}

func (c *consumer) retryAfter(tries int) time.Duration {
	return jittered(c.Clock, min(retryAfterMin<<min(max(tries-1, 0), 16), retryAfterMax))
}

// splitOff puts the tasks of a message that are left over back under way in a message of their own, so that the
// others are not taken in again with them. If that fails they all come again, which is no harm.
func (c *consumer) splitOff(ctx context.Context, d *delivery, rest []*kinesinv1.BufferedTask) {
	body, err := envelope.Seal(c.inboundSealer, rest, uint32(d.tries))
	if err != nil {
		return
	}
	ctx, cancel := clock.Within(ctx, c.Clock, settleMax)
	defer cancel()
	sent := c.Buffering.Buffer.Send(ctx, []buffer.Outgoing{{Body: body, Delay: min(d.again, buffer.DelayMax)}})
	if outcomeOf(sent, 0, errNoOutcome) == nil {
		d.again = 0
	}
}

// conclude deletes the messages that are done with and makes the others come again.
func (c *consumer) conclude(ctx context.Context, all []delivery) error {
	ctx, cancel := clock.Within(ctx, c.Clock, settleMax)
	defer cancel()
	var done []buffer.Message
	again := map[time.Duration][]buffer.Message{} // by whole seconds, so that few requests do
	for i := range all {
		d := &all[i]
		if d.again == 0 {
			done = append(done, d.message)
			continue
		}
		after := max(d.again.Truncate(time.Second), time.Second)
		again[after] = append(again[after], d.message)
	}
	var errs []error
	if len(done) > 0 {
		errs = append(errs, c.Buffering.Buffer.Delete(ctx, done))
	}
	for after, messages := range again {
		errs = append(errs, c.Buffering.Buffer.Retry(ctx, messages, after))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("settle messages of the inbound buffer: %w", err) // they come again when their visibility ends
	}
	return nil
}

// arrival is a task that comes out of the buffer.
type arrival struct {
	*kinesinv1.BufferedTask
	tries  int  // how often it came, this time included
	forced bool // by a person who knows that it may have run already
}

// verdict is what became of an arrival.
type verdict uint8

const (
	taken    verdict = iota // it is in the store
	later                   // the store did not take it
	unknown                 // its lambda is not known
	rejected                // it will never be taken as it is
)

type fate struct {
	verdict verdict
	reason  string // of a rejection
	err     error
}

// takeIn stores arrivals, in the same way as Schedule does, with a fate for each.
func (in *Inbound) takeIn(ctx context.Context, arrivals []arrival) []fate {
	if len(arrivals) == 0 {
		return nil
	}
	defer in.intakes.begin()()
	b := newIntake(in, len(arrivals))
	b.issued, b.errs = make([]string, len(arrivals)), make([]error, len(arrivals))
	refreshed := false
	for i := range arrivals {
		b.issued[i] = arrivals[i].Id
		err := b.admitArrival(ctx, i, &arrivals[i])
		if errors.Is(err, catalog.ErrUnknown) && arrivals[i].tries >= unknownTriesMax && !refreshed {
			refreshed = true // before it is set aside
			if refreshErr := in.Catalog.Refresh(ctx); refreshErr != nil {
				b.errs[i] = fmt.Errorf("%w: %w", store.ErrUnknown, refreshErr)
				continue
			}
			err = b.admitArrival(ctx, i, &arrivals[i])
		}
		b.errs[i] = err
	}
	waiting := b.waitingOps()
	b.store(ctx)
	b.removeOvertaken(ctx, waiting)
	b.announce(ctx)
	fates := make([]fate, len(arrivals))
	for i, err := range b.errs {
		fates[i] = fateOf(err, &arrivals[i])
	}
	b.consumed(arrivals, fates)
	return fates
}

func (b *intake) consumed(arrivals []arrival, fates []fate) {
	n, age := 0, time.Duration(0)
	for i := range fates {
		if fates[i].verdict == taken {
			n++
			age = max(age, b.now.Sub(task.Instant(arrivals[i].AcceptedMicros)))
		}
	}
	if n > 0 && b.Hooks.Consumed != nil {
		b.Hooks.Consumed(n, age)
	}
}

// admitArrival validates an arrival and plans its write. Its id says what the server that issued it decided, or who sent it
// to the buffer; the item says the rest.
func (b *intake) admitArrival(ctx context.Context, i int, a *arrival) error {
	token, l, err := b.openIssued(a.Id)
	if err != nil {
		return err
	}
	item := a.Item
	switch {
	case l.Deleting:
		return fmt.Errorf("%w %q: it is being deleted", catalog.ErrUnknown, l.Name)
	case item.Lambda != l.Name:
		return &notOursError{"its id is of lambda " + l.Name + ", and it asks for another"}
	case item.Key != "":
		return invalid("a task with a key cannot come through the buffer: schedule it through the API")
	case token.ID.IsDerived() || token.ID[6]>>4 != 7:
		return invalid("id: want a UUID version 7")
	case isAhead(token.ID, b.now):
		return invalid("id: its time is more than %v ahead of the server's clock", requestIDAheadMax)
	case token.Due > b.now.Add(b.Horizon):
		return b.tooFar()
	}
	t, err := b.build(l, item)
	if err != nil {
		return err
	}
	if t.Partition.Priority != token.Partition.Priority {
		return &notOursError{"its id is of another priority than it asks for"}
	}
	if err := b.checkStale(token, l, a); err != nil {
		return err
	}
	t.ID, t.Due = token.ID, token.Due.CeilMillis()
	t.Created = min(max(task.Instant(a.AcceptedMicros), b.now.Add(-bufferLife)), b.now)
	return b.plan(ctx, i, l, &t, item.Payload)
}

// openIssued finds the lambda of an id. One that it does not know may be known soon.
func (b *intake) openIssued(id string) (task.Token, *catalog.Entry, error) {
	if task.IsInboundToken(id) {
		token, l, err := b.openInbound(id)
		if errors.Is(err, task.ErrBadID) {
			err = &notOursError{"its id was not issued with our inbound key"}
		}
		return token, l, err
	}
	token, err := b.Sealer.Open(id)
	if err != nil {
		return token, nil, &notOursError{"its id was not issued here"}
	}
	l := b.Catalog.ByRef(token.Partition.Lambda)
	if l == nil {
		return token, nil, fmt.Errorf("%w: the one it was accepted for is gone, or was created just now", catalog.ErrUnknown)
	}
	if int(token.Partition.Priority) >= len(l.Priorities) {
		return token, nil, &notOursError{"its id is of a priority that the lambda does not have"}
	}
	return token, l, nil
}

// checkStale refuses what has come before and may have run since: the row that would tell is kept for the lambda's
// retention only.
func (b *intake) checkStale(token task.Token, l *catalog.Entry, a *arrival) error {
	if a.tries <= 1 || a.forced {
		return nil
	}
	if b.now < max(token.Due, task.Instant(a.AcceptedMicros)).Add(l.Retention) {
		return nil
	}
	return &staleError{fmt.Sprintf("it came again later than %v, the retention of its lambda, after it was due: it may have run, and no row tells; "+
		"a retry runs it", l.Retention)}
}

// notOursError is an arrival that nobody may have sent.
type notOursError struct{ text string }

func (e *notOursError) Error() string { return e.text }

// staleError is an arrival that may have run already.
type staleError struct{ text string }

func (e *staleError) Error() string { return e.text }

// waitingOps are the ops that put waiting rows.
func (b *intake) waitingOps() (at []int) {
	for k := range b.ops {
		if b.ops[k].Kind == store.PutWaiting {
			at = append(at, b.itemOf[k])
		}
	}
	return at
}

// removeOvertaken takes waiting rows back whose task has a task row: it was cancelled while it was in the
// buffer, or came a second time after it was dispatched. Who cancels puts the task row and then looks for a waiting row, here it is
// the other way round, so that at least one of the two sees the other's.
func (b *intake) removeOvertaken(ctx context.Context, items []int) {
	places := b.places()
	var ids []task.ID
	var at []int
	for _, i := range items {
		if k, open := places[i]; open && b.errs[i] == nil {
			ids, at = append(ids, b.ops[k].Task.ID), append(at, k)
		}
	}
	if len(ids) == 0 {
		return
	}
	rows, err := b.Store.Tasks(ctx, ids)
	if err != nil {
		for _, k := range at {
			b.errs[b.itemOf[k]] = fmt.Errorf("%w: %w", store.ErrUnknown, err)
		}
		return
	}
	var removals []store.Op
	var of []int
	for n := range rows {
		if !rows[n].ID.IsZero() {
			k := at[n]
			b.ops[k].Kind = 0
			removals = append(removals, store.Op{Kind: store.DeleteWaiting, Task: b.ops[k].Task})
			of = append(of, b.itemOf[k])
		}
	}
	outcomes, err := b.Store.Apply(ctx, removals)
	for n, i := range of {
		if outcome := outcomeOf(outcomes, n, err); outcome != nil && !errors.Is(outcome, store.ErrConflict) {
			b.errs[i] = outcome
		}
	}
}

// fateOf is what an error of the intake means for an arrival.
func fateOf(err error, a *arrival) fate {
	if err == nil {
		return fate{verdict: taken}
	}
	var foreign *notOursError
	var stale *staleError
	switch {
	case errors.Is(err, catalog.ErrUnknown):
		if a.tries < unknownTriesMax && !a.forced {
			return fate{verdict: unknown, err: err}
		}
		return fate{rejected, ReasonUnknownLambda, fmt.Errorf("%w; create it and retry", err)}
	case errors.As(err, &foreign):
		return fate{rejected, ReasonNotOurs, err}
	case errors.As(err, &stale):
		return fate{rejected, ReasonStale, err}
	case errors.Is(err, store.ErrMalformed):
		return fate{rejected, ReasonInvalid, err}
	}
	switch problem(err).Reason {
	case kinesinv1.Reason_REASON_TOO_LARGE:
		return fate{rejected, ReasonTooLarge, err}
	case kinesinv1.Reason_REASON_INVALID, kinesinv1.Reason_REASON_KEY_CONFLICT, kinesinv1.Reason_REASON_UNSUPPORTED:
		return fate{rejected, ReasonInvalid, err}
	}
	return fate{verdict: later, err: err}
}

// problemOf is a fate as the answer to a call.
func (f *fate) problem() *kinesinv1.Problem {
	switch f.verdict {
	case taken:
		return nil
	case rejected:
		return api.ProblemOf(invalid("%s: %v", f.reason, f.err))
	case later, unknown:
	}
	return problem(f.err)
}
