package inbound_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/intake"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/queue/queuetest"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// outgoing is a fixture whose lambda "invoices" is of mode deliver.
type outgoing struct {
	*fixture

	out   *queuetest.Delivering
	entry *catalog.Entry
	late  []time.Duration
}

func runOutgoing(t *testing.T, change func(*settings), test func(o *outgoing)) {
	t.Helper()
	o := &outgoing{}
	runWith(t, func(f *fixture, c *settings) {
		o.out = queuetest.NewDelivering(f.line, f.clock.Now)
		c.Queue = dropping{queue.New(o.out, queue.Config{}), f}
		c.Hooks.Delivered = func(_ *task.Task, late time.Duration) { f.note(func() { o.late = append(o.late, late) }) }
		if change != nil {
			change(c)
		}
	}, func(f *fixture) {
		o.fixture = f
		created, err := f.CreateLambda(f.ctx, &kinesinv1.CreateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "invoices", Mode: "deliver", Retention: time.Hour.Microseconds()}})
		if err != nil {
			t.Fatal(err)
		}
		o.entry, err = f.Catalog.Lambda(created.Lambda.Name)
		if err != nil {
			t.Fatal(err)
		}
		f.lambda = o.entry
		test(o)
	})
}

// due returns a task of the deliver lambda.
func due(d time.Duration) *kinesinv1.ScheduleItem {
	return &kinesinv1.ScheduleItem{Lambda: "invoices", Delay: d.Microseconds(), Payload: []byte("42"), Traceparent: trace}
}

func (o *outgoing) delivered() []queuetest.Delivered {
	all, _ := o.out.Delivered()
	return all
}

func (o *outgoing) wantState(id, want string) {
	o.t.Helper()
	got := o.get(id)
	state := ""
	if got.Task != nil {
		state = got.Task.State
		if got.Task.Id != id || got.Task.Lambda != "invoices" {
			o.t.Errorf("got %+v", got.Task)
		}
	}
	if state != want {
		o.t.Errorf("state %q, want %q; %v", state, want, got.Problem)
	}
}

func (o *outgoing) cancel(id string) *kinesinv1.CancelResult {
	o.t.Helper()
	response, err := o.Cancel(o.ctx, &kinesinv1.CancelRequest{Ids: []string{id}})
	if err != nil {
		o.t.Fatal(err)
	}
	return response.Results[0]
}

// acquire does what a deliverer does first.
func (o *outgoing) acquire(row task.Task) task.Task {
	o.t.Helper()
	taken, _, err := row.Apply(task.Event{Kind: task.Acquire, Worker: "p1"}, o.clock.Now(), task.Policy{})
	if err != nil {
		o.t.Fatal(err)
	}
	taken.WakeRow.Seq = taken.Seq
	o.apply(store.Op{Kind: store.ReplaceWakeup, Task: taken})
	return taken
}

func TestWhatIsDueSoonGoesStraightToItsQueue(t *testing.T) {
	runOutgoing(t, nil, func(o *outgoing) {
		for _, c := range []struct{ in, delay time.Duration }{
			{0, 0},
			{-time.Hour, 0},
			{time.Millisecond, time.Second},
			{time.Second, time.Second},
			{1001 * time.Millisecond, 2 * time.Second},
			{queue.DelayMax, queue.DelayMax},
		} {
			id := o.accept(due(c.in))
			all := o.delivered()
			d := all[len(all)-1]
			if d.Delay != c.delay || d.ID != id || string(d.Payload) != "42" || d.Task.Traceparent != trace {
				t.Errorf("due in %v: delivered %+v", c.in, d)
			}
			if d.VisibleAt() < d.Task.Due {
				t.Errorf("due in %v: %v early", c.in, d.Task.Due.Sub(d.VisibleAt()))
			}
			o.time.Advance(700 * time.Microsecond) // off the whole millisecond
		}
		if len(o.waitingRows()) != 0 || o.accepted != 6 || len(o.late) != 6 || slices.Max(o.late) > time.Second || slices.Min(o.late) < 0 {
			t.Errorf("%d rows, %d accepted, late %v", len(o.waitingRows()), o.accepted, o.late)
		}
		later := o.accept(due(queue.DelayMax + time.Second))
		if len(o.delivered()) != 6 || len(o.waitingRows()) != 1 || !slices.Contains(o.added, o.idOf(later)) {
			t.Error("what is due later went there too")
		}
		o.accept(with(due(0), func(i *kinesinv1.ScheduleItem) { i.Key = "k" }))
		if len(o.delivered()) != 6 {
			t.Error("what has a key went there too")
		}
	})
}

