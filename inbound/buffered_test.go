package inbound_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api/envelope"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/inbound/buffer/buffertest"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/storetest"
	"github.com/kinesin-io/kinesin/task"
)

var inboundKey = task.InboundKey([]byte(strings.Repeat("s", task.TokenKeyBytes)))

// buffered is a fixture with a buffer; consume and halt run its consumer.
type buffered struct {
	*fixture

	memory *buffertest.Memory
	seal   *task.InboundSealer
	stop   context.CancelFunc
	done   chan error

	mu       sync.Mutex // guards all below
	refuse   error
	hang     bool
	noSends  error // the error of refused sends
	silent   bool  // sends are done and not answered
	sends    int
	receives int
	deletes  int
	most     int  // messages that a receive brings; 0: no bound
	forget   bool // deletes are answered and not done
	ways     map[string]int
	aside    []string
	left     map[string]int
	unsealed int
	troubles int
	consumed int
}

// Send and the other methods implement the buffer, with faults.
func (b *buffered) Send(ctx context.Context, messages []buffer.Outgoing) []error {
	b.mu.Lock()
	refuse, hang, silent := cmp.Or(b.refuse, b.noSends), b.hang, b.silent
	b.sends++
	b.mu.Unlock()
	if silent {
		return nil
	}
	if hang {
		<-ctx.Done()
		refuse = context.Cause(ctx)
	}
	if refuse != nil {
		return slices.Repeat([]error{refuse}, len(messages))
	}
	return b.memory.Send(ctx, messages)
}

func (b *buffered) Receive(ctx context.Context, limit int) ([]buffer.Message, error) {
	b.mu.Lock()
	refuse := b.refuse
	b.receives++
	if b.most > 0 {
		limit = min(limit, b.most)
	}
	b.mu.Unlock()
	if refuse != nil {
		return nil, refuse
	}
	return b.memory.Receive(ctx, limit)
}

func (b *buffered) Delete(ctx context.Context, messages []buffer.Message) error {
	b.mu.Lock()
	forget := b.forget
	b.deletes++
	b.mu.Unlock()
	if forget {
		return nil
	}
	return b.memory.Delete(ctx, messages)
}

func (b *buffered) Retry(ctx context.Context, messages []buffer.Message, after time.Duration) error {
	return b.memory.Retry(ctx, messages, after)
}

func (b *buffered) Depth(ctx context.Context) (visible, hidden int64, err error) {
	return b.memory.Depth(ctx)
}

func (b *buffered) BodyBytesMax() int { return b.memory.BodyBytesMax() }
func (b *buffered) Close() error      { return b.memory.Close() }

func (b *buffered) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

func runBuffered(t *testing.T, change func(*settings), test func(b *buffered)) {
	t.Helper()
	b := &buffered{ways: map[string]int{}, left: map[string]int{}, seal: task.NewInboundSealer(inboundKey)}
	runWith(t, func(f *fixture, c *settings) {
		b.fixture = f
		b.memory = buffertest.NewMemory(f.clock)
		c.InboundSealer = b.seal
		c.Buffering = inbound.Buffering{Buffer: b}
		c.Ingest.Rate, c.Ingest.Concurrency = -1, 2
		accepted := c.Hooks.Accepted
		c.Hooks.Accepted = func(l *catalog.Entry, priority uint8, way string, n int) {
			accepted(l, priority, way, n)
			b.set(func() { b.ways[way] += n })
		}
		c.Rejecting.Kept = func(_ context.Context, reason string, _ error) { b.set(func() { b.aside = append(b.aside, reason) }) }
		c.Ingest.Hooks.Left = func(why string, n int) { b.set(func() { b.left[why] += n }) }
		c.Ingest.Hooks.Ignored = func(context.Context, string, error) { b.set(func() { b.unsealed++ }) }
		c.Ingest.Hooks.Paused = func(context.Context, error, time.Duration) { b.set(func() { b.troubles++ }) }
		c.Ingest.Hooks.Consumed = func(n int, _ time.Duration) { b.set(func() { b.consumed += n }) }
		if change != nil {
			change(c)
		}
	}, func(*fixture) {
		defer b.halt()
		test(b)
	})
}

