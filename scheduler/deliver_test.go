package scheduler_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const self = "p-self"

// outbound is the world of a deliver lambda: a Deliverer that does its three steps in the simplest way, and
// processes that may be there or gone.
type outbound struct {
	*world

	mu      sync.Mutex
	sent    []sending
	batches int // under way
	most    int
	refuse  func(t *task.Task) error // instead of sending
	hang    chan struct{}            // sends wait for it
	losing  bool                     // the store refuses to acquire
	here    []string
	gone    []string
	changed chan struct{} // the members
}

type sending struct {
	id task.ID
	at task.Instant
}

func inOutbound(t *testing.T, test func(o *outbound)) {
	t.Helper()
	inWorld(t, 8, func(w *world) {
		w.parts.all = []task.Partition{high}
		test(&outbound{world: w, changed: make(chan struct{})})
	})
}

func (o *outbound) Self() string { return "all" }

func (o *outbound) Owners(all []task.Partition) (owners, members []string) {
	return everything{}.Owners(all)
}

func (o *outbound) Changed() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.changed
}

// members says who is there, and who is gone for sure.
func (o *outbound) members(here, gone []string) {
	o.mu.Lock()
	o.here, o.gone = here, gone
	close(o.changed)
	o.changed = make(chan struct{})
	o.mu.Unlock()
	synctest.Wait()
}

func (o *outbound) presence(process string) (here, gone bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Contains(o.here, process), slices.Contains(o.gone, process)
}

// start runs a scheduler of that name; stop ends it.
func (o *outbound) start(process string) (s *scheduler.Scheduler, stop func()) {
	s = scheduler.New(scheduler.Config{
		Store: o.rows, Queue: o.queue, Leases: o.leases, Ownership: o, Partitions: o.parts,
		Clock: o.clock, Log: slog.New(slog.DiscardHandler), Hooks: o.hooks, LookaheadRows: o.look,
		Process: process, Presence: o.presence, Foreign: o.here != nil, Gating: o.gating, Quotas: o.quotas,
		Delivery: &scheduler.Delivery{Deliverer: o, Is: func(p task.Partition) bool { return p == high }},
	})
	ctx, cancel := context.WithCancel(o.ctx)
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx, o.world.sent, nil) }()
	stop = sync.OnceFunc(func() {
		cancel()
		synctest.Wait()
		o.time.Advance(time.Minute) // what hangs is abandoned
		if err := <-done; err != nil {
			o.t.Errorf("run: %v", err)
		}
	})
	o.t.Cleanup(stop)
	synctest.Wait()
	return s, stop
}

// Deliver is the scheduler's Deliverer.
func (o *outbound) Deliver(ctx context.Context, orders []task.Order) (left []task.Undelivered) {
	o.mu.Lock()
	o.batches++
	o.most = max(o.most, o.batches)
	o.mu.Unlock()
	slices.SortStableFunc(orders, func(a, b task.Order) int { return int(a.Task.Due - b.Task.Due) })
	for _, order := range orders {
		if u, undone := o.deliver(ctx, order); undone {
			left = append(left, u)
		}
	}
	o.mu.Lock()
	o.batches--
	o.mu.Unlock()
	return left
}