func TestStraightCanBeTurnedOff(t *testing.T) {
	runOutgoing(t, func(c *settings) { c.DeliverDirect = -1 }, func(o *outgoing) {
		id := o.accept(due(0))
		rows := o.waitingRows()
		if len(o.delivered()) != 0 || len(rows) != 1 || !slices.Equal(o.added, []task.ID{o.idOf(id)}) || rows[0].Traceparent != trace {
			t.Errorf("%d deliveries, rows %+v, told of %v", len(o.delivered()), rows, o.added)
		}
		o.wantState(id, "scheduled")
	})
}

// Rows of tasks that the queue refuses are planned after the others: outcomes are not mixed up.
func TestEachTaskHasItsOwnOutcome(t *testing.T) {
	runOutgoing(t, nil, func(o *outgoing) {
		o.out.Decide(func(*queue.Delivery) queuetest.Fault { return queuetest.NotApplied })
		far := func() *kinesinv1.ScheduleItem {
			return with(due(time.Hour), func(i *kinesinv1.ScheduleItem) { i.RequestId = uuid7(1) })
		}
		first := o.schedule(far())[0]
		for i, r := range o.schedule(due(time.Minute), far(), due(time.Minute)) {
			if r.Problem != nil || r.Duplicate != (i == 1) || (r.Id == first.Id) != (i == 1) {
				t.Errorf("item %d: %+v", i, r)
			}
		}
	})
}

// Accepting needs one of the two, the queue or the store.
func TestWhatTheQueueRefusesIsStored(t *testing.T) {
	for _, fault := range []queuetest.Fault{queuetest.NotApplied, queuetest.AppliedButErrored} {
		runOutgoing(t, nil, func(o *outgoing) {
			n := 0
			o.out.Decide(func(*queue.Delivery) queuetest.Fault {
				if n++; n == 2 {
					return fault
				}
				return queuetest.NoFault
			})
			large := func() *kinesinv1.ScheduleItem {
				return with(due(time.Minute), func(i *kinesinv1.ScheduleItem) { i.Payload = bytes.Repeat([]byte("x"), 300) })
			}
			results := o.schedule(large(), large(), large())
			for i, r := range results {
				if r.Problem != nil || r.Id == "" || r.Due != int64(start.Add(time.Minute)) {
					t.Errorf("item %d: %+v", i, r)
				}
			}
			rows := o.waitingRows()
			if len(rows) != 1 || rows[0].ID != o.idOf(results[1].Id) || o.accepted != 3 {
				t.Fatalf("rows %+v, %d accepted", rows, o.accepted)
			}
			if p, err := o.store.Payload(o.ctx, rows[0].ID); err != nil || len(p) != 300 {
				t.Errorf("payload of %d bytes, %v", len(p), err)
			}
			o.wantState(results[0].Id, "enqueued")
			o.wantState(results[1].Id, "scheduled")
			wantRefusal(t, "it may be on its queue", o.cancel(results[1].Id).Problem, kinesinv1.Reason_REASON_TOO_LATE, "about to be, on the queue")
		})
	}
}