// consume runs the consumer until halt.
func (b *buffered) consume() {
	b.stop = runtest.Start(b.t, b.Run)
	synctest.Wait()
	b.time.Advance(0)
}

func (b *buffered) halt() {
	if b.stop == nil {
		return
	}
	b.stop()
	b.stop = nil
}

// drain runs the consumer for a while.
func (b *buffered) drain(d time.Duration) {
	b.consume()
	b.advance(d)
	b.halt()
}

// advance moves the time, and before and after lets all goroutines finish.
func (b *buffered) advance(d time.Duration) {
	synctest.Wait()
	b.time.Advance(d)
	synctest.Wait()
}

// accepted schedules while the time of a linger passes.
func (b *buffered) accepted(items ...*kinesinv1.ScheduleItem) (ids []string) {
	b.t.Helper()
	b.during(inbound.BufferLingerDefault, func() {
		for _, r := range b.schedule(items...) {
			if r.Problem != nil {
				b.t.Errorf("refused: %v", r.Problem)
			}
			ids = append(ids, r.Id)
		}
	})
	return ids
}

// q1 returns a task as a client sends it to the buffer itself.
func (b *buffered) q1(due time.Duration, change func(*kinesinv1.BufferedTask, *task.InboundToken)) *kinesinv1.BufferedTask {
	b.t.Helper()
	now := b.clock.Now()
	token := task.InboundToken{ID: task.NewID(now, b.clock.Uint64(), b.clock.Uint64()), Due: now.Add(due).CeilMillis(), Lambda: "mail"}
	t := &kinesinv1.BufferedTask{Item: &kinesinv1.ScheduleItem{Lambda: "mail"}, Accepted: int64(now)}
	if change != nil {
		change(t, &token)
	}
	if t.Id == "" {
		var err error
		if t.Id, err = b.seal.Seal(token); err != nil {
			b.t.Fatal(err)
		}
	}
	return t
}

// put puts tasks into the buffer in one message.
func (b *buffered) put(tasks ...*kinesinv1.BufferedTask) {
	b.t.Helper()
	body, err := envelope.Seal(b.seal, tasks, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	b.putBody(body)
}

func (b *buffered) putBody(bodies ...string) {
	b.t.Helper()
	for _, body := range bodies {
		if r := b.memory.Send(b.ctx, []buffer.Outgoing{{Body: body}}); r[0] != nil {
			b.t.Fatal(r[0])
		}
	}
}

func (b *buffered) state(id string) string {
	b.t.Helper()
	r := b.get(id)
	if r.Problem != nil {
		return r.Problem.Reason.String()
	}
	return r.Task.State
}

func TestWhatHasTimeGoesThroughTheBuffer(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		long := with(in(time.Hour), func(i *item) { i.Payload, i.Collection, i.Priority = []byte(strings.Repeat("p", 100)), "c", "low" })
		long.MaxAttempts = 3
		ids := b.accepted(in(time.Minute), long, in(0), with(in(time.Hour), func(i *item) { i.Key = "k" }))
		for n, want := range []string{"accepted", "accepted", "enqueued", "scheduled"} {
			if got := b.state(ids[n]); got != want {
				t.Errorf("task %d is %s, want %s", n, got, want)
			}
		}
		if b.memory.Len() != 1 || b.sends != 1 || len(b.waitingRows()) != 0 || b.accepted2() != 4 {
			t.Errorf("%d messages in %d sends, %d wake-up rows, %d accepted", b.memory.Len(), b.sends, len(b.waitingRows()), b.accepted2())
		}
		if v := b.get(ids[1]).Task; v.Priority != "low" || v.Due != int64(start.Add(time.Hour)) || v.Created != int64(start) || v.Id != ids[1] {
			t.Errorf("accepted: %v", v)
		}

		b.drain(time.Second)
		for n, want := range []string{"scheduled", "scheduled", "enqueued", "scheduled"} {
			if got := b.state(ids[n]); got != want {
				t.Errorf("then task %d is %s, want %s", n, got, want)
			}
		}
		v := b.get(ids[1]).Task
		if v.Collection != "c" || len(v.Payload) != 100 || v.MaxAttempts != 3 || v.Priority != "low" || v.Created != int64(start) || v.Due != int64(start.Add(time.Hour)) {
			t.Errorf("%v", v)
		}
		if b.memory.Len() != 0 || len(b.waitingRows()) != 2 || b.consumed != 2 || b.accepted2() != 4 || len(b.added) != 2 {
			t.Errorf("%d messages, %d wake-up rows, %d consumed, %d accepted, scheduler told of %d", b.memory.Len(), len(b.waitingRows()), b.consumed, b.accepted2(), len(b.added))
		}
		if b.ways["buffer"] != 2 || b.ways["store"] != 2 || b.ways["fallback"]+b.ways["direct"] != 0 {
			t.Errorf("%v", b.ways)
		}
	})
}