func (o *outbound) deliver(ctx context.Context, order task.Order) (task.Undelivered, bool) {
	o.mu.Lock()
	refuse, hang, losing := o.refuse, o.hang, o.losing
	o.mu.Unlock()
	if losing {
		return task.Undelivered{Order: order, Err: store.ErrUnknown}, true
	}
	next, _, err := order.Task.Apply(order.Event, o.clock.Now(), policy)
	if err != nil {
		return task.Undelivered{}, false
	}
	op := store.Op{Kind: store.ReplaceTask, Task: next}
	switch {
	case order.First && next.Key != "":
		op.Kind = store.PutTask
	case order.First:
		op.Kind, op.Task.WakeRow.Seq = store.ReplaceWakeup, next.Seq
	}
	if results, _ := o.rows.Apply(ctx, []store.Op{op}); results[0] != nil {
		if conflict, is := errors.AsType[*store.ConflictError](results[0]); is && conflict.Task != nil && conflict.Task.State == task.Acquired {
			return task.Undelivered{Order: task.Order{Task: *conflict.Task, First: order.First, Event: order.Event}}, true
		}
		return task.Undelivered{}, false
	}
	next = op.Task
	order.Task, order.First = next, op.Kind == store.ReplaceWakeup
	_ = clock.Sleep(ctx, o.clock, next.Due.Sub(o.clock.Now()))
	if hang != nil {
		select {
		case <-hang:
		case <-ctx.Done():
			return task.Undelivered{Order: order, Acquired: true, Err: context.Cause(ctx)}, true
		}
	}
	if refuse != nil {
		if err := refuse(&order.Task); err != nil {
			return task.Undelivered{Order: order, Acquired: true, Err: err}, true
		}
	}
	o.mu.Lock()
	o.sent = append(o.sent, sending{next.ID, o.clock.Now()})
	o.mu.Unlock()
	ops := []store.Op{store.Remove(&next)}
	if !order.First {
		over, _, _ := next.Apply(task.Event{Kind: task.HandOver}, o.clock.Now(), policy)
		ops = store.Change(over, false, false)
	}
	_, _ = o.rows.Apply(ctx, ops)
	return task.Undelivered{}, false
}

func (o *outbound) set(change func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change()
}

// sendings is when each task was sent.
func (o *outbound) sendings() map[task.ID][]task.Instant {
	o.mu.Lock()
	defer o.mu.Unlock()
	all := map[task.ID][]task.Instant{}
	for _, s := range o.sent {
		all[s.id] = append(all[s.id], s.at)
	}
	return all
}

// wantSent checks that each task was sent once, that long after its due time and no later.
func (o *outbound) wantSent(after, latest time.Duration, tasks ...task.Task) {
	o.t.Helper()
	all := o.sendings()
	for _, t := range tasks {
		at := all[t.ID]
		if len(at) != 1 || at[0] < t.Due.Add(after) || at[0] > t.Due.Add(latest) {
			o.t.Errorf("task due at +%v was sent at %v, want once, %v to %v later", t.Due.Sub(start), o.offsets(at), after, latest)
		}
	}
}

func (o *outbound) offsets(at []task.Instant) (offsets []time.Duration) {
	for _, i := range at {
		offsets = append(offsets, i.Sub(start))
	}
	return offsets
}

// acquired stores a task that a process took at an instant and left.
func (o *outbound) acquired(p task.Partition, due time.Duration, process string, ago time.Duration) task.Task {
	o.t.Helper()
	return o.acquire(o.waiting(p, due), process, ago)
}

func (o *outbound) acquire(t task.Task, process string, ago time.Duration) task.Task {
	o.t.Helper()
	taken, _, err := t.Apply(task.Event{Kind: task.Acquire, Worker: process}, o.clock.Now().Add(-ago), policy)
	if err != nil {
		o.t.Fatal(err)
	}
	taken.WakeRow.Seq = taken.Seq
	o.apply(store.Op{Kind: store.ReplaceWakeup, Task: taken})
	return taken
}

func TestDeliverTasksAreSentAtTheirMillisecond(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		var all []task.Task
		for n := range 30 {
			all = append(all, o.waiting(high, time.Duration(n*n)*17*time.Millisecond))
		}
		s, _ := o.start(self)
		o.advance(5 * time.Second)
		late := o.waiting(high, 700*time.Millisecond) // stored after the scan that would have found it
		s.Added(&late)
		keyed := o.awake(high, 900*time.Millisecond, func(t *task.Task) { t.Key = "k" })
		s.Awake(&keyed)
		o.advance(20 * time.Second)
		o.wantSent(0, 0, append(all, late, keyed)...)
		if o.read(keyed.ID).State != task.Delivered {
			t.Errorf("row of the task with a key: %s", o.read(keyed.ID).State)
		}
	})
}