func TestWhatMakesNoSenseForADeliverLambdaIsRefused(t *testing.T) {
	runOutgoing(t, nil, func(o *outgoing) {
		for what, change := range map[string]func(i *kinesinv1.ScheduleItem){
			"max attempts": func(i *kinesinv1.ScheduleItem) { i.MaxAttempts = 3 },
			"timeout":      func(i *kinesinv1.ScheduleItem) { i.Timeout = 1e6 },
			"backoff":      func(i *kinesinv1.ScheduleItem) { i.BackoffMin, i.BackoffMax = 1e6, 1e7 },
			"start before": func(i *kinesinv1.ScheduleItem) { i.StartBefore = int64(start.Add(time.Hour)) },
		} {
			r := o.schedule(with(due(0), change))[0]
			wantRefusal(t, what, r.Problem, kinesinv1.Reason_REASON_INVALID, "mode deliver", "do", "not apply; leave")
		}
		r := o.schedule(with(due(0), func(i *kinesinv1.ScheduleItem) { i.Traceparent = "x" }))[0]
		wantRefusal(t, "trace", r.Problem, kinesinv1.Reason_REASON_INVALID, "want the W3C form")
		if len(o.delivered()) != 0 || len(o.waitingRows()) != 0 {
			t.Error("a refused task went on")
		}
		_, err := o.CreateLambda(o.ctx, &kinesinv1.CreateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "x", Mode: "deliver", MaxAttempts: 3}})
		wantError(t, "create with attempts", err, kinesinv1.Reason_REASON_INVALID, "not for mode deliver")
		_, err = o.CreateLambda(o.ctx, &kinesinv1.CreateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "x", Mode: "deliver", PoisonBound: 3}})
		wantError(t, "create with a poison bound", err, kinesinv1.Reason_REASON_INVALID, "poison bound", "not for mode deliver")
		_, err = o.UpdateLambda(o.ctx, masked(&kinesinv1.UpdateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "invoices", StartWithin: 1e6}}))
		wantError(t, "update of start within", err, kinesinv1.Reason_REASON_INVALID, "start within", "not for mode deliver")
		_, err = o.UpdateLambda(o.ctx, masked(&kinesinv1.UpdateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "invoices", Mode: "deliver", Timeout: 1e6}}))
		wantError(t, "update of the timeout", err, kinesinv1.Reason_REASON_INVALID, "not for mode deliver")
	})
}

func TestALambdaIsProvisionedBeforeItIsThere(t *testing.T) {
	runOutgoing(t, nil, func(o *outgoing) {
		made := o.out.Provisioned()
		if len(made) != 1 || made[0].Name != "invoices" || !slices.Equal(made[0].Priorities, task.PrioritiesDefault()) || made[0].Mode != task.Deliver {
			t.Errorf("provisioned %+v", made)
		}
		got, err := o.GetLambda(o.ctx, &kinesinv1.GetLambdaRequest{Name: "invoices"})
		if err != nil || got.Lambda.Mode != "deliver" || got.Lambda.MaxAttempts != 0 || got.Lambda.Timeout != 0 {
			t.Errorf("lambda %+v, %v", got, err)
		}
		_, err = o.CreateLambda(o.ctx, &kinesinv1.CreateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "no good", Mode: "deliver"}})
		wantError(t, "a bad name", err, kinesinv1.Reason_REASON_INVALID)
		if len(o.out.Provisioned()) != 1 {
			t.Error("provisioned for a lambda that is refused")
		}
	})
}

func TestTheLifeOfAStraightTaskAsItsUserSeesIt(t *testing.T) {
	runOutgoing(t, nil, func(o *outgoing) {
		id := o.accept(due(time.Minute))
		o.wantState(id, "enqueued")
		r := o.cancel(id)
		wantRefusal(t, "cancel", r.Problem, kinesinv1.Reason_REASON_TOO_LATE, "on the queue")
		o.time.Advance(time.Minute)
		o.wantState(id, "delivered")
		wantRefusal(t, "cancel", o.cancel(id).Problem, kinesinv1.Reason_REASON_TOO_LATE, "on the queue")
		o.time.Advance(time.Hour)
		o.wantState(id, "")
		wantRefusal(t, "cancel", o.cancel(id).Problem, kinesinv1.Reason_REASON_NOT_FOUND)
	})
}

