package dispatcher_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/queue/queuetest"
	"github.com/kinesin-io/kinesin/store"
	storemem "github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/store/storetest"
	"github.com/kinesin-io/kinesin/task"
)

// post is a Deliverer over a store in memory whose writes can fail and a queue that writes down what it is
// given.
type post struct {
	t      *testing.T
	ctx    context.Context //nolint:containedctx // of the test, inside its bubble
	time   *clock.Virtual
	clock  clock.Clock
	driver *storetest.Faulty
	store  *store.Store
	out    *queuetest.Delivering
	queue  *queue.Queue
	seal   *task.Sealer
	steps  *steps
	*dispatcher.Deliverer

	mu      sync.Mutex
	late    []time.Duration
	failed  int
	dropped []task.ID
}

// steps is what a Deliverer did, and where it is to die.
type steps struct {
	mu     sync.Mutex
	done   []string
	writes int
	dieAt  string // before that step
	cancel context.CancelFunc
	rotten task.ID // of the payload that is damaged
}

func (s *steps) step(name string, writes int) (alive bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dieAt == name {
		s.cancel()
		return false
	}
	s.done = append(s.done, name)
	s.writes += writes
	return true
}

type steppedStore struct {
	*store.Store
	*steps
}

func (s steppedStore) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	name := map[store.OpKind]string{
		store.ReplaceWakeup: "acquire", store.DeleteWakeup: "remove", store.PutTask: "put", store.ReplaceTask: "replace", store.DeletePayload: "forget",
	}[ops[0].Kind]
	if ctx.Err() != nil || !s.step(name, len(ops)) {
		return slices.Repeat([]error{store.ErrUnknown}, len(ops)), context.Canceled
	}
	return s.Store.Apply(ctx, ops)
}

func (s steppedStore) Payload(ctx context.Context, id task.ID) ([]byte, error) {
	if id == s.rotten {
		return nil, fmt.Errorf("payload: %w", store.ErrCorrupt)
	}
	return s.Store.Payload(ctx, id)
}

type steppedQueue struct {
	*queue.Queue
	*steps
}

func (q steppedQueue) Deliver(ctx context.Context, deliveries []queue.Delivery) []error {
	if ctx.Err() != nil || !q.step("send", 0) {
		return slices.Repeat([]error{context.Canceled}, len(deliveries))
	}
	return q.Queue.Deliver(ctx, deliveries)
}

func inPost(t *testing.T, test func(p *post)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := clock.NewVirtual(start, 1)
		v.Settle(synctest.Wait)
		c := v.Process(0)
		p := &post{
			t: t, ctx: t.Context(), time: v, clock: c, steps: &steps{}, seal: task.NewSealer([]byte(strings.Repeat("k", task.TokenKeyBytes))),
			driver: storetest.NewFaulty(storemem.New()), out: queuetest.NewDelivering(queuemem.New(c, queuemem.Config{DepthMax: depth}), c.Now),
		}
		p.store = store.New(p.driver, store.Config{Clock: c})
		p.queue = queue.New(p.out, queue.Config{})
		p.Deliverer = dispatcher.NewDeliverer(dispatcher.DelivererConfig{
			Store: steppedStore{p.store, p.steps}, Queue: steppedQueue{p.queue, p.steps}, Sealer: p.seal,
			Lambdas: lambdas{}, Clock: c, Log: slog.New(slog.DiscardHandler),
			Hooks: dispatcher.DelivererHooks{
				Delivered:   func(_ *task.Task, late time.Duration) { p.note(func() { p.late = append(p.late, late) }) },
				Undelivered: func(*task.Task, error) { p.note(func() { p.failed++ }) },
				Dropped:     func(t *task.Task) { p.note(func() { p.dropped = append(p.dropped, t.ID) }) },
			},
		})
		test(p)
	})
}

