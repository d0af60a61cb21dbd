package dispatcher_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/clock/clocktest"
	"github.com/kinesin-io/kinesin/queue"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
	"github.com/kinesin-io/kinesin/queue/queuetest"
	"github.com/kinesin-io/kinesin/store"
	storemem "github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/store/storetest"
	"github.com/kinesin-io/kinesin/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	start = task.Instant(1_700_000_000_000_000)
	depth = 64
)

var (
	partition = task.Partition{Lambda: 7, Priority: 1}
	normal    = queue.Name{Lambda: 7, Priority: 1}
)

// world is a dispatcher over a store and a queue in memory whose writes can fail.
type world struct {
	t      *testing.T
	ctx    context.Context //nolint:containedctx // of the test, inside its bubble
	time   *clock.Virtual
	clock  clock.Clock
	driver *storetest.Faulty
	store  *store.Store
	line   *queuetest.Faulty
	queue  *queue.Queue
	trace  *trace
	*dispatcher.Dispatcher

	mu     sync.Mutex
	unsent int
	late   []time.Duration
}

// trace is what the dispatcher did to the store and the queue, and where it is to die, or its loop to end.
type trace struct {
	mu     sync.Mutex
	steps  []string
	dieAt  string // before that step
	endAt  string // in that step
	cancel context.CancelFunc
}

func (tr *trace) step(name string) (alive bool) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.steps = append(tr.steps, name)
	if tr.dieAt == name || tr.endAt == name {
		tr.cancel()
	}
	return tr.dieAt != name
}

type tracedStore struct {
	*store.Store
	*trace
}

func (s tracedStore) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	name := map[store.OpKind]string{store.PutTask: "put", store.ReplaceTask: "replace", store.DeleteWakeup: "delete"}[ops[0].Kind]
	if ctx.Err() != nil || !s.step(name) {
		return slices.Repeat([]error{store.ErrUnknown}, len(ops)), context.Canceled
	}
	return s.Store.Apply(ctx, ops)
}

type tracedQueue struct {
	*queue.Queue
	*trace
}

func (q tracedQueue) Send(ctx context.Context, messages []queue.Message) []error {
	if ctx.Err() != nil || !q.step("send") {
		return slices.Repeat([]error{context.Canceled}, len(messages))
	}
	return q.Queue.Send(ctx, messages)
}

// lambdas knows lambda 7.
type lambdas struct{}

func (lambdas) ByRef(ref uint32) *catalog.Entry {
	if ref != 7 {
		return nil
	}
	return &catalog.Entry{Lambda: task.Lambda{Name: "mail", Ref: ref, MaxAttempts: 3, Retention: time.Hour}.WithDefaults()}
}

// starter returns what decides how the tasks of lambda 7 start.
func starter(q dispatcher.Queue, c clock.Clock) *dispatcher.Starter {
	return dispatcher.NewStarter(dispatcher.StarterConfig{Queue: q, Lambdas: lambdas{}, Clock: c})
}

func inWorld(t *testing.T, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v := clock.NewVirtual(start, 1)
		v.Settle(synctest.Wait)
		c := v.Process(0)
		w := &world{
			t: t, ctx: t.Context(), time: v, clock: c, trace: &trace{},
			driver: storetest.NewFaulty(storemem.New()), line: queuetest.NewFaulty(queuemem.New(c, queuemem.Config{DepthMax: depth})),
		}
		w.store = store.New(w.driver, store.Config{Clock: c})
		w.queue = queue.New(w.line, queue.Config{})
		w.Dispatcher = w.fresh()
		test(w)
	})
}

// fresh is a dispatcher as the next owner of the partitions has it.
func (w *world) fresh() *dispatcher.Dispatcher {
	return dispatcher.New(dispatcher.Config{
		Starter: starter(tracedQueue{w.queue, w.trace}, w.clock), Store: tracedStore{w.store, w.trace}, Log: slog.New(slog.DiscardHandler), DepthMax: depth,
		Hooks: dispatcher.Hooks{
			Unsent:   func(n int) { w.mu.Lock(); w.unsent += n; w.mu.Unlock() },
			Lateness: func(_ *task.Task, late time.Duration) { w.mu.Lock(); w.late = append(w.late, late); w.mu.Unlock() },
		},
	})
}