func TestTheLifeOfADeliverTaskAsItsUserSeesIt(t *testing.T) {
	runOutgoing(t, nil, func(o *outgoing) {
		id := o.accept(due(time.Hour))
		o.wantState(id, "scheduled")
		if next := o.get(id).Task.Next; next != int64(start.Add(time.Hour)) {
			t.Errorf("next look %d", next)
		}
		o.time.Advance(time.Hour)
		taken := o.acquire(o.waitingRows()[0])
		o.wantState(id, "acquired")
		if got := o.get(id).Task; got.Worker != "p1" || got.Next != int64(taken.ClaimedAt.Add(task.AcquireTimeout)) || got.Traceparent != trace {
			t.Errorf("got %+v", got)
		}
		wantRefusal(t, "cancel", o.cancel(id).Problem, kinesinv1.Reason_REASON_TOO_LATE, "on the queue")
		for _, state := range []string{"acquired", ""} {
			listed, err := o.List(o.ctx, &kinesinv1.ListRequest{Lambda: "invoices", State: state})
			if err != nil || len(listed.Tasks) != 1 || listed.Tasks[0].Id != id {
				t.Errorf("list %q: %+v, %v", state, listed, err)
			}
		}
		o.apply(store.Remove(&taken))
		o.wantState(id, "delivered")
		o.time.Advance(time.Hour)
		o.wantState(id, "")
	})
}

func TestAWaitForADelivery(t *testing.T) {
	runOutgoing(t, nil, func(o *outgoing) {
		id := o.accept(due(10 * time.Second))
		var got *kinesinv1.GetResponse
		var err error
		o.during(12*time.Second, func() {
			got, err = o.Wait(o.ctx, &kinesinv1.WaitRequest{Ids: []string{id}, Wait: time.Minute.Microseconds()})
		})
		if err != nil || got.Results[0].Task.State != "delivered" {
			t.Errorf("%+v, %v", got, err)
		}
	})
}

func TestCancelOfADeliverTask(t *testing.T) {
	runOutgoing(t, nil, func(o *outgoing) {
		id := o.accept(due(time.Hour))
		writes := 0
		o.rows.set(func(ops []store.Op) { writes += len(ops) }, nil, nil)
		if r := o.cancel(id); r.Problem != nil || r.Outcome != "cancelled" || r.State != "scheduled" {
			t.Fatalf("%+v", r)
		}
		if writes != 2 || len(o.waitingRows()) != 0 {
			t.Errorf("%d writes, %d rows", writes, len(o.waitingRows()))
		}
		o.wantState(id, "cancelled")
		wantRefusal(t, "again", o.cancel(id).Problem, kinesinv1.Reason_REASON_TOO_LATE, "has ended: cancelled")
		o.time.Advance(90 * time.Minute)
		o.wantState(id, "cancelled")
	})
}

// A call that is repeated counts a delay anew, so the earlier one may have stored a row with another due
// time. Nobody can cancel both.
func TestATaskThatMayBeStoredTwiceIsNotCancelled(t *testing.T) {
	runOutgoing(t, nil, func(o *outgoing) {
		again := func(item *kinesinv1.ScheduleItem) string {
			t.Helper()
			response, err := o.Schedule(o.ctx, &kinesinv1.ScheduleRequest{Items: []*kinesinv1.ScheduleItem{item}, Again: true})
			if err != nil || response.Results[0].Problem != nil {
				t.Fatalf("%+v, %v", response, err)
			}
			return response.Results[0].Id
		}
		wantRefusal(t, "delay", o.cancel(again(due(time.Hour))).Problem, kinesinv1.Reason_REASON_TOO_LATE, "about to be")
		for what, item := range map[string]*kinesinv1.ScheduleItem{
			"due time": with(due(0), func(i *kinesinv1.ScheduleItem) { i.Due = int64(start.Add(time.Hour)) }),
			"key":      with(due(time.Hour), func(i *kinesinv1.ScheduleItem) { i.Key = "k" }),
		} {
			if r := o.cancel(again(item)); r.Problem != nil || r.Outcome != "cancelled" {
				t.Errorf("%s: %+v", what, r)
			}
		}
	})
}