func (p *post) note(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// order stores a task that is due in d and orders it to be acquired.
func (p *post) order(n uint64, d time.Duration, change func(t *task.Task)) task.Order {
	p.t.Helper()
	t := task.Task{Partition: partition, State: task.Scheduled, Seq: 1, Due: p.clock.Now().Add(d), Payload: []byte("hello"), PayloadSize: 5}
	binary.BigEndian.PutUint64(t.ID[8:], n)
	if change != nil {
		change(&t)
	}
	ops := store.First(t)
	if t.Key != "" {
		ops = store.FirstWithRow(t)
	}
	p.apply(ops...)
	return task.Order{Task: ops[0].Task, First: t.Key == "", Event: task.Event{Kind: task.Acquire, Worker: "p1"}}
}

func (p *post) apply(ops ...store.Op) {
	p.t.Helper()
	results, err := p.store.Apply(p.ctx, ops)
	if err = errors.Join(append(results, err)...); err != nil {
		p.t.Fatal(err)
	}
}

// deliver carries out orders while the clock moves by d.
func (p *post) deliver(d time.Duration, orders ...task.Order) (left []task.Undelivered) {
	p.t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		left = p.Deliver(p.ctx, orders)
	}()
	synctest.Wait()
	p.time.Advance(d)
	select {
	case <-done:
	default:
		p.t.Fatalf("not done after %v", d)
	}
	return left
}

func (p *post) rows() []task.Task {
	p.t.Helper()
	rows, err := p.store.ScanSchedule(p.ctx, partition, store.WakeKey{}, p.clock.Now().Add(time.Hour), 1000)
	if err != nil {
		p.t.Fatal(err)
	}
	return rows
}

func (p *post) delivered() []queuetest.Delivered {
	all, _ := p.out.Delivered()
	return all
}

