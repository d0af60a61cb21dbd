// Package dispatcher moves due tasks from the store to their lambdas' queues, or straight to a waiting
// worker. It owns the order of the two steps that make this safe, and the bound on the messages in a queue.
// First comes the conditional write that lets one dispatcher win, then the message or the direct hand-off.
// Where the queue is this process's memory the message goes alone, and its claim is that write. The package
// calls the store and the queue; it never decides when a task is due and never talks to workers.
package dispatcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Bounds of the dispatcher.
const (
	// DepthMaxDefault is how many messages are put on a queue at most.
	DepthMaxDefault = 8192
	// sendTriesMax and sendRetryEvery bound how long a message waits for room. After that its task, which is
	// enqueued already, is sent again by its wake-up.
	sendTriesMax   = 20
	sendRetryEvery = 50 * time.Millisecond
	// patientBefore is how long before its due time the write of a task may share another's sync.
	patientBefore = 6 * store.PatientMax
)

// Queue is what the dispatcher needs of a queue.
type Queue interface {
	Send(ctx context.Context, messages []queue.Message) []error
	Depth(ctx context.Context, name queue.Name) (queue.Depth, error)
	Room(name queue.Name) <-chan struct{}
	Durable() bool
}

// Policies knows the lambdas of tasks.
type Policies interface {
	// PolicyOf returns the policy of a task; false when its lambda is not known.
	PolicyOf(t *task.Task) (task.Policy, bool)
	// PrioritiesBefore returns how many priorities of a task's lambda, from the highest on, have tasks that
	// it must not overtake.
	PrioritiesBefore(t *task.Task) uint8
}

// Config is what a Dispatcher is made of. Everything is required up to Log.
type Config struct {
	Store    store.Writer
	Queue    Queue
	Policies Policies
	Clock    clock.Clock
	Log      *slog.Logger
	Matcher  Matcher // nil: all tasks go through their queues
	DepthMax int     // messages per queue; 0: DepthMaxDefault
	// Starts returns how many tasks of a queue its quota lets start within a time; false where it has none.
	// nil: no queue has one.
	Starts func(name queue.Name, within time.Duration) (starts int, limited bool)
	// Occurrences decides about occurrences of crons, and stores those that follow. nil: there are none.
	Occurrences func(ctx context.Context, tasks []*task.Task) []task.Verdict
	Hooks       Hooks
}

// Hooks are called when something happened. A nil hook is not called.
type Hooks struct {
	// Lateness: a task's first message was sent, that long after its due time.
	Lateness func(t *task.Task, late time.Duration)
	// Unsent: n tasks are enqueued whose messages could not be sent; their wake-ups send them again.
	Unsent func(n int)
}

// Dispatcher carries out orders. It is safe for concurrent use and keeps no state but cached depths of
// queues.
type Dispatcher struct {
	Config

	depths depthCache
}

// New returns a dispatcher.
func New(c Config) *Dispatcher {
	c.DepthMax = cmp.Or(c.DepthMax, DepthMaxDefault)
	return &Dispatcher{Config: c, depths: depthCache{clock: c.Clock, of: map[queue.Name]cachedDepth{}}}
}

// Dispatch carries out orders and returns the result of each. A first order whose message could not be sent
// fails, so that it is tried again soon; tasks of other orders are sent again after their enqueue timeout.
func (d *Dispatcher) Dispatch(ctx context.Context, orders []task.Order) []task.Dispatched {
	b := batch{results: make([]task.Dispatched, len(orders)), ops: make([]store.Op, 0, len(orders))}
	orders = d.decideOccurrences(ctx, orders, b.results)
	now := d.Clock.Now()
	for i := range orders {
		if b.results[i].Again.IsZero() && b.results[i].Err == nil {
			d.plan(ctx, &b, i, &orders[i], now)
		}
	}
	d.apply(ctx, &b)
	unsent := d.send(ctx, b.messages)
	for i := range b.results {
		r := &b.results[i]
		if err := unsent[r.Task.ID]; err != nil && orders[i].First {
			r.Done, r.Err = false, fmt.Errorf("send message of task %s: %w", r.Task.ID, err)
		}
	}
	return b.results
}

// apply makes the writes of a batch, before anything is sent.
func (d *Dispatcher) apply(ctx context.Context, b *batch) {
	if len(b.ops) == 0 {
		return
	}
	outcomes := store.Outcomes(ctx, d.Store, b.ops)
	for _, w := range b.writes {
		b.settle(&w, outcomes[w.op])
	}
}

// batch is one call of Dispatch.
type batch struct {
	results  []task.Dispatched
	ops      []store.Op
	writes   []write
	messages []queue.Message
	asked    bool // whether messages wait in the queue, which all orders of a batch share
	queued   bool // they do, so that all orders go through the queue
}

// write is the change of one order's task row.
type write struct {
	order, op int // indexes in the call's orders and in ops
	effect    task.Effect
	slot      Slot // of a direct hand-off; else nil
}