// A call that is repeated may send a task to its queue that an earlier one has stored for the same instant.
// Whoever cancels that row has not cancelled the task.
func TestADirectTaskIsNotCancelledByTheRowOfAnEarlierTry(t *testing.T) {
	runOutgoing(t, nil, func(o *outgoing) {
		request := task.NewID(o.clock.Now(), 1, 2)
		schedule := func(delay time.Duration, again bool) string {
			t.Helper()
			item := with(due(delay), func(i *kinesinv1.ScheduleItem) { i.RequestId = request[:] })
			response, err := o.Schedule(o.ctx, &kinesinv1.ScheduleRequest{Items: []*kinesinv1.ScheduleItem{item}, Again: again})
			if err != nil || response.Results[0].Problem != nil {
				t.Fatalf("%+v, %v", response, err)
			}
			return response.Results[0].Id
		}
		const step = 100 * time.Millisecond
		schedule(queue.DelayMax+step, false)
		o.during(2*step, func() {})
		id := schedule(queue.DelayMax-step, true)
		if rows := o.waitingRows(); len(rows) != 1 || len(o.delivered()) != 1 {
			t.Fatalf("%d rows, %d delivered", len(rows), len(o.delivered()))
		}
		wantRefusal(t, "direct", o.cancel(id).Problem, kinesinv1.Reason_REASON_TOO_LATE, "about to be")
		o.wantState(id, "enqueued")
	})
}

// A cancel that dies between its two writes has cancelled the task; the next one comes to the end of it.
func TestACancelThatWasCutShortIsFinished(t *testing.T) {
	runOutgoing(t, nil, func(o *outgoing) {
		id := o.accept(due(time.Hour))
		o.apply(store.Remove(&o.waitingRows()[0]))
		o.wantState(id, "") // neither cancelled nor delivered, as far as is known
		if r := o.cancel(id); r.Problem != nil || r.Outcome != "cancelled" {
			t.Errorf("%+v", r)
		}
		o.wantState(id, "cancelled")
	})
}

// Whichever is first wins: no task is both cancelled and acquired.
func TestACancelAndAnAcquireAtOnce(t *testing.T) {
	for _, acquireFirst := range []bool{true, false} {
		runOutgoing(t, nil, func(o *outgoing) {
			id := o.accept(due(time.Hour))
			row := o.waitingRows()[0]
			taken, _, err := row.Apply(task.Event{Kind: task.Acquire, Worker: "p1"}, o.clock.Now(), task.Policy{})
			if err != nil {
				t.Fatal(err)
			}
			taken.WakeRow.Seq = taken.Seq
			var acquired error
			acquire := func() {
				results, err := o.store.Apply(o.ctx, []store.Op{{Kind: store.ReplaceWakeup, Task: taken}})
				acquired = errors.Join(append(results, err)...)
			}
			o.rows.set(func([]store.Op) { // after the cancel has read the row
				if acquireFirst {
					o.rows.set(nil, nil, nil)
					acquire()
				}
			}, nil, nil)
			r := o.cancel(id)
			o.rows.set(nil, nil, nil)
			if !acquireFirst {
				acquire()
			}
			if acquireFirst != (acquired == nil) || acquireFirst != (r.Problem != nil) {
				t.Errorf("acquire first %v: acquired %v, cancel %+v", acquireFirst, acquired, r)
			}
		})
	}
}

func TestATaskWithAKeyOfADeliverLambda(t *testing.T) {
	runOutgoing(t, nil, func(o *outgoing) {
		keyed := func() *kinesinv1.ScheduleItem {
			return with(due(time.Minute), func(i *kinesinv1.ScheduleItem) { i.Key = "k" })
		}
		id := o.accept(keyed())
		if r := o.schedule(keyed())[0]; !r.Duplicate || r.Id != id {
			t.Errorf("the same again: %+v", r)
		}
		if row := o.row(id); row.State != task.Scheduled || row.Wake != row.Due || !slices.Equal(o.awake, []task.ID{row.ID}) {
			t.Errorf("row %+v, told of %v", row, o.awake)
		}
		if r := o.cancel(id); r.Problem != nil {
			t.Errorf("cancel: %+v", r)
		}
		o.wantState(id, "cancelled")
	})
}