func TestADeliveryIsThreeWrites(t *testing.T) {
	inPost(t, func(p *post) {
		o := p.order(1, 50*time.Millisecond, func(t *task.Task) { t.Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01" })
		if left := p.deliver(time.Second, o); len(left) > 0 {
			t.Fatalf("left %+v", left)
		}
		if !slices.Equal(p.steps.done, []string{"acquire", "send", "remove"}) || p.steps.writes != 2 { // and the one that scheduled it
			t.Errorf("steps %v, %d writes", p.steps.done, p.steps.writes)
		}
		got := p.delivered()
		if len(got) != 1 || len(p.rows()) != 0 {
			t.Fatalf("%d deliveries, %d rows", len(got), len(p.rows()))
		}
		d := got[0]
		if d.At != o.Task.Due || d.Delay != 0 || string(d.Payload) != "hello" || d.Task.Traceparent != o.Task.Traceparent {
			t.Errorf("delivered at %v past due: %+v", d.At.Sub(o.Task.Due), d)
		}
		if token, err := p.seal.Open(t.Context(), d.ID); err != nil || token != task.TokenOf(&o.Task) {
			t.Errorf("public id %q: %+v, %v", d.ID, token, err)
		}
		if !slices.Equal(p.late, []time.Duration{0}) {
			t.Errorf("lateness %v", p.late)
		}
	})
}

func TestDeliveriesAreNeverEarlyAndShareSends(t *testing.T) {
	inPost(t, func(p *post) {
		var orders []task.Order
		for n := range uint64(40) {
			orders = append(orders, p.order(n+1, time.Duration(n/4*7)*time.Millisecond, nil))
		}
		slices.Reverse(orders)
		if left := p.deliver(time.Second, orders...); len(left) > 0 {
			t.Fatalf("left %+v", left)
		}
		for _, d := range p.delivered() {
			if d.At != d.Task.Due {
				t.Errorf("due at %v, delivered %v later", d.Task.Due.Sub(start), d.At.Sub(d.Task.Due))
			}
		}
		sends := 0
		for _, step := range p.steps.done {
			if step == "send" {
				sends++
			}
		}
		if sends != 10 || len(p.delivered()) != 40 {
			t.Errorf("%d sends of %d deliveries, want 10 of 40", sends, len(p.delivered()))
		}
	})
}

// Whoever finds the row after a crash sends: the consumer may get a task twice, and never not at all.
func TestADelivererThatDiesLosesNothing(t *testing.T) {
	for before, deliveries := range map[string]int{"acquire": 1, "send": 1, "remove": 2} {
		t.Run("before "+before, func(t *testing.T) {
			inPost(t, func(p *post) {
				o := p.order(1, 0, nil)
				ctx, cancel := context.WithCancel(p.ctx)
				p.steps.dieAt, p.steps.cancel = before, cancel
				p.Deliver(ctx, []task.Order{o})
				rows := p.rows()
				if len(rows) != 1 {
					t.Fatal("the row is gone before the last step")
				}
				p.steps.dieAt = ""
				next := task.Order{Task: rows[0], First: true, Event: task.Event{Kind: task.Acquire, Worker: "p2"}}
				if left := p.deliver(0, next); len(left) > 0 || len(p.rows()) != 0 {
					t.Errorf("left %+v, %d rows", left, len(p.rows()))
				}
				if n := len(p.delivered()); n != deliveries {
					t.Errorf("%d deliveries, want %d", n, deliveries)
				}
			})
		})
	}
}

func TestOfTwoDeliverersOneSends(t *testing.T) {
	inPost(t, func(p *post) {
		o := p.order(1, 50*time.Millisecond, nil)
		other := o
		other.Event.Worker = "p2"
		done := make(chan []task.Undelivered, 2)
		go func() { done <- p.Deliver(p.ctx, []task.Order{o}) }()
		go func() { done <- p.Deliver(p.ctx, []task.Order{other}) }()
		synctest.Wait()
		p.time.Advance(time.Second)
		left := append(<-done, <-done...)
		if len(left) != 1 || left[0].Acquired || left[0].Err != nil || left[0].Order.Task.State != task.Acquired {
			t.Errorf("left %+v, want the row as the other has acquired it", left)
		}
		if n := len(p.delivered()); n != 1 {
			t.Errorf("%d deliveries", n)
		}
	})
}

// A call that stored the wake-up row of a task with a key may have ended before its task row followed.
func TestATaskWithAKeyAndNoTaskRowGetsOne(t *testing.T) {
	inPost(t, func(p *post) {
		o := p.order(1, 0, func(t *task.Task) { t.ID[0] = 9 })
		o.Task.Key = "k"
		if left := p.deliver(time.Second, o); len(left) > 0 || len(p.delivered()) != 1 {
			t.Fatalf("left %+v, %d deliveries", left, len(p.delivered()))
		}
		if row, err := p.store.Task(p.ctx, o.Task.ID); err != nil || row.State != task.Delivered || len(p.rows()) != 0 {
			t.Errorf("row %+v, %v, %d wake-up rows", row, err, len(p.rows()))
		}
	})
}

func TestACancelAndAnAcquireExcludeEachOther(t *testing.T) {
	inPost(t, func(p *post) {
		gone, taken := p.order(1, 50*time.Millisecond, nil), p.order(2, 50*time.Millisecond, nil)
		p.apply(store.Op{Kind: store.DeleteWakeup, Task: gone.Task}) // a cancel that was first
		var late []error
		go func() {
			_ = clock.Sleep(p.ctx, p.clock, 10*time.Millisecond)
			late, _ = p.store.Apply(p.ctx, []store.Op{{Kind: store.DeleteWakeup, Task: taken.Task}}) // one that was not
		}()
		if left := p.deliver(time.Second, gone, taken); len(left) > 0 {
			t.Errorf("left %+v", left)
		}
		if got := p.delivered(); len(got) != 1 || got[0].Task.ID != taken.Task.ID {
			t.Errorf("delivered %+v", got)
		}
		if len(late) != 1 || !errors.Is(late[0], store.ErrConflict) {
			t.Errorf("cancel of an acquired task: %v", late)
		}
	})
}

func TestWhatCannotBeSentIsLeftAlone(t *testing.T) {
	inPost(t, func(p *post) {
		bad, good := p.order(1, 0, nil), p.order(2, 0, nil)
		p.out.Decide(func(d *queue.Delivery) queuetest.Fault {
			if d.Task.ID == bad.Task.ID {
				return queuetest.NotApplied
			}
			return queuetest.NoFault
		})
		left := p.deliver(0, bad, good)
		if len(left) != 1 || !left[0].Acquired || left[0].Order.Sent || !errors.Is(left[0].Err, queuetest.ErrInjected) {
			t.Fatalf("left %+v", left)
		}
		if got := p.delivered(); len(got) != 1 || got[0].Task.ID != good.Task.ID || p.failed != 1 {
			t.Errorf("delivered %+v, %d failures told", got, p.failed)
		}
		rows := p.rows()
		if len(rows) != 1 || rows[0].State != task.Acquired || rows[0].Seq != left[0].Order.Task.Seq {
			t.Fatalf("rows %+v, left with %+v", rows, left[0].Order.Task)
		}
		p.out.Decide(nil)
		if left := p.deliver(0, left[0].Order); len(left) > 0 || len(p.delivered()) != 2 || len(p.rows()) != 0 {
			t.Errorf("again: left %+v", left)
		}
	})
}

func TestASentTaskIsNotSentAgainForItsRow(t *testing.T) {
	inPost(t, func(p *post) {
		o := p.order(1, 0, nil)
		p.driver.Fail(store.DeleteWakeup, 1, 1, storetest.NotApplied)
		p.driver.FailReads(1000)
		left := p.deliver(time.Minute, o)
		if len(left) != 1 || !left[0].Order.Sent || !left[0].Acquired || !errors.Is(left[0].Err, store.ErrUnknown) || p.failed != 0 {
			t.Fatalf("left %+v, %d failures told", left, p.failed)
		}
		p.driver.FailReads(0)
		if left = p.deliver(0, left[0].Order); len(left) > 0 || len(p.rows()) != 0 || len(p.delivered()) != 1 {
			t.Errorf("left %+v, %d rows, %d deliveries", left, len(p.rows()), len(p.delivered()))
		}
	})
}

func TestEachWriteOfADeliveryFailingEitherWayIsMadeGood(t *testing.T) {
	for _, kind := range []store.OpKind{store.ReplaceWakeup, store.DeleteWakeup, store.DeletePayload} {
		for _, how := range []storetest.Fault{storetest.NotApplied, storetest.AppliedButErrored} {
			inPost(t, func(p *post) {
				p.driver.Fail(kind, 2, 1, how)
				if left := p.deliver(time.Second, p.apart(1), p.apart(2), p.apart(3)); len(left) > 0 {
					t.Errorf("kind %d, fault %d: left %+v", kind, how, left)
				}
				if len(p.rows()) != 0 || len(p.delivered()) != 3 || p.driver.Pending() != 0 {
					t.Errorf("kind %d, fault %d: %d rows, %d deliveries", kind, how, len(p.rows()), len(p.delivered()))
				}
			})
		}
	}
}

func TestAnAcquireOfUnknownOutcomeIsLeftToTheNextScan(t *testing.T) {
	inPost(t, func(p *post) {
		orders := []task.Order{p.order(1, 0, nil), p.order(2, 0, nil)}
		p.driver.Fail(store.ReplaceWakeup, 1, 1, storetest.AppliedButErrored)
		p.driver.FailReads(1000)
		left := p.deliver(time.Minute, orders...)
		if len(left) != 1 || left[0].Acquired || !errors.Is(left[0].Err, store.ErrUnknown) {
			t.Errorf("left %+v", left)
		}
		if got := p.delivered(); len(got) != 1 || got[0].Task.ID != orders[1].Task.ID {
			t.Errorf("delivered %+v", got)
		}
	})
}

// apart orders a task whose payload has a row of its own.
func (p *post) apart(n uint64) task.Order {
	p.t.Helper()
	return p.apartWith(n, func(*task.Task) {})
}

func (p *post) apartWith(n uint64, change func(t *task.Task)) task.Order {
	p.t.Helper()
	o := p.order(n, 0, func(t *task.Task) {
		t.Payload, t.PayloadSize = nil, 5000
		change(t)
	})
	p.apply(store.Op{Kind: store.PutPayload, Task: o.Task, Payload: bytes.Repeat([]byte{byte(n)}, 5000)})
	return o
}

func TestPayloadsStoredApartAreSentAndForgotten(t *testing.T) {
	inPost(t, func(p *post) {
		var orders []task.Order
		for n := range uint64(50) {
			orders = append(orders, p.apart(n+1))
		}
		if left := p.deliver(0, orders...); len(left) > 0 {
			t.Errorf("left %+v", left)
		}
		if len(p.delivered()) != 50 {
			t.Errorf("%d deliveries", len(p.delivered()))
		}
		for _, d := range p.delivered() {
			if len(d.Payload) != 5000 || d.Payload[7] != d.Task.ID[15] {
				t.Errorf("payload of %d bytes", len(d.Payload))
			}
			if _, err := p.store.Payload(p.ctx, d.Task.ID); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("payload row: %v, want it gone", err)
			}
		}
	})
}

// A task whose payload no try will ever read is dropped and says why, and the others are delivered. It would
// be tried again for ever.
func TestATaskWhosePayloadIsDamagedOrGoneIsDropped(t *testing.T) {
	keyed := func(t *task.Task) { t.Key, t.Wake = "k", t.Due }
	for why, with := range map[string]func(p *post, o *task.Order){
		store.PayloadMissing: func(p *post, o *task.Order) { p.apply(store.ForgetPayload(&o.Task)) },
		store.PayloadDamaged: func(p *post, o *task.Order) { p.steps.rotten = o.Task.PayloadID() },
	} {
		for form, change := range map[string]func(t *task.Task){"with a row of its own": keyed, "as a wake-up row alone": func(*task.Task) {}} {
			t.Run(form+", "+why, func(t *testing.T) {
				inPost(t, func(p *post) {
					lost := p.apartWith(1, change)
					with(p, &lost)
					if left := p.deliver(0, lost, p.apart(2)); len(left) > 0 || len(p.rows()) != 0 {
						t.Errorf("left %+v, %d rows", left, len(p.rows()))
					}
					row, err := p.store.Task(p.ctx, lost.Task.ID)
					if err != nil || row.State != task.Dropped || len(row.History) != 1 || row.History[0].Error != why {
						t.Errorf("row %+v, %v", row, err)
					}
					if got := p.delivered(); len(got) != 1 || got[0].Task.ID == lost.Task.ID {
						t.Errorf("delivered %+v", got)
					}
					if !slices.Equal(p.dropped, []task.ID{lost.Task.ID}) || p.failed != 0 {
						t.Errorf("told of %v and %d failures", p.dropped, p.failed)
					}
				})
			})
		}
	}
}

// An error leaves the order of a task that is to be dropped.
func TestADropThatCannotBeStoredIsTriedAgain(t *testing.T) {
	inPost(t, func(p *post) {
		o := p.apart(1)
		p.steps.rotten = o.Task.PayloadID()
		p.driver.Fail(store.DeleteWakeup, 1, 1, storetest.NotApplied)
		p.driver.FailReads(1000)
		left := p.deliver(time.Minute, o)
		if len(left) != 1 || !left[0].Acquired || !errors.Is(left[0].Err, store.ErrUnknown) || len(p.dropped) > 0 {
			t.Fatalf("left %+v, told of %v", left, p.dropped)
		}
		p.driver.FailReads(0)
		if left = p.deliver(0, left[0].Order); len(left) > 0 || len(p.rows()) != 0 || len(p.dropped) != 1 {
			t.Errorf("again: left %+v, %d rows, told of %v", left, len(p.rows()), p.dropped)
		}
	})
}

func TestALargeBatchOfLargePayloadsIsTakenInParts(t *testing.T) {
	inPost(t, func(p *post) {
		var orders []task.Order
		for n := range uint64(40) {
			o := p.order(n+1, 0, func(t *task.Task) { t.Payload, t.PayloadSize = nil, 250<<10 })
			p.apply(store.Op{Kind: store.PutPayload, Task: o.Task, Payload: make([]byte, 250<<10)})
			orders = append(orders, o)
		}
		if left := p.deliver(0, orders...); len(left) > 0 || len(p.delivered()) != 40 {
			t.Errorf("left %d, %d deliveries", len(left), len(p.delivered()))
		}
		if n := strings.Count(fmt.Sprint(p.steps.done), "send"); n != 2 {
			t.Errorf("%d sends, want 10 MB in 2", n)
		}
	})
}

func TestATaskWithAKeyStaysAsDelivered(t *testing.T) {
	inPost(t, func(p *post) {
		o := p.apartWith(1, func(t *task.Task) { t.Key, t.Wake = "k", t.Due })
		if left := p.deliver(time.Second, o); len(left) > 0 || len(p.delivered()) != 1 {
			t.Fatalf("left %+v, %d deliveries", left, len(p.delivered()))
		}
		row, err := p.store.Task(p.ctx, o.Task.ID)
		if err != nil || row.State != task.Delivered || row.Worker != "p1" || row.ExpireAt != o.Task.Due.Add(time.Hour) {
			t.Errorf("row %+v, %v", row, err)
		}
		if _, err := p.store.Payload(p.ctx, row.PayloadID()); err != nil {
			t.Errorf("its payload: %v", err)
		}
		if left := p.deliver(time.Second, o); len(left) > 0 || len(p.delivered()) != 1 {
			t.Errorf("the same again: left %+v, %d deliveries", left, len(p.delivered()))
		}
	})
}

// A process that was stopped may find that another one has sent what it held.
func TestWhatWasAcquiredLongAgoIsNotSent(t *testing.T) {
	inPost(t, func(p *post) {
		o := p.order(1, 20*time.Second, nil)
		left := p.deliver(time.Minute, o)
		if len(left) != 1 || !left[0].Acquired || len(p.delivered()) != 0 {
			t.Fatalf("left %+v, %d deliveries", left, len(p.delivered()))
		}
		if left := p.deliver(0, left[0].Order); len(left) > 0 || len(p.delivered()) != 1 {
			t.Errorf("acquired again: left %+v, %d deliveries", left, len(p.delivered()))
		}
	})
}
