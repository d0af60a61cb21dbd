// Package dispatcher moves due tasks from the store to their lambda queues, or straight to a worker that
// waits. It owns the order of the two steps that make this safe (first the conditional write that lets one
// dispatcher win, then the message, or the hand-over; in this process's memory the message alone, whose claim
// is that write) and the bound on what a queue is fed. It calls the store and the queue; it never decides
// when a task is due and never talks to workers.
package dispatcher

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Bounds of the dispatcher.
const (
	// DepthMaxDefault is how many messages a queue is fed up to.
	DepthMaxDefault = 8192
	// sendTriesMax and sendRetryEvery bound how long a message waits for room. Its task is
	// enqueued already, so after that its wake-up takes over.
	sendTriesMax   = 20
	sendRetryEvery = 50 * time.Millisecond
	// depthsMax bounds the depths that are remembered.
	depthsMax = 4096
	// patientBefore is how long before its due time the write of a task may share another's sync.
	patientBefore = 6 * store.PatientMax
	// depthFresh is how long a depth that had to be asked for is used.
	depthFresh = time.Second
)

// Store is what the dispatcher needs of a store.
type Store interface {
	Apply(ctx context.Context, ops []store.Op) ([]error, error)
}

// Queue is what the dispatcher needs of a queue.
type Queue interface {
	Send(ctx context.Context, messages []queue.Message) []error
	Depth(ctx context.Context, name queue.Name) (queue.Depth, error)
	Room(name queue.Name) <-chan struct{}
	Durable() bool
}

// Policies finds what governs a task; nil when its lambda is gone.
type Policies interface {
	PolicyOf(t *task.Task) (task.Policy, bool)
}

// Config is what a Dispatcher is made of. Everything is required except Matcher, DepthMax and Hooks.
type Config struct {
	Store    Store
	Queue    Queue
	Policies Policies
	Clock    clock.Clock
	Log      *slog.Logger
	Matcher  Matcher // nil: all tasks go through their queues
	DepthMax int     // messages per queue; 0: DepthMaxDefault
	Hooks    Hooks
}

// Hooks are told what happened. A nil hook is not called.
type Hooks struct {
	// Lateness: how long after its due time a task's first message was sent.
	Lateness func(t *task.Task, late time.Duration)
	// Unsent: tasks that are enqueued but whose message could not be sent; their wake-up covers them.
	Unsent func(n int)
}

// Dispatcher carries out orders. It is safe for concurrent use and keeps no state but cached depths.
type Dispatcher struct {
	Config

	mu     sync.Mutex // guards depths
	depths map[queue.Name]cachedDepth
}

type cachedDepth struct {
	visible int // with what was sent since
	at      task.Instant
}

// New returns a dispatcher.
func New(c Config) *Dispatcher {
	if c.DepthMax == 0 {
		c.DepthMax = DepthMaxDefault
	}
	return &Dispatcher{Config: c, depths: map[queue.Name]cachedDepth{}}
}