// accepted2 returns how many tasks the hook counted.
func (b *buffered) accepted2() int {
	b.fixture.mu.Lock()
	defer b.fixture.mu.Unlock()
	return b.fixture.accepted
}

// A field that is added to a task goes through the buffer too.
func TestEveryFieldIsInTheBuffer(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		b.accepted(&kinesinv1.ScheduleItem{
			Lambda: "mail", Due: int64(start.Add(time.Hour)), Priority: "high", Collection: "c", Payload: []byte("p"), RequestId: uuid7(1), MaxAttempts: 3,
			Timeout: 60e6, BackoffMin: 1e6, BackoffMax: 60e6, Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
			Tags: map[string]string{"tenant": "acme"}, LimitKey: "acme", StartBefore: int64(b.clock.Now().Add(2 * time.Hour)),
		})
		got, err := b.memory.Receive(b.ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		e, err := envelope.Open(b.ctx, b.seal, got[0].Body)
		if err != nil {
			t.Fatal(err)
		}
		m := e.Tasks[0].Item.ProtoReflect()
		for i := range m.Descriptor().Fields().Len() {
			field := m.Descriptor().Fields().Get(i)
			elsewhere := slices.Contains([]string{"due", "delay", "request_id", "key", "on_conflict", "blob", "then", "else", "finally", "lambda_ref"}, string(field.Name()))
			if m.Has(field) == elsewhere {
				t.Errorf("%s: there %v", field.Name(), m.Has(field))
			}
		}
	})
}

func TestTheStoreAcceptsWhatTheBufferDoesNot(t *testing.T) {
	for name, c := range map[string]struct {
		change func(b *buffered)
		takes  time.Duration
	}{
		"refuses": {func(b *buffered) { b.refuse = errors.New("access denied") }, inbound.BufferLingerDefault},
		"is slow": {func(b *buffered) { b.hang = true }, inbound.BufferWaitDefault},
	} {
		runBuffered(t, nil, func(b *buffered) {
			b.set(func() { c.change(b) })
			b.during(c.takes, func() {
				if r := b.schedule(in(time.Minute), in(time.Minute)); r[0].Problem != nil || r[1].Id == "" {
					t.Errorf("%s: %v", name, r)
				}
			})
			if len(b.waitingRows()) != 2 || b.ways["fallback"] != 2 || b.memory.Len() != 0 {
				t.Errorf("%s: %d wake-up rows, %v", name, len(b.waitingRows()), b.ways)
			}
			b.accept(in(time.Minute)) // the buffer is left alone for a while: nothing waits for it
			if b.sends != 1 || b.ways["fallback"] != 3 {
				t.Errorf("%s: %d sends, %v", name, b.sends, b.ways)
			}
			b.set(func() { b.refuse, b.hang = nil, false })
			b.time.Advance(11 * time.Second) // also over the send that hangs
			if id := b.accepted(in(time.Minute)); b.state(id[0]) != "accepted" || b.ways["buffer"] != 1 {
				t.Errorf("%s: then %s, %v", name, b.state(id[0]), b.ways)
			}
			b.accepted(with(in(time.Minute), func(i *item) { i.Payload = make([]byte, 4096) })) // fits
			b.time.Advance(0)
		})
	}
}

