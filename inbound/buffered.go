package inbound

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/api/envelope"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/gather"
	"github.com/kinesin-io/kinesin/task"
)

// With a buffer there are two ways to accept a task. One that has time goes to the buffer, and Consume takes
// it to the store at a steady rate. The store takes at once what is due soon and what has a key, since only
// the store can say whether a key is taken; and everything else while the buffer refuses or is slow, so that
// accepting needs one of the two and not both.

// Defaults of Buffering.
const (
	RateDefault           = 2000
	ConcurrencyDefault    = 4
	BufferLingerDefault   = 3 * time.Millisecond
	BufferPatienceDefault = 80 * time.Millisecond
	BufferWaitDefault     = 500 * time.Millisecond
)

const (
	// bufferLife is how long a message lives in the buffer at most, which is what SQS keeps at most, and a
	// day for clocks and for what was set aside.
	bufferLife = 15 * 24 * time.Hour
	// bufferEnough tasks wait no longer than Linger for others: a hundred requests for a thousand tasks are
	// few.
	bufferEnough = 10
	// bufferSendsMax is how many sends are under way at a time. What comes meanwhile is packed.
	bufferSendsMax = 8
	// bufferSendMax bounds a send whose callers may be gone.
	bufferSendMax = 10 * time.Second
	// The buffer is left alone for a while after it failed, so that not every call waits for it in vain.
	bufferRestMin = time.Second
	bufferRestMax = 30 * time.Second
)

// Buffering says how tasks get through the buffer. Its zero value is a server without one.
type Buffering struct {
	// Buffer holds what was accepted and is not in the store; nil: there is none.
	Buffer buffer.Buffer
	// Rate bounds how many tasks a second Consume takes to the store, on average; a message is taken in one
	// piece. 0: RateDefault; negative: no bound.
	Rate float64
	// Concurrency is how many receives run at a time. 0: ConcurrencyDefault.
	Concurrency int
	// Linger is how long a Schedule call waits for others to share its message. 0: BufferLingerDefault;
	// negative: none.
	Linger time.Duration
	// Patience is how much longer it waits while others keep coming, until ten tasks go together; who calls
	// only after each answer is not kept for it. 0: BufferPatienceDefault; negative, or without Linger: none.
	Patience time.Duration
	// Wait is after which time a Schedule call writes to the store what the buffer has not acknowledged. 0:
	// BufferWaitDefault.
	Wait time.Duration
	// Limits of what is set aside; beyond them it stays in the buffer. 0: RejectedMaxDefault,
	// RejectedBytesMaxDefault.
	RejectedMax      int
	RejectedBytesMax int64
}

func (b Buffering) withDefaults() Buffering {
	b.Rate = cmp.Or(b.Rate, RateDefault)
	b.Concurrency = cmp.Or(max(b.Concurrency, 0), ConcurrencyDefault)
	b.Linger = max(0, cmp.Or(b.Linger, BufferLingerDefault))
	b.Patience = max(0, cmp.Or(b.Patience, BufferPatienceDefault))
	if b.Linger == 0 {
		b.Patience = 0
	}
	b.Wait = cmp.Or(b.Wait, BufferWaitDefault)
	b.RejectedMax = cmp.Or(b.RejectedMax, RejectedMaxDefault)
	b.RejectedBytesMax = cmp.Or(b.RejectedBytesMax, RejectedBytesMaxDefault)
	return b
}

// Ways by which tasks are accepted; see Hooks.Way.
const (
	WayBuffer   = "buffer"   // acknowledged by the buffer
	WayStore    = "store"    // acknowledged by the store: due soon, with a key, or there is no buffer
	WayFallback = "fallback" // acknowledged by the store because the buffer refused or was slow
	WayDirect   = "direct"   // sent to the buffer by a client itself; told when it is in the store
	WayQueue    = "queue"    // acknowledged by the queue of its deliver lambda
)

// Ways lists them.
func Ways() []string { return []string{WayBuffer, WayStore, WayFallback, WayDirect, WayQueue} }

// front is how Schedule calls use the buffer.
type front struct {
	*gather.Gatherer[*kinesinv1.BufferedTask]
	rest rest
}

func newFront(in *Inbound) *front {
	c := in.Buffering
	return &front{rest: rest{min: bufferRestMin, max: bufferRestMax}, Gatherer: gather.New(gather.Config[*kinesinv1.BufferedTask]{
		Clock: in.Clock, Send: in.sendToBuffer, Bytes: envelope.Bytes,
		ItemsMax: buffer.BatchMax * envelope.TasksMax, BytesMax: c.Buffer.BodyBytesMax(),
		SendsMax: bufferSendsMax, Linger: c.Linger, Patience: c.Patience, Enough: bufferEnough, PendingMax: 2 * ScheduleItemsMax,
	})}
}

// rest is for how long something is left alone that failed: longer each time.
type rest struct {
	min, max time.Duration

	mu    sync.Mutex // guards all below
	pause time.Duration
	until task.Instant
}

// left is how long it is still left alone; 0 when it is not.
func (r *rest) left(k clock.Clock) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(0, r.until.Sub(clock.Steady(k)))
}

// failed begins a rest and returns how long it is.
func (r *rest) failed(k clock.Clock) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pause = min(max(2*r.pause, r.min), r.max)
	pause := jittered(k, r.pause)
	r.until = clock.Steady(k).Add(pause)
	return pause
}

// succeeded ends the rest, and has the next one be short.
func (r *rest) succeeded() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pause, r.until = 0, 0
}