// TestATaskInTheBufferIsNotDelivered has a buffer that is emptied late.
func TestATaskInTheBufferIsNotDelivered(t *testing.T) {
	runBuffered(t, func(c *settings) {
		over, _ := c.Queue.(dropping)
		c.Queue = dropping{queue.New(queuetest.NewDelivering(over.f.line, over.f.clock.Now), queue.Config{}), over.f}
		c.DeliverDirect, c.Ingest.Rate, c.Buffering.Patience = -1, 1, -1
	}, func(b *buffered) {
		o := &outgoing{fixture: b.fixture}
		_, _, err := b.Catalog.Create(b.ctx, task.Lambda{Name: "invoices", Mode: task.Deliver}.WithDefaults())
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for range 40 {
			ids = append(ids, b.accepted(due(12*time.Second))...)
		}
		b.advance(14 * time.Second)
		o.wantState(ids[0], "accepted")
		o.wantState(ids[39], "accepted")
		b.consume()
		b.advance(10 * time.Second)
		o.wantState(ids[39], "accepted")
		b.advance(time.Minute)
		if b.memory.Len() != 0 || len(b.waitingRowsOf("invoices")) != 40 {
			t.Fatalf("%d messages, %d rows", b.memory.Len(), len(b.waitingRowsOf("invoices")))
		}
		o.wantState(ids[39], "scheduled")
		for _, row := range b.waitingRowsOf("invoices") { // a deliverer sends them
			b.apply(store.Remove(&row))
		}
		o.wantState(ids[0], "delivered")
		o.wantState(ids[39], "delivered")
	})
}

func TestDeletingADeliverLambda(t *testing.T) {
	runOutgoing(t, nil, func(o *outgoing) {
		scheduled := o.accept(due(time.Hour))
		stuck := o.accept(due(2 * time.Hour))
		keyed := o.accept(with(due(time.Hour), func(i *kinesinv1.ScheduleItem) { i.Key = "k" }))
		o.acquire(o.waitingRows()[1])
		_, err := o.DeleteLambda(o.ctx, &kinesinv1.DeleteLambdaRequest{Name: "invoices"})
		wantError(t, "delete while tasks live", err, kinesinv1.Reason_REASON_IN_USE)
		response, err := o.DeleteLambda(o.ctx, &kinesinv1.DeleteLambdaRequest{Name: "invoices", DropTasks: true})
		if err != nil || response.Dropped != 3 {
			t.Fatalf("%+v, %v", response, err)
		}
		if len(o.waitingRows()) != 0 || len(o.dropped) != 0 {
			t.Errorf("%d rows; queues told to drop %v, whose messages are their consumers'", len(o.waitingRows()), o.dropped)
		}
		for _, id := range []string{scheduled, stuck, keyed} {
			if row := o.row(id); row.State != task.Dropped {
				t.Errorf("row %+v", row)
			}
		}
	})
}

func TestAQueueThatNoLongerDeliversRefusesTasks(t *testing.T) {
	runOutgoing(t, nil, func(o *outgoing) {
		managedOnly := newServing(settings{
			Config: intake.Config{Queue: dropping{o.queue, o.fixture}, Catalog: o.Catalog, Sealer: o.seal, Scheduler: o, Clock: o.clock},
			Store:  o.rows, Workers: o,
		})
		response, err := managedOnly.Schedule(o.ctx, &kinesinv1.ScheduleRequest{Items: []*kinesinv1.ScheduleItem{due(0)}})
		if err != nil {
			t.Fatal(err)
		}
		wantRefusal(t, "schedule", response.Results[0].Problem, kinesinv1.Reason_REASON_UNSUPPORTED, "need SQS")
	})
}