func TestABodyTooLargeForTheBufferGoesToTheStore(t *testing.T) {
	runBuffered(t, func(c *settings) {
		c.Buffering.Buffer = small{c.Buffering.Buffer}
	}, func(b *buffered) {
		b.accept(with(in(time.Minute), func(i *item) { i.Payload = make([]byte, 3000) }))
		if len(b.waitingRows()) != 1 || b.ways["store"] != 1 {
			t.Errorf("%v", b.ways)
		}
	})
}

type small struct{ buffer.Buffer }

func (small) BodyBytesMax() int { return 2000 }

func TestManyCallsShareMessages(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		var wg sync.WaitGroup
		b.during(inbound.BufferLingerDefault, func() {
			for range 1000 {
				wg.Go(func() { b.accept(in(time.Minute)) })
			}
			wg.Wait()
		})
		if b.sends > 10 || b.memory.Len() > 60 {
			t.Errorf("%d sends of %d messages", b.sends, b.memory.Len())
		}
		b.drain(time.Second)
		if len(b.waitingRows()) != 1000 || b.memory.Len() != 0 {
			t.Errorf("%d rows, %d messages", len(b.waitingRows()), b.memory.Len())
		}
	})
}

func TestIdsThatWereSentStraightToTheBuffer(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		later, now := b.q1(time.Minute, func(t *kinesinv1.BufferedTask, k *task.InboundToken) { k.Priority, t.Item.Priority = "high", "high" }), b.q1(0, nil)
		for _, id := range []string{later.Id, now.Id} {
			if got := b.state(id); got != "accepted" { // or never sent: nobody here can know
				t.Errorf("before: %s", got)
			}
		}
		b.put(later, now)
		b.drain(time.Second)
		if v := b.get(later.Id).Task; v.GetState() != "scheduled" || v.Id != later.Id || v.Priority != "high" {
			t.Errorf("%v", v)
		}
		if v := b.get(now.Id).Task; v.GetState() != "enqueued" || v.Priority != "normal" || b.messages() != 1 {
			t.Errorf("%v, %d messages", v, b.messages())
		}
		if b.ways["direct"] != 2 || b.accepted2() != 2 {
			t.Errorf("%v", b.ways)
		}
		if r := b.cancel(later.Id); r.Outcome != "cancelled" || r.State != "scheduled" {
			t.Errorf("%v", r)
		}
		response, err := b.List(b.ctx, &kinesinv1.ListRequest{Lambda: "mail", State: "cancelled"})
		if err != nil || len(response.Tasks) != 1 || !strings.HasPrefix(response.Tasks[0].Id, "k1") || b.state(response.Tasks[0].Id) != "cancelled" {
			t.Errorf("%v, %v", response, err)
		}
		if b.state(later.Id[:len(later.Id)-1]+"A") != isNotFound.String() {
			t.Error("a forged id is found")
		}
	})
}

func TestHowLongAnIDMayMeanATaskInTheBuffer(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		if _, err := b.UpdateLambda(b.ctx, masked(&kinesinv1.UpdateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "mail", Retention: time.Hour.Microseconds()}})); err != nil {
			t.Fatal(err)
		}
		soon, far := b.q1(time.Minute, nil), b.q1(900*time.Hour, nil)
		keyed := b.accept(with(in(time.Minute), func(i *item) { i.Key = "k" }))
		b.time.Advance(61*time.Minute - time.Millisecond)
		if b.state(soon.Id) != "accepted" || b.state(far.Id) != "accepted" || b.state(keyed) != "scheduled" {
			t.Error("too early")
		}
		b.time.Advance(time.Millisecond)
		if b.state(soon.Id) != isNotFound.String() || b.state(far.Id) != "accepted" {
			t.Errorf("%s after its row would be gone", b.state(soon.Id))
		}
		b.time.Advance(15 * 24 * time.Hour)
		if b.state(far.Id) != isNotFound.String() {
			t.Errorf("%s after its message would be gone", b.state(far.Id))
		}
		wantRefusal(t, "cancel", b.cancel(far.Id).Problem, isNotFound)
	})
	run(t, func(f *fixture) { // without a buffer nothing is in it
		id := f.seal.Seal(task.Token{ID: task.NewID(f.clock.Now(), 1, 2), Due: start.Add(time.Hour), Partition: task.Partition{Lambda: f.lambda.Ref}})
		wantRefusal(t, "get", f.get(id).Problem, isNotFound)
		wantRefusal(t, "cancel", f.cancel(id).Problem, isNotFound)
	})
}