// One call may find tasks that another process has, which is no failure, beside those that the queue refuses.
func TestTasksOfAnotherProcessBesideRefusedOnes(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		o.set(func() {
			o.refuse = func(*task.Task) error { return errors.New("the queue does not answer") }
		})
		var theirs, ours []task.Task
		for range 5 {
			theirs, ours = append(theirs, o.waiting(high, 3*time.Second)), append(ours, o.waiting(high, 3*time.Second))
		}
		o.start(self)
		o.set(func() { o.here = []string{self, "other"} }) // not at the start, when it would be looked for what others did
		o.advance(time.Second)
		for _, t := range theirs {
			o.acquire(t, "other", 0)
		}
		o.advance(5 * time.Second)
		o.set(func() { o.refuse = nil })
		o.advance(10 * time.Second)
		if n := len(o.sendings()); n != len(ours) {
			t.Errorf("%d were sent, want %d", n, len(ours))
		}
	})
}

// Dynein: ten stuck rows at a partition's head delay those behind by 110 s. Here they outnumber the
// look-ahead.
func TestStuckRowsAtTheHeadDelayNobody(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		o.look = 64
		o.set(func() { o.here = []string{"other"} })
		var stuck, behind []task.Task
		for range 1000 {
			stuck = append(stuck, o.acquired(high, -time.Minute, "other", time.Second))
		}
		for n := range 100 {
			behind = append(behind, o.waiting(high, time.Duration(n)*10*time.Millisecond))
		}
		s, _ := o.start(self)
		o.advance(2 * time.Second)
		o.wantSent(0, 0, behind...)
		if n := s.Counts(high).Stuck; n != 1000 {
			t.Errorf("%d stuck, want 1000", n)
		}
		o.advance(26 * time.Second) // 29 s after they were acquired
		if n := len(o.sendings()); n != len(behind) {
			t.Errorf("%d were sent, want none of another living process", n-len(behind))
		}
		o.advance(10 * time.Second)
		for _, row := range stuck {
			if at := o.sendings()[row.ID]; len(at) != 1 || at[0] < row.ClaimedAt.Add(task.AcquireTimeout) {
				t.Errorf("a stuck one was sent at %v", o.offsets(at))
			}
		}
		if n := s.Counts(high).Stuck; n != 0 {
			t.Errorf("%d stuck, want none", n)
		}
	})
}

func TestAStuckRowIsJudgedByWhoAndWhen(t *testing.T) {
	for _, c := range []struct {
		name, process string
		ago           time.Duration // since it was acquired
		from, to      time.Duration // from now on, when it is sent
	}{
		{"this process, in another life", self, 0, 0, 0},
		{"gone", "gone", 0, 0, 0},
		{"living", "here", 0, task.AcquireTimeout, task.AcquireTimeout + scheduler.WindowDefault/2},
		{"living, long ago", "here", task.AcquireTimeout, 0, 0},
		{"stranger", "who", 0, 5 * time.Second, 5*time.Second + scheduler.WindowDefault/2},
		{"stranger, a while ago", "who", 5 * time.Second, 0, 0},
	} {
		for _, due := range []time.Duration{0, -24 * time.Hour} {
			t.Run(c.name, func(t *testing.T) {
				inOutbound(t, func(o *outbound) {
					o.set(func() { o.here, o.gone = []string{"here", self}, []string{"gone"} })
					row := o.acquired(high, due, c.process, c.ago)
					o.start(self)
					o.advance(time.Minute)
					at := o.sendings()[row.ID]
					if len(at) != 1 || at[0] < start.Add(c.from) || at[0] > start.Add(c.to) {
						t.Errorf("sent at %v, want once between %v and %v", o.offsets(at), c.from, c.to)
					}
				})
			})
		}
	}
}

func TestRowsOfAMemberThatLeavesAreTakenAtOnce(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		o.set(func() { o.here = []string{"other", self} })
		row := o.acquired(high, 0, "other", 0)
		o.start(self)
		o.advance(2 * time.Second)
		if len(o.sendings()) != 0 {
			t.Error("sent while its process lives")
		}
		o.members([]string{self}, []string{"other"})
		o.wantSent(2*time.Second, 2*time.Second, row)
	})
}