func TestAPayloadThatNoQueueCarriesIsRefused(t *testing.T) {
	runOutgoing(t, func(c *settings) { c.Queue = narrow{as[dropping](c.Queue)} }, func(o *outgoing) {
		r := o.schedule(with(due(time.Hour), func(i *kinesinv1.ScheduleItem) { i.Payload = []byte(strings.Repeat("x", 11)) }))[0]
		wantRefusal(t, "payload", r.Problem, kinesinv1.Reason_REASON_TOO_LARGE, "at most 10")
	})
}

type narrow struct{ dropping }

func (narrow) CheckPayload(payload []byte) error {
	if len(payload) > 10 {
		return errors.Join(queue.ErrUndeliverable, errors.New("want at most 10 bytes"))
	}
	return nil
}

// runBufferedOutgoing has the lambda "invoices" behind a buffer.
func runBufferedOutgoing(t *testing.T, test func(b *buffered, out *queuetest.Delivering)) {
	t.Helper()
	var out *queuetest.Delivering
	var b *buffered
	runBuffered(t, func(c *settings) {
		faulty, _ := c.Queue.(dropping)
		out = queuetest.NewDelivering(faulty.f.line, faulty.f.clock.Now)
		c.Queue = dropping{queue.New(out, queue.Config{}), faulty.f}
	}, func(buffered *buffered) {
		b = buffered
		if _, err := b.CreateLambda(b.ctx, &kinesinv1.CreateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "invoices", Mode: "deliver"}}); err != nil {
			t.Fatal(err)
		}
		var err error
		if b.lambda, err = b.Catalog.Lambda("invoices"); err != nil {
			t.Fatal(err)
		}
		test(b, out)
	})
}

func TestATaskThatMayBeStoredTwiceDoesNotGoThroughTheBuffer(t *testing.T) {
	runBufferedOutgoing(t, func(b *buffered, _ *queuetest.Delivering) {
		response, err := b.Schedule(b.ctx, &kinesinv1.ScheduleRequest{Items: []*kinesinv1.ScheduleItem{due(2 * time.Hour)}, Again: true})
		if err != nil || response.Results[0].Problem != nil || b.ways[intake.WayStore] != 1 {
			t.Errorf("%+v, %v, ways %v", response, err, b.ways)
		}
	})
}

// Tasks of the buffer are delivered in the same ways as others.
func TestDeliverTasksThroughTheBuffer(t *testing.T) {
	runBufferedOutgoing(t, func(b *buffered, out *queuetest.Delivering) {
		soon := b.accepted(due(time.Minute))[0]
		later := b.accepted(due(2 * time.Hour))[0]
		if all, _ := out.Delivered(); len(all) != 1 || all[0].ID != soon || b.ways[intake.WayQueue] != 1 || b.ways[intake.WayBuffer] != 1 {
			t.Errorf("%d deliveries, ways %v", len(all), b.ways)
		}
		if state := b.state(later); state != "accepted" {
			t.Errorf("state %q", state)
		}
		direct := b.q1(time.Minute, func(task *kinesinv1.BufferedTask, token *task.InboundToken) {
			task.Item.Lambda, token.Lambda = "invoices", "invoices"
		})
		b.put(direct)
		b.drain(time.Second)
		if rows := b.waitingRows(); len(rows) != 1 || rows[0].ID != b.idOf(later) || rows[0].Traceparent != trace {
			t.Errorf("rows %+v", rows)
		}
		if all, _ := out.Delivered(); len(all) != 2 || all[1].ID != direct.Id || all[1].VisibleAt() < all[1].Task.Due {
			t.Errorf("delivered %+v", all)
		}
		if len(b.aside) != 0 {
			t.Errorf("set aside for %v", b.aside)
		}
	})
}