func TestACancelThatOvertakesItsScheduleWins(t *testing.T) {
	for name, due := range map[string]time.Duration{"later": time.Minute, "now": 0} {
		runBuffered(t, nil, func(b *buffered) {
			one, other := b.q1(due, nil), b.q1(due, nil)
			b.put(one, other)
			if r := b.cancel(one.Id); r.Outcome != "cancelled" || r.State != "accepted" || r.Problem != nil {
				t.Errorf("%s: %v", name, r)
			}
			if got := b.state(one.Id); got != "cancelled" {
				t.Errorf("%s: %s", name, got)
			}
			wantRefusal(t, name+" again", b.cancel(one.Id).Problem, isTooLate)
			b.drain(time.Second)
			if b.state(one.Id) != "cancelled" || b.memory.Len() != 0 || len(b.aside) != 0 {
				t.Errorf("%s: %s, %d messages, %v", name, b.state(one.Id), b.memory.Len(), b.aside)
			}
			if n := len(b.waitingRows()) + b.messages(); n != 1 || b.state(other.Id) == "accepted" {
				t.Errorf("%s: %d rows and messages; the other is %s", name, n, b.state(other.Id))
			}
			if slices.Contains(b.added, b.idOf(one.Id)) || slices.Contains(b.awake, b.idOf(one.Id)) {
				t.Errorf("%s: the scheduler was told", name)
			}
		})
	}
}

// The cancel runs between any two steps of the consumer, and the consumer between any two steps of the
// cancel.
func TestACancelAndItsScheduleAtOnce(t *testing.T) {
	for _, due := range []time.Duration{time.Minute, 0} {
		for step := range 3 {
			runBuffered(t, nil, func(b *buffered) {
				one := b.q1(due, nil)
				b.put(one)
				var r *kinesinv1.CancelResult
				steps := 0
				hook := func() {
					if steps++; steps == step+1 {
						b.rows.set(nil, nil, nil)
						r = b.cancel(one.Id)
					}
				}
				b.rows.set(func([]store.Op) { hook() }, hook, hook)
				b.drain(time.Second)
				b.rows.set(nil, nil, nil)
				if r == nil && due == 0 && step == 2 {
					return // a task that goes to its queue needs one write, and no read after it
				}
				if r.Outcome != "cancelled" || b.state(one.Id) != "cancelled" || len(b.waitingRows()) != 0 {
					t.Errorf("due in %v, cancel at step %d of the consumer: %v, then %s, %d wake-up rows", due, step, r, b.state(one.Id), len(b.waitingRows()))
				}
			})
			runBuffered(t, nil, func(b *buffered) {
				one := b.q1(due, nil)
				b.put(one)
				steps := 0
				hook := func() {
					if steps++; steps == step+1 {
						b.rows.set(nil, nil, nil)
						b.drain(time.Second)
					}
				}
				b.rows.set(func([]store.Op) { hook() }, hook, hook)
				r := b.cancel(one.Id)
				b.rows.set(nil, nil, nil)
				if r.Outcome != "cancelled" || b.state(one.Id) != "cancelled" || len(b.waitingRows()) != 0 || b.memory.Len() != 0 {
					t.Errorf("due in %v, consumer at step %d of the cancel: %v, then %s, %d wake-up rows", due, step, r, b.state(one.Id), len(b.waitingRows()))
				}
			})
		}
	}
}