// during runs f beside the moving clock and returns what it returned.
func (w *world) during(d time.Duration, f func() []task.Dispatched) []task.Dispatched {
	var results []task.Dispatched
	done := make(chan struct{})
	go func() {
		defer close(done)
		results = f()
	}()
	synctest.Wait()
	w.time.Advance(d)
	select {
	case <-done:
	default:
		w.t.Fatalf("not done after %v", d)
	}
	return results
}

func (w *world) apply(ops ...store.Op) {
	w.t.Helper()
	results, err := w.store.Apply(w.ctx, ops)
	if err = errors.Join(append(results, err)...); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) waiting(n uint64) task.Order {
	w.t.Helper()
	t := task.Task{Partition: partition, State: task.Scheduled, Seq: 1, Due: w.clock.Now()}
	binary.BigEndian.PutUint64(t.ID[8:], n)
	ops := store.First(t)
	w.apply(ops...)
	return task.Order{Task: ops[0].Task, First: true, Event: task.Event{Kind: task.Enqueue, By: "p1"}}
}

func (w *world) retriable(n uint64) task.Order {
	w.t.Helper()
	t := task.Task{Partition: partition, State: task.RetriableFailure, Seq: 5, Attempt: 1, Failures: 1, Due: w.clock.Now(), Wake: w.clock.Now()}
	t.WakeRow = task.WakeRow{At: t.Due, Seq: 1}
	binary.BigEndian.PutUint64(t.ID[8:], n)
	w.apply(store.Op{Kind: store.PutTask, Task: t})
	return task.Order{Task: t, Event: task.Event{Kind: task.Enqueue}}
}

func (w *world) wantState(o *task.Order, want task.State) {
	w.t.Helper()
	got, err := w.store.Task(w.ctx, o.Task.ID)
	if err != nil || got.State != want {
		w.t.Errorf("task row: %s, %v; want %s", got.State, err, want)
	}
}

