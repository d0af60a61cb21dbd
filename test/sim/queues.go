package sim

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
)

// queues are the queues of all lambdas. Those of a fleet outlive its servers and behave as SQS does: at least
// once, in hardly any order, with a visibility timeout. Those of a server alone are in its memory.
type queues struct {
	w      *world
	shared *queuemem.Driver // nil: each server has its own

	mu      sync.Mutex
	flights map[string]queue.Message // by receipt
	seen    map[string]bool          // receipts of messages that were handed out before
}

const (
	depthMax   = 1 << 20
	visibility = 4 * time.Second
)

func (w *world) newQueues() *queues {
	q := &queues{w: w, flights: map[string]queue.Message{}, seen: map[string]bool{}}
	if w.plan.Form == fleet {
		q.shared = queuemem.New(bubbleClock{clock.Real()}, queuemem.Config{DepthMax: depthMax})
	}
	return q
}

// bubbleClock is true time.
type bubbleClock struct{ clock.Clock }

func (q *queues) of(p *process) queue.Driver {
	if q.shared == nil {
		return &memoryQueue{Driver: queuemem.New(p.clock, queuemem.Config{DepthMax: depthMax}), p: p}
	}
	return &queueView{q: q, p: p, closed: make(chan struct{})}
}

// memoryQueue is a queue in a process's memory: nothing goes wrong with it but the end of the process.
type memoryQueue struct {
	*queuemem.Driver

	p *process
}

// Send implements queue.Driver.
func (q *memoryQueue) Send(ctx context.Context, messages []queue.Message) []error {
	for i := range messages {
		q.p.w.bookMessage(&messages[i])
	}
	return q.Driver.Send(ctx, messages)
}

// queueView is what a process of a fleet has of the queues.
type queueView struct {
	q *queues
	p *process

	once   sync.Once
	closed chan struct{}
}

func (v *queueView) reach(ctx context.Context) error {
	w := v.p.w
	if err := v.p.step(ctx, w.latency(Queue)); err != nil {
		return err
	}
	if w.away(QueueAway) {
		w.saw(string(QueueAway))
		return errors.Join(queue.ErrUnreachable, v.p.step(ctx, time.Second))
	}
	return nil
}

// Send implements queue.Driver, as do the other methods.
func (v *queueView) Send(ctx context.Context, messages []queue.Message) []error {
	results := make([]error, len(messages))
	err := v.reach(ctx)
	for i := range messages {
		switch {
		case err != nil:
			results[i] = err
		case v.p.w.strikes(QueueLostSend, v.p.name):
			results[i] = errService
		default:
			results[i] = v.send(ctx, messages[i])
		}
	}
	if err := v.p.step(ctx, v.p.w.latency(Queue)); err != nil {
		for i := range results {
			results[i] = err
		}
	}
	return results
}

func (v *queueView) send(ctx context.Context, m queue.Message) error {
	v.p.w.bookMessage(&m)
	v.p.w.trace.note(v.p.name, "send %s seq %d to %v", m.Task.ID, m.Task.Seq, queue.NameFor(&m.Task))
	sent := []queue.Message{m}
	if v.p.w.strikes(QueueTwice, v.p.name) {
		sent = append(sent, m)
	}
	errs := v.q.shared.Send(ctx, sent)
	if v.p.w.strikes(QueueKeptSend, v.p.name) {
		return errService
	}
	return errs[0]
}

// Receive hands messages out, some of them to nobody.
func (v *queueView) Receive(ctx context.Context, names []queue.Name, limit int, _ time.Duration) ([]queue.Message, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-v.closed:
		case <-v.p.dead:
		case <-ctx.Done():
		}
		cancel()
	}()
	for {
		if err := v.reach(ctx); err != nil {
			return nil, v.ended(err)
		}
		if v.p.w.strikes(QueueReadFails, v.p.name) {
			return nil, errService
		}
		got, err := v.q.shared.Receive(ctx, names, limit, 0)
		if err != nil {
			return nil, v.ended(err)
		}
		kept := got[:0]
		for _, m := range got {
			if v.p.w.strikes(QueueNobody, v.p.name) || v.p.isDead() {
				v.q.later(m)
				continue
			}
			kept = append(kept, v.q.fly(m))
		}
		if len(kept) > 0 {
			if err := v.p.step(ctx, v.p.w.latency(Queue)); err != nil {
				return nil, v.ended(err)
			}
			return kept, nil
		}
	}
}

func (v *queueView) ended(err error) error {
	select {
	case <-v.closed:
		return queue.ErrClosed
	default:
		return err
	}
}

// fly has a message come back when its visibility timeout is over.
func (q *queues) fly(m queue.Message) queue.Message {
	q.mu.Lock()
	defer q.mu.Unlock()
	key := m.Task.ID.String() + string(rune(m.Task.Seq))
	m.Again = q.seen[key]
	q.seen[key] = true
	q.laterLocked(m)
	return m
}

// later has a message that nobody got come back then, too.
func (q *queues) later(m queue.Message) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.laterLocked(m)
}

func (q *queues) laterLocked(m queue.Message) {
	q.flights[m.Receipt] = m
	receipt := m.Receipt
	time.AfterFunc(visibility, func() { q.land(receipt) })
}

func (q *queues) land(receipt string) {
	q.mu.Lock()
	m, there := q.flights[receipt]
	delete(q.flights, receipt)
	q.mu.Unlock()
	if there {
		_ = q.shared.Release(context.Background(), []queue.Message{m}, 0)
	}
}

// Delete forgets messages; some of it does not last.
func (v *queueView) Delete(ctx context.Context, messages []queue.Message) error {
	if err := v.reach(ctx); err != nil {
		return err
	}
	var gone []queue.Message
	for _, m := range messages {
		if v.p.w.strikes(QueueUndead, v.p.name) {
			continue
		}
		if v.q.forget(m) {
			gone = append(gone, m)
		}
	}
	if len(gone) == 0 {
		return nil
	}
	return v.q.shared.Delete(ctx, gone)
}

// forget reports whether this delivery is still the newest one.
func (q *queues) forget(m queue.Message) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, there := q.flights[m.Receipt]
	delete(q.flights, m.Receipt)
	return there
}

// Release makes messages visible.
func (v *queueView) Release(ctx context.Context, messages []queue.Message, delay time.Duration) error {
	if err := v.reach(ctx); err != nil {
		return err
	}
	var back []queue.Message
	for _, m := range messages {
		if v.q.forget(m) {
			back = append(back, m)
		}
	}
	if len(back) == 0 {
		return nil
	}
	return v.q.shared.Release(ctx, back, delay.Truncate(time.Second))
}

// Depth is what is known of a queue.
func (v *queueView) Depth(ctx context.Context, name queue.Name) (queue.Depth, error) {
	if err := v.reach(ctx); err != nil {
		return queue.Depth{}, err
	}
	return v.q.shared.Depth(ctx, name)
}

// Room cannot be told.
func (v *queueView) Room(queue.Name) <-chan struct{} { return nil }

// Durable says that messages outlive the process.
func (v *queueView) Durable() bool { return true }

// Close ends all Receives.
func (v *queueView) Close() error {
	v.once.Do(func() { close(v.closed) })
	return nil
}