// Rows of tasks with a key are judged in the same way, and outnumber the look-ahead here.
func TestStuckRowsWithAKeyAreJudgedLikeOthers(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		o.look = 64
		o.set(func() { o.here, o.gone = []string{"here"}, []string{"gone"} })
		held := func(process string) task.Task {
			return o.awake(high, 0, func(t *task.Task) {
				t.Key, t.Seq, t.State, t.Worker, t.ClaimedAt = "k", 2, task.Acquired, process, t.Due
			})
		}
		var left, kept []task.Task
		for range 300 {
			kept = append(kept, held("here"))
		}
		for range 10 {
			left = append(left, held("gone"))
		}
		behind := o.awake(high, time.Second, func(t *task.Task) { t.Key = "k" })
		o.start(self)
		o.advance(20 * time.Second)
		o.wantSent(0, 0, append(left, behind)...)
		if n := len(o.sendings()); n != len(left)+1 {
			t.Errorf("%d were sent of a process that lives", n-len(left)-1)
		}
		o.advance(time.Minute)
		o.wantSent(task.AcquireTimeout, task.AcquireTimeout+scheduler.WindowDefault/2, kept...)
		if got := o.read(left[0].ID); got.State != task.Delivered || got.Worker != self {
			t.Errorf("row %+v", got)
		}
	})
}

func TestAFailedSendIsTriedAgainBesideOthers(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		bad := o.waiting(high, 0)
		failing, tries := true, []task.Instant{}
		o.refuse = func(t *task.Task) error {
			if t.ID != bad.ID || !failing {
				return nil
			}
			tries = append(tries, o.clock.Now())
			return errors.New("no")
		}
		var others []task.Task
		for n := range 600 {
			others = append(others, o.waiting(high, time.Duration(n)*100*time.Millisecond))
		}
		s, _ := o.start(self)
		o.advance(time.Minute)
		o.wantSent(0, 0, others...)
		if n := s.Counts(high).Stuck; n != 1 {
			t.Errorf("%d stuck, want 1", n)
		}
		if n := len(tries); n < 15 || n > 100 {
			t.Errorf("%d tries in a minute", n)
		}
		for k := 1; k < len(tries); k++ {
			if pause := tries[k].Sub(tries[k-1]); pause < 50*time.Millisecond || pause > 5100*time.Millisecond {
				t.Errorf("try %d came %v after the one before", k, pause)
			}
		}
		o.set(func() { failing = false })
		o.advance(6 * time.Second)
		if len(o.sendings()[bad.ID]) != 1 || s.Counts(high).Stuck != 0 {
			t.Errorf("sent %d times, %d stuck", len(o.sendings()[bad.ID]), s.Counts(high).Stuck)
		}
		if o.failed[high] == 0 {
			t.Error("nobody was told")
		}
	})
}

func TestAHopelessTaskIsTriedSeldom(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		o.waiting(high, 0)
		tries := 0
		o.refuse = func(*task.Task) error { tries++; return queue.ErrUndeliverable }
		o.start(self)
		o.advance(time.Hour)
		if tries < 5 || tries > 7 {
			t.Errorf("%d tries in an hour", tries)
		}
	})
}

func TestASlowSendDelaysNoOther(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		slow := o.waiting(high, 0)
		o.hang = make(chan struct{})
		o.start(self)
		synctest.Wait()
		o.set(func() { o.hang = nil })
		quick := o.waiting(high, 10*time.Second)
		o.advance(time.Minute)
		o.wantSent(0, 0, quick)
		if len(o.sendings()[slow.ID]) != 0 {
			t.Error("the slow one was sent")
		}
	})
}

// While nothing can be sent, most tasks stay scheduled, where they cost nothing; then all go.
func TestAnOutageOfTheQueueIsBoundedAndEnds(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		o.look = 1 << 14
		var all []task.Task
		for range 8000 {
			all = append(all, o.waiting(high, 0))
		}
		o.refuse = func(*task.Task) error { return errors.New("down") }
		s, _ := o.start(self)
		o.advance(20 * time.Second)
		if n := s.Counts(high).Stuck; n < 1000 || n > 6000 {
			t.Errorf("%d acquired and stuck of %d", n, len(all))
		}
		o.set(func() { o.refuse = nil })
		o.advance(20 * time.Second)
		o.wantSent(20*time.Second, 30*time.Second, all...)
		if o.most > 8 {
			t.Errorf("%d batches at a time", o.most)
		}
	})
}