// wakeups is how many wake-up rows there are.
func (w *world) wakeups() int {
	w.t.Helper()
	rows, err := w.store.ScanSchedule(w.ctx, partition, store.WakeKey{}, w.clock.Now(), 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	return len(rows)
}

func (w *world) visible() int {
	w.t.Helper()
	d, err := w.queue.Depth(w.ctx, normal)
	if err != nil {
		w.t.Fatal(err)
	}
	return d.Visible
}

func wantNone(t *testing.T, results []task.Dispatched) {
	t.Helper()
	for _, r := range results {
		if r.Err != nil {
			t.Errorf("dispatch: %v", r.Err)
		}
	}
}

func TestTheTwoStepsComeInOrder(t *testing.T) {
	inWorld(t, func(w *world) {
		first, again := w.waiting(1), w.retriable(2)
		w.time.Advance(3 * time.Millisecond)
		wantNone(w.t, w.Dispatch(w.ctx, []task.Order{first, again}))
		if got := w.trace.steps; !slices.Equal(got, []string{"put", "send"}) {
			t.Errorf("steps %v", got)
		}
		w.wantState(&first, task.Enqueued)
		w.wantState(&again, task.Enqueued)
		if w.wakeups() != 1 || w.visible() != 2 {
			t.Errorf("%d wake-up rows, %d messages; want the one that was there, and 2", w.wakeups(), w.visible())
		}
		if !slices.Equal(w.late, []time.Duration{3 * time.Millisecond}) {
			t.Errorf("lateness %v: want that of the first dispatch", w.late)
		}
	})
}

func TestACrashBetweenTheStepsLosesNothing(t *testing.T) {
	for _, before := range []string{"put", "send"} {
		t.Run("before "+before, func(t *testing.T) {
			inWorld(t, func(w *world) {
				o := w.waiting(1)
				ctx, cancel := context.WithCancel(w.ctx)
				w.trace.dieAt, w.trace.cancel = before, cancel
				w.Dispatch(ctx, []task.Order{o})
				if w.wakeups() != 1 {
					t.Fatal("the wake-up row is gone")
				}
				w.trace.dieAt = ""
				r := w.fresh().Dispatch(w.ctx, []task.Order{o})[0] // the next owner finds the row
				if r.Err != nil || r.Task.State != task.Enqueued || r.Task.Worker != "p1" || r.Done != (before == "put") {
					t.Errorf("%+v: want the row as it is now", r)
				}
				if n := w.visible(); r.Done != (n == 1) || w.wakeups() != 1 {
					t.Errorf("%d messages, %d wake-up rows", n, w.wakeups())
				}
				w.wantState(&o, task.Enqueued)
			})
		})
	}
}

// A partition that another process takes over, or a process that ends, leaves no task that is enqueued and has no
// message: it would start after its enqueue timeout.
func TestALoopThatEndsSendsWhatItHasEnqueued(t *testing.T) {
	inWorld(t, func(w *world) {
		orders := []task.Order{w.waiting(1), w.retriable(2)}
		ctx, cancel := context.WithCancel(w.ctx)
		w.trace.endAt, w.trace.cancel = "put", cancel
		wantNone(t, w.Dispatch(ctx, orders))
		if ctx.Err() == nil || w.visible() != 2 || w.unsent != 0 {
			t.Errorf("%d messages, %d unsent, of two tasks that were enqueued as the loop ended", w.visible(), w.unsent)
		}
	})
}

func TestEachWriteFailingEitherWayIsMadeGood(t *testing.T) {
	for _, kind := range []store.OpKind{store.PutTask} {
		for _, how := range []storetest.Fault{storetest.NotApplied, storetest.AppliedButErrored} {
			inWorld(t, func(w *world) {
				orders := []task.Order{w.waiting(1), w.waiting(2), w.waiting(3)}
				w.driver.Fail(kind, 2, 1, how)
				wantNone(w.t, w.during(time.Second, func() []task.Dispatched { return w.Dispatch(w.ctx, orders) }))
				if w.wakeups() != 3 || w.visible() != 3 {
					t.Errorf("kind %d, fault %d: %d wake-up rows, %d messages", kind, how, w.wakeups(), w.visible())
				}
			})
		}
	}
}

func TestAnOutcomeThatStaysUnknownConcernsOneTaskOnly(t *testing.T) {
	for _, how := range []storetest.Fault{storetest.NotApplied, storetest.AppliedButErrored} {
		inWorld(t, func(w *world) {
			orders := []task.Order{w.waiting(1), w.waiting(2), w.waiting(3)}
			w.driver.Fail(store.PutTask, 2, 1, how)
			w.driver.FailReads(1000)
			results := w.during(time.Minute, func() []task.Dispatched { return w.Dispatch(w.ctx, orders) })
			if results[0].Err != nil || !errors.Is(results[1].Err, store.ErrUnknown) || results[2].Err != nil {
				t.Errorf("fault %d: %v", how, results)
			}
			if w.visible() != 2 || w.wakeups() != 3 {
				t.Errorf("fault %d: %d messages, %d wake-up rows", how, w.visible(), w.wakeups())
			}
			w.driver.FailReads(0)
			again := w.Dispatch(w.ctx, orders[1:2])[0]
			if applied := how == storetest.AppliedButErrored; again.Err != nil || again.Done == applied || again.Task.State != task.Enqueued {
				t.Errorf("fault %d, tried again: %+v", how, again)
			}
		})
	}
}

func TestASendFailingEitherWayIsRepeatedAlone(t *testing.T) {
	for fault, messages := range map[queuetest.Fault]int{queuetest.NotApplied: 3, queuetest.AppliedButErrored: 4} {
		inWorld(t, func(w *world) {
			orders := []task.Order{w.waiting(1), w.waiting(2), w.waiting(3)}
			w.line.FailNext(queuetest.SendWrite, 1, fault)
			wantNone(w.t, w.during(time.Second, func() []task.Dispatched { return w.Dispatch(w.ctx, orders) }))
			if w.visible() != messages || w.unsent != 0 {
				t.Errorf("fault %d: %d messages, %d unsent", fault, w.visible(), w.unsent)
			}
		})
	}
}

func TestAQueueThatKeepsFailingIsTriedABoundedNumberOfTimes(t *testing.T) {
	inWorld(t, func(w *world) {
		tries := 0
		w.line.Decide(func(queuetest.Write, *queue.Message) queuetest.Fault { tries++; return queuetest.NotApplied })
		first, again := w.waiting(1), w.retriable(2)
		results := w.during(2*time.Second, func() []task.Dispatched { return w.Dispatch(w.ctx, []task.Order{first, again}) })
		if tries > 40 || w.unsent != 2 {
			t.Errorf("%d tries, %d told as unsent", tries, w.unsent)
		}
		if r := results[0]; !errors.Is(r.Err, queuetest.ErrInjected) || r.Done || r.Task.State != task.Enqueued || results[1].Err != nil {
			t.Errorf("%v: want the failure of the first order, which is tried again, and none for the other", results)
		}
		w.line.Decide(nil)
		again = w.retriable(3)
		wantNone(t, w.Dispatch(w.ctx, []task.Order{again}))
		if w.visible() != 1 {
			t.Errorf("%d messages", w.visible())
		}
	})
}

func TestAFullQueueTakesTheMessageWhenItHasRoom(t *testing.T) {
	inWorld(t, func(w *world) {
		var orders []task.Order
		for n := range depth + 1 {
			orders = append(orders, w.waiting(uint64(n+1)))
		}
		done := make(chan []task.Dispatched, 1)
		go func() { done <- w.Dispatch(w.ctx, orders) }()
		synctest.Wait()
		if w.visible() != depth || len(done) != 0 {
			t.Fatalf("%d messages, done: %d", w.visible(), len(done))
		}
		got, err := w.queue.Receive(w.ctx, []queue.Name{normal}, depth, 0)
		if err == nil {
			err = w.queue.Delete(w.ctx, got)
		}
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // no time passes: the queue tells that it has room
		wantNone(t, <-done)
		if w.visible() != 1 || w.unsent != 0 {
			t.Errorf("%d messages, %d unsent", w.visible(), w.unsent)
		}
	})
}

// Whoever gave the order decides what follows from the row that stood in its way.
func TestConflicts(t *testing.T) {
	for _, c := range []struct {
		name string
		row  task.Task // in the way of the order
	}{
		{"enqueued by a dispatcher that died", task.Task{State: task.Enqueued, Seq: 2, Enqueues: 1, Worker: "p0"}},
		{"claimed", task.Task{State: task.Claimed, Seq: 3, Attempt: 1, Worker: "w"}},
		{"enqueued again after an attempt", task.Task{State: task.Enqueued, Seq: 4, Attempt: 1}},
		{"backing off", task.Task{State: task.RetriableFailure, Seq: 4, Attempt: 1}},
		{"cancelled", task.Task{State: task.Cancelled, Seq: 2, ExpireAt: start.Add(time.Hour)}},
	} {
		inWorld(t, func(w *world) {
			o := w.waiting(1)
			row := c.row
			row.ID, row.Partition, row.Due, row.WakeRow = o.Task.ID, o.Task.Partition, o.Task.Due, o.Task.WakeRow
			if !row.State.IsEnd() {
				row.Wake = start.Add(time.Minute)
			}
			w.apply(store.Op{Kind: store.PutTask, Task: row})
			r := w.Dispatch(w.ctx, []task.Order{o})[0]
			w.wantState(&o, c.row.State)
			if r.Err != nil || r.Done || r.Task.State != row.State || r.Task.Seq != row.Seq || w.visible() != 0 || w.wakeups() != 1 {
				t.Errorf("%s: %+v, %d messages, %d wake-up rows; want the row that stood in the way, and nothing done", c.name, r, w.visible(), w.wakeups())
			}
		})
	}
}

func TestAnEndDeletesTheWakeUpRow(t *testing.T) {
	inWorld(t, func(w *world) {
		o := w.waiting(1)
		row := o.Task
		row.State, row.Seq, row.Attempt, row.Worker, row.Suspect, row.Blamed = task.Claimed, 3, 3, "w", true, 1
		w.apply(store.Op{Kind: store.PutTask, Task: row})
		lost := task.Order{Task: row, Event: task.Event{Kind: task.WorkerLost, Worker: "w", Attempt: 3, Blame: true}}
		if r := w.Dispatch(w.ctx, []task.Order{lost})[0]; !r.Done || r.Task.State != task.Dead {
			t.Errorf("%+v", r)
		}
		if w.wakeups() != 0 || w.visible() != 0 {
			t.Errorf("%d wake-up rows, %d messages", w.wakeups(), w.visible())
		}
	})
}

func TestRemoveTakesWakeUpRowsAsTheyWereSeen(t *testing.T) {
	inWorld(t, func(w *world) {
		seen, moved := w.waiting(1).Task, w.waiting(2).Task
		newer := store.Op{Kind: store.PutWakeup, Task: task.Task{ID: moved.ID, Partition: partition, Seq: 4, Wake: moved.Due, WakeRow: task.WakeRow{At: moved.Due, Seq: 4}}}
		w.apply(newer)
		w.Remove(w.ctx, []task.Task{seen, moved})
		if w.wakeups() != 1 {
			t.Errorf("%d wake-up rows, want the one that is newer than what was seen", w.wakeups())
		}
	})
}

func TestAnOrderThatOthersOvertookIsPointless(t *testing.T) {
	inWorldWith(t, 1, func(w *world, m *workers) {
		o := w.retriable(1)
		moved := o.Task
		moved.Seq++
		moved.State, moved.Wake, moved.ExpireAt = task.Cancelled, 0, start.Add(time.Hour)
		w.apply(store.Op{Kind: store.ReplaceTask, Task: moved})
		ended := o
		ended.Task = moved
		wantNone(w.t, w.Dispatch(w.ctx, []task.Order{ended, o}))
		if w.visible() != 0 || len(m.given) != 1 {
			t.Errorf("%d messages, %d slots given", w.visible(), len(m.given))
		}
		w.wantState(&o, task.Cancelled)
	})
}

func TestATaskOfAnUnknownLambdaStays(t *testing.T) {
	inWorld(t, func(w *world) {
		o := w.waiting(1)
		o.Task.Partition.Lambda = 8
		if r := w.Dispatch(w.ctx, []task.Order{o}); r[0].Err == nil {
			t.Error("no error")
		}
		if w.wakeups() != 1 || len(w.trace.steps) != 0 {
			t.Errorf("%d wake-up rows, steps %v", w.wakeups(), w.trace.steps)
		}
	})
}

func TestEveryEffectIsCarriedOut(t *testing.T) {
	inWorld(t, func(w *world) {
		running := w.retriable(1)
		running.Task.State, running.Task.Worker, running.Task.Seq = task.Processing, "w", 6
		w.apply(store.Op{Kind: store.ReplaceTask, Task: running.Task})
		running.Event = task.Event{Kind: task.WorkerLost, Worker: "w", Attempt: 1}
		wantNone(t, w.Dispatch(w.ctx, []task.Order{running}))
		suspects, err := w.queue.Depth(w.ctx, queue.Name{Lambda: 7, Priority: 1, Class: queue.Suspect})
		if err != nil || suspects.Visible != 1 || w.visible() != 0 {
			t.Errorf("%d messages for suspects (%v), %d others", suspects.Visible, err, w.visible())
		}
	})
}

func TestSendWritesNothing(t *testing.T) {
	inWorld(t, func(w *world) {
		o := w.retriable(1)
		o.Task.State = task.Enqueued
		w.Send(w.ctx, []task.Task{o.Task})
		if w.visible() != 1 || !slices.Equal(w.trace.steps, []string{"send"}) {
			t.Errorf("%d messages, steps %v", w.visible(), w.trace.steps)
		}
		w.wantState(&o, task.RetriableFailure)
	})
}

func TestRoom(t *testing.T) {
	inWorld(t, func(w *world) {
		if room, _ := w.Room(w.ctx, normal); room != depth {
			t.Errorf("room for %d in an empty queue of %d", room, depth)
		}
		for n := range depth {
			w.Send(w.ctx, []task.Task{w.retriable(uint64(n + 1)).Task})
		}
		room, wait := w.Room(w.ctx, normal)
		select {
		case <-wait:
			t.Error("a full queue says that it has room")
		default:
		}
		if room != 0 || wait == nil {
			t.Errorf("room for %d in a full queue", room)
		}
	})
}

// Tasks that lie unclaimed in a queue start at once when workers come, so that a quota bounds them.
func TestAQuotaBoundsWhatLiesInAQueue(t *testing.T) {
	inWorld(t, func(w *world) {
		perSecond := 100.0
		limited := func(q dispatcher.Queue) *dispatcher.Dispatcher {
			return dispatcher.New(dispatcher.Config{Starter: starter(q, w.clock), DepthMax: 5000, Starts: func(name queue.Name, within time.Duration) (int, bool) {
				return int(perSecond * within.Seconds()), name == normal
			}})
		}
		d, slow := limited(w.queue), limited(&service{tracedQueue: tracedQueue{w.queue, w.trace}})
		for _, c := range []struct {
			perSecond       float64
			inside, service int
		}{{100, 15, 640}, {1, 1, 0}, {1e6, 5000, 4940}} {
			perSecond = c.perSecond
			if room, _ := d.Room(w.ctx, normal); room != c.inside {
				t.Errorf("at %v per second: room for %d, want %d", perSecond, room, c.inside)
			}
			if room, _ := slow.Room(w.ctx, normal); room != c.service { // there are 60 messages
				t.Errorf("at %v per second in a service: room for %d, want %d", perSecond, room, c.service)
			}
		}
		other := normal
		other.Priority++
		if room, _ := d.Room(w.ctx, other); room != 5000 {
			t.Errorf("room for %d without a quota", room)
		}
	})
}

// service is a queue that cannot tell when it has room, and is slow to ask.
type service struct {
	tracedQueue

	asked int
	fails error
}

func (*service) Room(queue.Name) <-chan struct{} { return nil }

func (s *service) Depth(context.Context, queue.Name) (queue.Depth, error) {
	s.asked++
	return queue.Depth{Visible: 60}, s.fails
}

func TestTheDepthOfAServiceIsAskedForOnceInAWhile(t *testing.T) {
	inWorld(t, func(w *world) {
		slow := &service{tracedQueue: tracedQueue{w.queue, w.trace}}
		wall := &clocktest.Settable{Clock: w.clock}
		d := dispatcher.New(dispatcher.Config{Starter: starter(slow, wall), DepthMax: depth})
		for range 100 {
			if room, wait := d.Room(w.ctx, normal); room != 4 || wait != nil {
				t.Fatalf("room for %d", room)
			}
			w.time.Advance(20 * time.Millisecond)
		}
		if slow.asked != 2 {
			t.Errorf("asked %d times in 2 s", slow.asked)
		}
		slow.fails = fmt.Errorf("no answer")
		wall.Step(-time.Hour)
		w.time.Advance(time.Second)
		if room, _ := d.Room(w.ctx, normal); room != depth {
			t.Errorf("room for %d when the depth is not known", room)
		}
	})
}

// The numbers that a service gives for its queue are a second old; what was sent meanwhile counts.
func TestWhatWasSentCountsUntilTheDepthIsAskedForAgain(t *testing.T) {
	inWorld(t, func(w *world) {
		slow := &service{tracedQueue: tracedQueue{w.queue, w.trace}}
		d := dispatcher.New(dispatcher.Config{Starter: starter(slow, w.clock), DepthMax: 160})
		room, _ := d.Room(w.ctx, normal)
		if room != 100 {
			t.Fatalf("room for %d", room)
		}
		var tasks []task.Task
		for i := range uint64(30) {
			tasks = append(tasks, w.retriable(i+1).Task)
		}
		d.Send(w.ctx, tasks)
		if room, _ := d.Room(w.ctx, normal); room != 70 {
			t.Errorf("room for %d after 30 were sent, want 70", room)
		}
		w.time.Advance(time.Second)
		if room, _ := d.Room(w.ctx, normal); room != 100 {
			t.Errorf("room for %d, want what the service says", room)
		}
	})
}