// sendToBuffer packs tasks and sends them, with an outcome for each.
func (in *Inbound) sendToBuffer(ctx context.Context, tasks []*kinesinv1.BufferedTask) []error {
	ctx, cancel := clock.Within(ctx, in.Clock, bufferSendMax)
	defer cancel()
	results := make([]error, 0, len(tasks))
	messages, err := envelope.Pack(in.inboundSealer, tasks, in.Buffering.Buffer.BodyBytesMax())
	if err != nil {
		return append(results, repeat(err, len(tasks))...)
	}
	outgoing := make([]buffer.Outgoing, len(messages))
	for i, m := range messages {
		outgoing[i].Body = m.Body
	}
	sent := in.Buffering.Buffer.Send(ctx, outgoing)
	for i, m := range messages {
		results = append(results, repeat(outcomeOf(sent, i, errNoOutcome), m.Tasks)...)
	}
	return results
}

var errNoOutcome = errors.New("the buffer gave no outcome")

func repeat(err error, n int) []error {
	all := make([]error, n)
	for i := range all {
		all[i] = err
	}
	return all
}

// buffer hands to the buffer what has time. What it acknowledges needs no rows here; the rest stays for the
// store.
func (b *intake) buffer(ctx context.Context) {
	if b.front == nil {
		return
	}
	var some []*incoming
	var tasks []*kinesinv1.BufferedTask
	for _, c := range b.those(b.hasTime) {
		if t := b.buffered(c.lambda, c.task, c.item.Payload); envelope.Fits(t, b.Buffering.Buffer.BodyBytesMax()) {
			some, tasks = append(some, c), append(tasks, t)
			c.way = WayFallback // unless it is acknowledged
		}
	}
	if len(some) == 0 || b.front.rest.left(b.Clock) > 0 {
		return
	}
	within, cancel := clock.Within(ctx, b.Clock, b.Buffering.Wait)
	defer cancel()
	isWell := true
	for k, err := range b.front.Do(within, tasks) {
		if isWell = isWell && err == nil; err == nil {
			c := some[k]
			c.way, c.id, c.chain = WayBuffer, tasks[k].Id, nil
		}
	}
	if isWell {
		b.front.rest.succeeded()
	} else {
		b.front.rest.failed(b.Clock)
	}
}

// hasTime reports whether a task may go through the buffer.
func (b *intake) hasTime(c *incoming) bool {
	return c.isOpen() && c.isAlone() && c.task.Enqueued.IsZero() && c.task.Due > b.now.Add(b.Near)
}

// buffered is a task as it goes through the buffer, and as it is set aside.
func (in *Inbound) buffered(l *catalog.Entry, t *task.Task, payload []byte) *kinesinv1.BufferedTask {
	return &kinesinv1.BufferedTask{
		Id: in.Sealer.Seal(task.TokenOf(t)), AcceptedMicros: int64(t.Created),
		Item: &kinesinv1.ScheduleItem{
			Lambda: l.Name, Priority: l.Priorities[t.Partition.Priority], Collection: t.Collection, Payload: payload,
			MaxAttempts: t.Overrides.MaxAttempts, TimeoutMicros: t.Overrides.Timeout.Microseconds(),
			BackoffMinMicros: t.Overrides.BackoffMin.Microseconds(), BackoffMaxMicros: t.Overrides.BackoffMax.Microseconds(),
			Traceparent: t.Traceparent,
		},
	}
}

// open reads a public id of either form. An id that was sent straight to the buffer names its lambda, which
// may have been created again since: then it names a task that is not there.
func (in *Inbound) open(id string) (task.Token, error) {
	if !task.IsInboundToken(id) {
		return in.Sealer.Open(id)
	}
	token, _, err := in.openInbound(id)
	return token, err
}

func (in *Inbound) openInbound(id string) (task.Token, *catalog.Entry, error) {
	if in.inboundSealer == nil {
		return task.Token{}, nil, task.ErrBadID
	}
	q, err := in.inboundSealer.Open(id)
	if err != nil {
		return task.Token{}, nil, err
	}
	l, err := in.Catalog.Lambda(q.Lambda)
	if err != nil {
		return task.Token{}, nil, err
	}
	priority, err := l.Priority(q.Priority)
	if err != nil {
		return task.Token{}, nil, err
	}
	return task.Token{ID: q.ID, Due: q.Due, Partition: partitionOf(l, priority, q.ID)}, l, nil
}

// catchUpFor makes changes known that ids may rest on which do not say the partition of their tasks.
func (in *Inbound) catchUpFor(ctx context.Context, ids []string) error {
	if !in.Shared || in.Catalog.IsFresh(in.Catalog.Since()) || !slices.ContainsFunc(ids, task.IsInboundToken) {
		return nil
	}
	return in.Catalog.Refresh(ctx)
}

// mayBeBuffered reports whether a task without a row may still be in the buffer. Its row would
// stay for its lambda's retention after it ended, and no message lives longer than bufferLife.
func (in *Inbound) mayBeBuffered(t task.Token) bool {
	if in.Buffering.Buffer == nil || t.ID.IsDerived() { // a task with a key never goes there
		return false
	}
	l := in.Catalog.ByRef(t.Partition.Lambda)
	if l == nil {
		return false
	}
	now, made := in.Clock.Now(), madeAt(t.ID)
	return now < max(t.Due, made).Add(l.Retention) && now < made.Add(bufferLife)
}

// acceptedTask is what is known of a task that may be in the buffer.
func acceptedTask(t task.Token) task.Task {
	return task.Task{
		ID: t.ID, Partition: t.Partition, Due: t.Due, Created: madeAt(t.ID), State: task.Accepted,
		WakeRow: task.WakeRow{At: t.Due, Seq: 1}, // as it comes out of the buffer
	}
}

// jittered is up to d, and at least half of it.
func jittered(k clock.Clock, d time.Duration) time.Duration {
	return d/2 + time.Duration(float64(d/2)*(float64(k.Uint64())/math.MaxUint64))
}