func TestAStoreThatRefusesIsTriedAgainSoon(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		row := o.waiting(high, 0)
		o.losing = true
		o.start(self)
		o.advance(20 * time.Second)
		if n := o.failed[high]; n < 3 || n > 100 {
			t.Errorf("%d failures in 20 s", n)
		}
		o.set(func() { o.losing = false })
		o.advance(6 * time.Second)
		o.wantSent(20*time.Second, 26*time.Second, row)
	})
}

// TestAnUnreadableRowDelaysNoDelivery checks that the tasks that are due after one with a damaged task row,
// which is read alone, are sent on time.
func TestAnUnreadableRowDelaysNoDelivery(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		bad := o.awake(high, time.Second, func(t *task.Task) { t.Key = "k" })
		after := o.waiting(high, 3*time.Second)
		o.rows.damaged = bad.ID
		o.start(self)
		o.advance(20 * time.Second)
		o.wantSent(0, 0, after)
		if n := len(o.sendings()); n != 1 {
			t.Errorf("%d tasks sent, want only the one whose row can be read", n)
		}
		if n := o.failed[high]; n == 0 || n > 10 {
			t.Errorf("%d failures in 20 s, want a few", n)
		}
	})
}

func TestAScanThatFailsIsTriedAgainSoon(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		row := o.waiting(high, 0)
		o.rows.fails = func(task.Partition) error { return errors.New("away") }
		o.start(self)
		o.advance(20 * time.Second)
		if n := o.rows.scansOf(high); n > 100 {
			t.Errorf("%d scans in 20 s", n)
		}
		o.rows.setFails(nil)
		o.advance(6 * time.Second)
		o.wantSent(20*time.Second, 26*time.Second, row)
	})
}

// Known tasks are fired while the partition cannot be read, and so are hinted ones.
func TestScansThatFailHoldUpNothingThatIsKnown(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		var known []task.Task
		for n := range 90 {
			known = append(known, o.waiting(high, time.Duration(n)*100*time.Millisecond))
			known = append(known, o.awake(high, time.Duration(n)*100*time.Millisecond, func(t *task.Task) { t.Key = "k" }))
		}
		s, _ := o.start(self)
		o.advance(time.Second)
		before := o.rows.scansOf(high)
		o.rows.setFails(func(task.Partition) error { return errors.New("away") })
		o.advance(5 * time.Second)
		told := o.waiting(high, time.Second)
		s.Added(&told)
		o.advance(14 * time.Second)
		o.wantSent(0, 0, append(known, told)...)
		if n := o.rows.scansOf(high) - before; n < 3 || n > 50 {
			t.Errorf("%d scans in 20 s", n)
		}
		late := o.waiting(high, 0)
		o.rows.setFails(nil)
		o.advance(6 * time.Second)
		o.wantSent(0, 6*time.Second, late)
	})
}

// A write that is refused once does not have to wait for a scan.
func TestWhatWasNotAcquiredIsStillKnownWhileScansFail(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		row := o.waiting(high, 2*time.Second)
		o.start(self)
		o.advance(time.Second)
		o.rows.setFails(func(task.Partition) error { return errors.New("away") })
		o.set(func() { o.losing = true })
		o.advance(time.Second)
		o.set(func() { o.losing = false })
		o.advance(6 * time.Second)
		o.wantSent(0, 6*time.Second, row)
	})
}

// Two owners of a partition, as when it changes hands, send each task once as long as both live.
func TestTwoOwnersSendOnce(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		o.set(func() { o.here = []string{"a", "b"} })
		var all []task.Task
		for n := range 300 {
			all = append(all, o.waiting(high, time.Duration(n)*20*time.Millisecond))
		}
		o.start("a")
		o.start("b")
		o.advance(20 * time.Second)
		o.wantSent(0, 0, all...)
	})
}

func TestAPartitionThatComesBackIsNotSentTwice(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		row := o.waiting(high, 0)
		o.hang = make(chan struct{})
		o.start(self)
		synctest.Wait()
		o.parts.set()
		o.parts.set(high) // and it is still under way
		o.advance(2 * time.Second)
		close(o.hang)
		o.set(func() { o.hang = nil })
		o.advance(20 * time.Second)
		o.wantSent(2*time.Second, 2*time.Second, row)
	})
}