func TestAMessageThatComesAgainMakesNoSecondTask(t *testing.T) {
	for name, live := range map[string]func(b *buffered, id string){
		"waiting":    func(*buffered, string) {},
		"dispatched": func(b *buffered, id string) { b.mustDispatch(id) },
		"ended": func(b *buffered, id string) {
			b.mustDispatch(id)
			b.claim(id)
			b.finish(id, task.OutcomeSuccess)
		},
		"cancelled": func(b *buffered, id string) { b.cancel(id) },
	} {
		runBuffered(t, nil, func(b *buffered) {
			one := b.accepted(with(in(time.Minute), func(i *item) { i.Payload = make([]byte, 100) }))[0]
			b.set(func() { b.forget = true })
			b.drain(time.Second)
			live(b, one)
			before := b.state(one)
			added := len(b.added)
			b.set(func() { b.forget = false })
			b.drain(time.Minute)
			waiting := map[string]int{"waiting": 1}[name]
			told := map[string]int{"waiting": 1, "dispatched": 1}[name]
			if b.state(one) != before || len(b.waitingRows()) != waiting || b.memory.Len() != 0 || len(b.added) != added+told {
				t.Errorf("%s: then %s, %d wake-up rows, %d messages, told of %v", name, b.state(one), len(b.waitingRows()), b.memory.Len(), b.added)
			}
		})
	}
}

// A task whose write was not answered comes again out of the buffer, and the scheduler is told of it then.
func TestWhatWasStoredWithoutAnAnswerIsAnnounced(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		one := b.accepted(in(time.Minute))[0]
		b.driver.Fail(store.PutWakeup, 1, 1, storetest.AppliedButErrored)
		b.driver.FailReads(1000)
		b.drain(10 * time.Second)
		if len(b.wakeupRows()) != 1 || len(b.added) != 0 || b.memory.Len() != 1 {
			t.Fatalf("%d wake-up rows, told of %v, %d messages", len(b.wakeupRows()), b.added, b.memory.Len())
		}
		b.driver.FailReads(0)
		b.drain(time.Minute)
		if len(b.waitingRows()) != 1 || !slices.Equal(b.added, []task.ID{b.idOf(one)}) || b.memory.Len() != 0 {
			t.Errorf("%d wake-up rows, told of %v, %d messages", len(b.waitingRows()), b.added, b.memory.Len())
		}
	})
}

func (b *buffered) mustDispatch(id string) {
	b.t.Helper()
	if err := b.dispatch(id); err != nil {
		b.t.Fatal(err)
	}
}

// A message that comes again days after its task has run makes no second run, whatever was forgotten
// meanwhile.
func TestALateDuplicateNeverRunsAgain(t *testing.T) {
	for seed := range 40 {
		runBuffered(t, nil, func(b *buffered) {
			for range seed {
				b.clock.Uint64() // another course
			}
			upTo := func(d time.Duration) time.Duration { return time.Duration(b.clock.Uint64() % uint64(d)) }
			retention := []time.Duration{time.Minute, time.Hour, task.RetentionDefault}[seed%3]
			if _, err := b.UpdateLambda(b.ctx, masked(&kinesinv1.UpdateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "mail", Retention: retention.Microseconds()}})); err != nil {
				t.Fatal(err)
			}
			due := upTo(2*24*time.Hour) + 11*time.Second
			one := b.accepted(in(due))[0]
			b.set(func() { b.forget = true })
			b.drain(time.Second)
			ends := "success"
			if seed%2 == 0 {
				b.cancel(one)
				ends = "cancelled"
			} else {
				b.time.Advance(due)
				b.mustDispatch(one)
				b.claim(one)
				b.finish(one, task.OutcomeSuccess)
			}
			b.time.Advance(upTo(11 * 24 * time.Hour))
			if _, err := b.store.Sweep(b.ctx, b.clock.Now(), 10); err != nil {
				t.Fatal(err)
			}
			b.set(func() { b.forget = false })
			b.drain(time.Minute)
			remembered := b.row(one).State.String() == ends
			aside := slices.Equal(b.aside, []string{"stale"})
			if len(b.waitingRows()) != 0 || b.messages() != 0 || b.memory.Len() != 0 || remembered == aside {
				t.Errorf("seed %d: %d wake-up rows, %d messages sent, %d left; its row is %s, %v", seed, len(b.waitingRows()), b.messages(), b.memory.Len(), b.row(one).State, b.aside)
			}
		})
	}
}