// A cancel of what is in the buffer holds, or says that it comes too late.
func TestCancelOfADeliverTaskInTheBuffer(t *testing.T) {
	runBufferedOutgoing(t, func(b *buffered, out *queuetest.Delivering) {
		id := b.accepted(due(2 * time.Hour))[0]
		cancel := func() *kinesinv1.CancelResult {
			t.Helper()
			response, err := b.Cancel(b.ctx, &kinesinv1.CancelRequest{Ids: []string{id}})
			if err != nil {
				t.Fatal(err)
			}
			return response.Results[0]
		}
		b.time.Advance(2*time.Hour - 10*time.Minute) // it has not come out, and would go straight to its queue now
		wantRefusal(t, "cancel", cancel().Problem, kinesinv1.Reason_REASON_TOO_LATE, "about to be")

		id = b.accepted(due(2 * time.Hour))[0]
		if r := cancel(); r.Problem != nil || r.Outcome != "cancelled" {
			t.Fatalf("%+v", r)
		}
		b.time.Advance(2*time.Hour - 5*time.Minute)
		b.drain(time.Second)
		if all, _ := out.Delivered(); len(all) != 1 || all[0].ID == id {
			t.Errorf("delivered %+v, want the first one only", all)
		}
		if state := b.state(id); state != "cancelled" {
			t.Errorf("state %q", state)
		}
	})
}

// The message of a task that is stored comes again between any two steps of its cancel. No deliverer looks at
// tombstones, so the row that it puts back must not stay.
func TestACancelOfADeliverTaskWhoseMessageComesAgain(t *testing.T) {
	for step := range 4 {
		runBufferedOutgoing(t, func(b *buffered, out *queuetest.Delivering) {
			id := b.accepted(due(2 * time.Hour))[0]
			b.set(func() { b.forget = true })
			b.drain(time.Second)
			b.set(func() { b.forget = false })
			if len(b.waitingRows()) != 1 || b.memory.Len() != 1 {
				t.Fatalf("%d wake-up rows, %d messages", len(b.waitingRows()), b.memory.Len())
			}
			steps := 0
			hook := func() {
				if steps++; steps == step+1 {
					b.rows.set(nil, nil, nil)
					b.drain(time.Minute)
				}
			}
			b.rows.set(func([]store.Op) { hook() }, hook, hook)
			if step == 2 {
				b.steps.meanwhile(hook) // between the two writes
			} else {
				b.steps.meanwhile(func() { steps++ })
			}
			r := b.cancel(id)
			b.rows.set(nil, nil, nil)
			if steps <= step || r.Outcome != "cancelled" || b.state(id) != "cancelled" || len(b.waitingRows()) != 0 || b.memory.Len() != 0 {
				t.Errorf("again at step %d: %v, then %s, %d wake-up rows, %d messages", step, r, b.state(id), len(b.waitingRows()), b.memory.Len())
			}
			b.time.Advance(3 * time.Hour)
			if all, _ := out.Delivered(); len(all) != 0 {
				t.Errorf("again at step %d: delivered %+v", step, all)
			}
		})
	}
}

func TestACancelWhoseTaskCameAgainAndIsBeingSentIsTooLate(t *testing.T) {
	runBufferedOutgoing(t, func(b *buffered, _ *queuetest.Delivering) {
		id := b.accepted(due(2 * time.Hour))[0]
		b.drain(time.Second)
		row := b.waitingRows()[0]
		b.rows.set(nil, func() { // after the first write, which is that of the row
			b.rows.set(nil, nil, nil)
			taken, _, err := row.Apply(task.Event{Kind: task.Acquire, Worker: "p1"}, b.clock.Now(), task.Policy{})
			if err != nil {
				t.Fatal(err)
			}
			taken.WakeRow.Seq = taken.Seq
			b.apply(store.Op{Kind: store.PutWakeup, Task: row})
			b.apply(store.Op{Kind: store.ReplaceWakeup, Task: taken})
		}, nil)
		wantRefusal(t, "cancel", b.cancel(id).Problem, kinesinv1.Reason_REASON_TOO_LATE, "about to be")
		if rows := b.waitingRows(); len(rows) != 1 || rows[0].State != task.Acquired {
			t.Errorf("rows %+v", rows)
		}
	})
}