// Dispatch carries out orders and says of each what became of it. A first order whose message could not be
// sent has an error, so that it is tried again soon; of the others the enqueue timeout takes care.
func (d *Dispatcher) Dispatch(ctx context.Context, orders []task.Order) []task.Dispatched {
	now := d.Clock.Now()
	b := batch{results: make([]task.Dispatched, len(orders)), ops: make([]store.Op, 0, len(orders))}
	for i := range orders {
		d.plan(ctx, &b, i, &orders[i], now)
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

// apply stores what is to be stored before anything is sent.
func (d *Dispatcher) apply(ctx context.Context, b *batch) {
	if len(b.ops) == 0 {
		return
	}
	outcomes, err := d.Store.Apply(ctx, b.ops)
	for _, w := range b.writes {
		outcome := err
		if w.op < len(outcomes) {
			outcome = outcomes[w.op] // good by itself, also when others are unknown
		}
		b.settle(&w, outcome)
	}
}

// batch is one Dispatch on its way.
type batch struct {
	results  []task.Dispatched
	ops      []store.Op
	writes   []write
	messages []queue.Message
	asked    bool // whether tasks wait in the queue, which all orders of a batch share
	queued   bool // one has to go through it
}

// write is the change of one order's task row.
type write struct {
	order, op int // their places
	effect    task.Effect
	slot      Slot // of a task that was matched; nil else
}

// plan computes the writes of one order.
func (d *Dispatcher) plan(ctx context.Context, b *batch, i int, o *task.Order, now task.Instant) {
	policy, known := d.Policies.PolicyOf(&o.Task)
	if !known {
		b.results[i].Err = fmt.Errorf("task %s: its lambda is not known here", o.Task.ID)
		return
	}
	event := o.Event
	slot := d.match(ctx, b, o, &event)
	if slot == nil && d.sendsFirst(o, now) {
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
	b.writes = append(b.writes, write{order: i, op: len(b.ops), effect: effect, slot: slot})
	patient := next.Due > now.Add(patientBefore)
	if o.First {
		b.ops = append(b.ops, store.Op{Kind: store.PutTask, Task: next, Patient: patient})
		return
	}
	b.ops = store.AppendChange(b.ops, &next, false, patient)
}

// settle turns the outcome of a write into a message and a result.
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

// Remove deletes wake-up rows that no task needs any more. Losing such a delete is harmless: the next pass
// over the partition asks for it again.
func (d *Dispatcher) Remove(ctx context.Context, rows []task.Task) {
	if len(rows) == 0 {
		return
	}
	ops := make([]store.Op, len(rows))
	for i := range rows {
		ops[i] = store.Remove(&rows[i])
	}
	if _, err := d.Store.Apply(ctx, ops); err != nil && ctx.Err() == nil {
		d.Log.WarnContext(ctx, "wake-up rows not deleted; the next pass will", slog.Int("rows", len(rows)), slog.Any("error", err))
	}
}

// Send puts messages for enqueued tasks on their queues without any write: for tasks that the
// store already has as enqueued.
func (d *Dispatcher) Send(ctx context.Context, tasks []task.Task) {
	messages := make([]queue.Message, len(tasks))
	for i := range tasks {
		messages[i].Task = tasks[i]
	}
	d.send(ctx, messages)
}

// send retries only the messages that failed, for a bounded time. It returns those that are
// not on their queue, as far as is known; nil when all are.
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
	d.countSent(messages, results)
	for i, err := range results {
		if err != nil {
			failed, failures = append(failed, messages[i]), append(failures, err)
			continue
		}
		d.sent(&messages[i].Task, now)
	}
	return failed, failures
}

// countSent adds what was sent to the depths that are remembered: until a service is asked again, it is all
// that is known of what its queues were fed.
func (d *Dispatcher) countSent(messages []queue.Message, results []error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range messages {
		if len(d.depths) == 0 || results[i] != nil {
			continue
		}
		name := queue.NameFor(&messages[i].Task)
		if last, ok := d.depths[name]; ok {
			last.visible++
			d.depths[name] = last
		}
	}
}

func (d *Dispatcher) sent(t *task.Task, now task.Instant) {
	if d.Hooks.Lateness != nil && t.Attempt == 0 && t.Enqueues <= 1 {
		d.Hooks.Lateness(t, max(0, now.Sub(t.Due)))
	}
}

// waitToSend waits for room after a refusal for want of it, and else for a moment.
func (d *Dispatcher) waitToSend(ctx context.Context, name queue.Name, failure error) error {
	timer := d.Clock.NewTimer(sendRetryEvery)
	defer timer.Stop()
	var room <-chan struct{} // never ready where the driver cannot tell
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

// Room is how many more messages a queue takes before it reaches its bound, and
// a channel that is closed when a full one has room again (nil: ask again later).
func (d *Dispatcher) Room(ctx context.Context, name queue.Name) (int, <-chan struct{}) {
	wait := d.Queue.Room(name)
	visible, err := d.visible(ctx, name, wait == nil)
	if err != nil {
		return d.DepthMax, wait // the depth only paces; an unknown one must not stop dispatch
	}
	return max(0, d.DepthMax-visible), wait
}

// visible asks for the depth; where asking is a request to a service, at most once in depthFresh.
func (d *Dispatcher) visible(ctx context.Context, name queue.Name, cached bool) (int, error) {
	now := clock.Steady(d.Clock)
	if cached {
		if visible, known := d.remembered(name); known {
			return visible, nil
		}
	}
	depth, err := d.Queue.Depth(ctx, name)
	if err != nil {
		return 0, err
	}
	if cached {
		d.mu.Lock()
		if len(d.depths) >= depthsMax {
			clear(d.depths) // of lambdas that are gone, too; asking again costs little
		}
		d.depths[name] = cachedDepth{visible: depth.Visible, at: now}
		d.mu.Unlock()
	}
	return depth.Visible, nil
}

// remembered is the depth of a queue that was asked for a moment ago, with what was sent since.
func (d *Dispatcher) remembered(name queue.Name) (visible int, known bool) {
	d.mu.Lock()
	last, ok := d.depths[name]
	d.mu.Unlock()
	return last.visible, ok && clock.Steady(d.Clock).Sub(last.at) < depthFresh
}