func TestWhatMayHaveRunIsSetAside(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		one := b.accepted(in(time.Minute))[0]
		b.set(func() { b.forget = true })
		b.drain(time.Second)
		b.mustDispatch(one)
		b.claim(one)
		b.finish(one, task.OutcomeSuccess)
		b.time.Advance(task.RetentionDefault + time.Hour)
		if n, err := b.store.Sweep(b.ctx, b.clock.Now(), 10); n != 1 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		b.set(func() { b.forget = false })
		late := b.q1(time.Minute, nil) // its first delivery, however late, is taken
		b.time.Advance(task.RetentionDefault + time.Hour)
		b.put(late)
		b.drain(time.Minute)
		if !slices.Equal(b.aside, []string{"stale"}) || b.memory.Len() != 0 || b.messages() != 1 || b.row(late.Id).State != task.Enqueued {
			t.Errorf("%v, %d messages, the late one is %s", b.aside, b.messages(), b.row(late.Id).State)
		}
	})
}

func TestWhileTheStoreFailsNothingLeavesTheBuffer(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		var fails atomic.Bool
		fails.Store(true)
		b.driver.FailMatching(func(op *store.Op) bool { return op.Kind == store.PutWakeup && fails.Load() }, 1, 1_000_000, storetest.NotApplied)
		var want []string
		for range 30 {
			one := b.q1(time.Hour, nil)
			want = append(want, one.Id)
			b.put(one)
		}
		b.consume()
		b.time.Advance(20 * time.Minute)
		b.halt()
		b.set(func() {
			if b.receives > 120 || b.troubles == 0 || b.left["store"] == 0 {
				t.Errorf("%d receives, %d pauses, %v", b.receives, b.troubles, b.left)
			}
		})
		if b.memory.Len() != 30 || len(b.aside) != 0 {
			t.Fatalf("%d messages, %v", b.memory.Len(), b.aside)
		}
		fails.Store(false)
		b.drain(3 * time.Minute)
		for _, id := range want {
			if b.state(id) != "scheduled" {
				t.Errorf("a task is %s", b.state(id))
			}
		}
		if b.memory.Len() != 0 {
			t.Errorf("%d messages", b.memory.Len())
		}
	})
}

func TestEachWriteOfAnArrivalFailingEitherWay(t *testing.T) {
	for _, kind := range []store.OpKind{store.PutWakeup, store.PutTask, store.PutPayload} {
		for _, how := range []storetest.Fault{storetest.NotApplied, storetest.AppliedButErrored} {
			runBuffered(t, nil, func(b *buffered) {
				b.driver.Fail(kind, 1, 9, how)
				change := func(t *kinesinv1.BufferedTask, _ *task.InboundToken) { t.Item.Payload = make([]byte, 100) }
				soon, later := b.q1(0, change), b.q1(time.Hour, change)
				b.put(soon, later)
				b.drain(10 * time.Minute)
				if b.state(soon.Id) != "enqueued" || b.state(later.Id) != "scheduled" || len(b.get(later.Id).Task.Payload) != 100 || len(b.waitingRows()) != 1 {
					t.Errorf("kind %d, fault %d: %s and %s, %d wake-up rows", kind, how, b.state(soon.Id), b.state(later.Id), len(b.waitingRows()))
				}
			})
		}
	}
}

func TestABufferThatFailsIsNotAskedInALoop(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		b.set(func() { b.refuse = errors.New("no route") })
		b.consume()
		b.time.Advance(10 * time.Minute)
		b.set(func() {
			if b.receives > 120 || b.receives < 10 {
				t.Errorf("%d receives", b.receives)
			}
			b.refuse = nil
		})
		one := b.q1(time.Hour, nil)
		b.put(one)
		b.time.Advance(31 * time.Second)
		if b.state(one.Id) != "scheduled" {
			t.Error(b.state(one.Id))
		}
	})
}