func TestWhatIsUnderWayIsFinishedAtTheEnd(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		soon := o.waiting(high, 40*time.Millisecond)
		_, stop := o.start(self)
		stop()
		o.wantSent(0, 0, soon)
		hung := o.waiting(high, 0)
		o.hang = make(chan struct{})
		_, stop = o.start(self)
		stop() // gives up after a while
		if len(o.sendings()[hung.ID]) != 0 {
			t.Error("the one that hangs was sent")
		}
	})
}

func TestAnIdleDeliverPartitionReadsLittle(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		o.start(self)
		o.advance(10 * time.Minute)
		if n := o.rows.scansOf(high); n > 121+fullScansMax {
			t.Errorf("%d scans in 10 minutes, want one each 5 s and the full scans", n)
		}
	})
}

// More tasks than a partition may hold back are such that no queue will take them: those behind them are sent
// all the same.
func TestHopelessTasksDelayNobody(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		bad := map[task.ID]bool{}
		for range 1300 {
			bad[o.waiting(high, 0).ID] = true
		}
		tries := map[task.ID]int{} // guarded by o.mu
		o.refuse = func(t *task.Task) error {
			if !bad[t.ID] {
				return nil
			}
			o.set(func() { tries[t.ID]++ })
			return queue.ErrUndeliverable
		}
		s, _ := o.start(self)
		o.advance(3 * time.Second)
		small := o.waiting(high, 5*time.Second)
		s.Added(&small)
		later := o.waiting(high, 17*time.Second)
		o.advance(time.Minute)
		o.wantSent(0, 0, small, later)
		if n := s.Counts(high).Stuck; n != int64(len(bad)) {
			t.Errorf("%d stuck, want %d", n, len(bad))
		}
		o.advance(21 * time.Minute)
		for id := range bad {
			if n := tries[id]; n < 2 || n > 3 {
				t.Fatalf("%d tries of one in 22 minutes, want one every ten minutes or so", n)
			}
		}
		o.set(func() { o.refuse = nil }) // the queue takes them now
		last := o.waiting(high, 7*time.Minute)
		o.advance(13 * time.Minute)
		o.wantSent(0, 0, last)
		for id := range bad {
			if n := len(o.sendings()[id]); n != 1 {
				t.Fatalf("one was sent %d times, want once", n)
			}
		}
		if n := s.Counts(high).Stuck; n != 0 {
			t.Errorf("%d stuck, want none", n)
		}
	})
}

// A task that nobody could take stays in no process's hands when it ends: the next one tries it at once.
func TestHopelessTasksAreTriedByTheNextProcess(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		bad := o.waiting(high, 0)
		o.refuse = func(*task.Task) error { return queue.ErrUndeliverable }
		_, stop := o.start(self)
		o.advance(time.Second)
		stop()
		o.set(func() { o.refuse, o.gone = nil, []string{self} })
		o.start("next")
		o.advance(time.Second)
		if n := len(o.sendings()[bad.ID]); n != 1 {
			t.Errorf("sent %d times, want once", n)
		}
	})
}

// While the store refuses writes, rows that others acquired come to be looked at: that waits for the end of
// the rest, too.
func TestAPartitionThatRestsLooksAtNothing(t *testing.T) {
	inOutbound(t, func(o *outbound) {
		o.set(func() { o.here = []string{"other", self} })
		var stuck []task.Task
		for n := range 40 {
			stuck = append(stuck, o.acquired(high, 0, "other", time.Duration(n)*100*time.Millisecond))
		}
		o.start(self)
		o.advance(20 * time.Second)
		o.waiting(high, time.Second) // found by a read-ahead, and refused until the others are
		o.set(func() { o.losing = true })
		o.rows.readRows()
		o.advance(20 * time.Second)
		if n := o.rows.readRows(); n > 20*len(stuck) {
			t.Errorf("%d rows were read in 20 s in which nothing could be written", n)
		}
		o.set(func() { o.losing = false })
		o.advance(10 * time.Second)
		for _, row := range stuck {
			if at := o.sendings()[row.ID]; len(at) != 1 {
				t.Errorf("sent at %v, want once", o.offsets(at))
			}
		}
	})
}