// plan adds the writes of one order to the batch, or its message.
func (d *Dispatcher) plan(ctx context.Context, b *batch, i int, o *task.Order, now task.Instant) {
	policy, known := d.Policies.PolicyOf(&o.Task)
	if !known {
		b.results[i].Err = unknownLambda(&o.Task)
		return
	}
	event := o.Event
	var slot Slot
	expired := o.Task.IsExpired(now) // then an enqueue ends it
	if !expired {
		slot = d.match(ctx, b, o, &event)
	}
	if slot == nil && !expired && d.sendsFirst(o, now) {
		queued := o.Task.Queued(now)
		b.results[i] = task.Dispatched{Task: queued, Done: true}
		b.messages = append(b.messages, queue.Message{Task: queued})
		return
	}
	next, effect, err := o.Task.Apply(event, now, policy)
	if err != nil {
		if slot != nil {
			slot.Settle(&o.Task, err)
		}
		return // the task moved on, so the order is pointless
	}
	if o.First && next.State.IsEnd() && o.Delivers && next.Key == "" {
		b.ops = append(b.ops, store.EndUndelivered(next, &o.Task)...)
		b.writes = append(b.writes, write{order: i, op: len(b.ops) - 1}) // the row that follows is the result
		return
	}
	b.writes = append(b.writes, write{order: i, op: len(b.ops), effect: effect, slot: slot})
	patient := next.Due > now.Add(patientBefore)
	switch {
	case o.First && next.State.IsEnd():
		b.ops = append(b.ops, store.EndWaiting(next, &o.Task)...)
		return
	case o.First:
		b.ops = append(b.ops, store.Op{Kind: store.PutTask, Task: next, Patient: patient})
		return
	}
	b.ops = store.AppendChange(b.ops, &next, false, patient)
}

func unknownLambda(t *task.Task) error {
	return fmt.Errorf("task %s: its lambda is not known here", t.ID)
}

// settle turns the outcome of a write into a result, and a message if the write enqueued the task.
func (b *batch) settle(w *write, outcome error) {
	r, next := &b.results[w.order], &b.ops[w.op].Task
	if w.slot != nil {
		w.slot.Settle(next, outcome)
	}
	var conflict *store.ConflictError
	switch {
	case outcome == nil:
		r.Task, r.Done = *next, true
		if w.effect == task.Send {
			b.messages = append(b.messages, queue.Message{Task: *next})
		}
	case errors.As(outcome, &conflict):
		if conflict.Task != nil {
			r.Task = *conflict.Task
		}
	default:
		r.Err = fmt.Errorf("change task %s: %w", next.ID, outcome)
	}
}

// Remove deletes wake-up rows that no task needs. Losing such a delete is harmless: the next full scan of the
// partition finds the row again.
func (d *Dispatcher) Remove(ctx context.Context, rows []task.Task) {
	if len(rows) == 0 {
		return
	}
	ops := make([]store.Op, len(rows))
	for i := range rows {
		ops[i] = store.Remove(&rows[i])
	}
	if _, err := d.Store.Apply(ctx, ops); err != nil && ctx.Err() == nil {
		d.Log.WarnContext(ctx, "leftover wake-up rows not deleted; the next full scan will", slog.Int("rows", len(rows)), slog.Any("error", err))
	}
}

// Send puts messages on their queues, without any write, for tasks that are enqueued in the store.
func (d *Dispatcher) Send(ctx context.Context, tasks []task.Task) {
	messages := make([]queue.Message, len(tasks))
	for i := range tasks {
		messages[i].Task = tasks[i]
	}
	d.send(ctx, messages)
}

// send retries only the messages that failed, for a bounded time. It returns the tasks whose messages are not
// on their queue, as far as is known; nil when all are.
func (d *Dispatcher) send(ctx context.Context, messages []queue.Message) map[task.ID]error {
	var failures []error
	for try := range sendTriesMax {
		if len(messages) == 0 {
			return nil
		}
		if try > 0 && d.waitToSend(ctx, queue.NameFor(&messages[0].Task), failures[0]) != nil {
			break
		}
		messages, failures = d.sendOnce(ctx, messages)
	}
	if len(messages) == 0 {
		return nil
	}
	if d.Hooks.Unsent != nil {
		d.Hooks.Unsent(len(messages))
	}
	unsent := make(map[task.ID]error, len(messages))
	for i := range messages {
		unsent[messages[i].Task.ID] = failures[i]
	}
	return unsent
}

// sendOnce returns the messages that failed, and why.
func (d *Dispatcher) sendOnce(ctx context.Context, messages []queue.Message) (failed []queue.Message, failures []error) {
	now := d.Clock.Now()
	results := d.Queue.Send(ctx, messages)
	d.depths.countSent(messages, results)
	for i, err := range results {
		if err != nil {
			failed, failures = append(failed, messages[i]), append(failures, err)
			continue
		}
		if t := &messages[i].Task; d.Hooks.Lateness != nil && t.Attempt == 0 && t.Enqueues <= 1 {
			d.Hooks.Lateness(t, max(0, now.Sub(t.Due)))
		}
	}
	return failed, failures
}

// waitToSend waits before a retry: for room, if the queue was full.
func (d *Dispatcher) waitToSend(ctx context.Context, name queue.Name, failure error) error {
	timer := d.Clock.NewTimer(sendRetryEvery)
	defer timer.Stop()
	var room <-chan struct{} // never ready where the queue cannot tell
	if errors.Is(failure, queue.ErrFull) {
		room = d.Queue.Room(name)
	}
	select {
	case <-room:
	case <-timer.C():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