func TestTheRateIsKept(t *testing.T) {
	for _, rate := range []float64{0.5, 20, 500} {
		runBuffered(t, func(c *settings) { c.Ingest.Rate = rate }, func(b *buffered) {
			all := int(rate*60) + 100
			for n := 0; n < all; n += 5 {
				b.put(b.q1(time.Hour, nil), b.q1(time.Hour, nil), b.q1(time.Hour, nil), b.q1(time.Hour, nil), b.q1(time.Hour, nil))
			}
			b.consume()
			b.time.Advance(10 * time.Second)
			b.set(func() { b.consumed = 0 })
			b.time.Advance(30 * time.Second)
			b.set(func() {
				if got := float64(b.consumed) / 30; got > 1.1*rate+10./30 || got < 0.85*rate-10./30 {
					t.Errorf("%.1f tasks a second, want %.1f", got, rate)
				}
			})
		})
	}
}

// Messages come in any order and any number of times, tasks share them in any way, cancels and failures come
// in between.
func TestRandomDuplicates(t *testing.T) {
	for seed := range 20 {
		runBuffered(t, nil, func(b *buffered) {
			for range seed {
				b.clock.Uint64() // another course
			}
			chance := func(n int) int { return int(b.clock.Uint64() % uint64(n)) }
			var all []*kinesinv1.BufferedTask
			cancelled := map[string]bool{}
			b.driver.Fail(store.PutWakeup, 7+seed, 3, storetest.AppliedButErrored)
			b.consume()
			for range 60 {
				one := b.q1(time.Duration(chance(40))*time.Second, nil)
				all = append(all, one)
				message := []*kinesinv1.BufferedTask{one}
				for range chance(3) {
					message = append(message, all[chance(len(all))])
				}
				b.put(message...)
				b.set(func() { b.forget = chance(3) == 0 })
				if chance(6) == 0 {
					id := all[chance(len(all))].Id
					if b.cancel(id).Outcome == "cancelled" {
						cancelled[id] = true
					}
				}
				b.advance(time.Duration(chance(3000)) * time.Millisecond)
			}
			b.set(func() { b.forget = false })
			b.advance(5 * time.Minute)
			rows := map[task.ID]int{}
			for _, row := range b.waitingRows() {
				rows[row.ID]++
			}
			for _, one := range all {
				state, n := b.state(one.Id), rows[b.idOf(one.Id)]
				ok := state == "scheduled" && n == 1 || state == "enqueued" && n == 0 || cancelled[one.Id] && state == "cancelled" && n == 0
				if !ok || cancelled[one.Id] != (state == "cancelled") {
					t.Errorf("seed %d: a task is %s with %d wake-up rows, cancelled %v", seed, state, n, cancelled[one.Id])
				}
			}
			if b.memory.Len() != 0 || len(b.aside) != 0 {
				t.Errorf("seed %d: %d messages, %v", seed, b.memory.Len(), b.aside)
			}
		})
	}
}

// A first call that is acknowledged by the buffer and a second one, whose task row is there before the message is
// read: what comes out of the buffer is that task, under the id of the second call.
func TestARepeatedCallOvertakesTheBuffer(t *testing.T) {
	runBuffered(t, nil, func(b *buffered) {
		call := func(r *kinesinv1.ScheduleRequest) (id string) {
			r.Items = []*kinesinv1.ScheduleItem{{Lambda: "mail", Delay: time.Hour.Microseconds(), RequestId: uuid7(1)}}
			b.during(inbound.BufferLingerDefault, func() {
				if response, err := b.Schedule(b.ctx, r); err != nil {
					t.Error(err)
				} else {
					id = response.Results[0].Id
				}
			})
			return id
		}
		first := call(&kinesinv1.ScheduleRequest{First: true})
		if row := b.row(first); !row.ID.IsZero() || b.wakeupOf(first).ID != row.ID {
			t.Error("the first call did not go to the buffer")
		}
		b.time.Advance(time.Second)
		again := call(&kinesinv1.ScheduleRequest{Again: true})
		b.drain(time.Minute)
		row := b.row(again)
		if id := b.fixture.seal.SealTask(&row); again == first || again != id || row.State != task.Scheduled {
			t.Errorf("the calls have %s and %s, the task %s, and is %s", first, again, id, row.State)
		}
		if left := b.wakeupOf(first); !left.ID.IsZero() {
			t.Errorf("what came out of the buffer stayed: %v", left)
		}
	})
}
