package scheduler_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock/clocktest"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

const depth = 10_000

var discard = slog.New(slog.DiscardHandler)

func TestFiresAtItsMillisecondAndNeverBeforeTheLead(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		var tasks []task.Task
		for _, d := range []time.Duration{0, time.Millisecond, 49 * time.Millisecond, 51 * time.Millisecond, time.Second, 9 * time.Second, 31 * time.Second, time.Hour} {
			tasks = append(tasks, w.waiting(high, d), w.waiting(low, d))
		}
		w.start()
		w.advance(time.Hour)
		w.wantOnTime(tasks...)
		if got := w.drain(100); len(got) != len(tasks) {
			t.Errorf("%d messages, want %d", len(got), len(tasks))
		}
	})
}

func TestAKeyedTaskIsDispatchedAheadLikeAnyOther(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		s := w.start()
		soon := w.awake(high, 3*time.Second, func(*task.Task) {})
		s.Awake(&soon)
		later := w.awake(high, 33*time.Second, func(*task.Task) {})
		w.advance(time.Minute)
		w.wantOnTime(soon, later)
	})
}

func TestASnoozedTaskIsNeverEarly(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		snoozed := w.awake(high, 0, func(t *task.Task) { t.Attempt, t.Wake = 1, t.Due.Add(3*time.Second) })
		w.start()
		w.advance(3*time.Second - time.Microsecond)
		if _, ok := w.dispatched(snoozed); ok {
			t.Fatal("dispatched before its wake-up")
		}
		w.advance(time.Microsecond)
		if _, ok := w.dispatched(snoozed); !ok {
			t.Fatal("not dispatched at its wake-up")
		}
	})
}

func TestALateInsertBehindTheHeadIsOnTime(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		head := w.waiting(high, 5*time.Second)
		s := w.start()
		w.advance(time.Second)
		late := w.waiting(high, time.Second)
		s.Added(&late)
		synctest.Wait()
		w.advance(10 * time.Second)
		w.wantOnTime(late, head)
	})
}

func TestAnInsertWithoutAHintIsFoundByTheNextScan(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.start()
		w.advance(time.Millisecond)
		quiet := w.waiting(high, 0)
		w.advance(scheduler.WindowDefault / 2)
		if at, ok := w.dispatched(quiet); !ok {
			t.Errorf("not dispatched after half a window: %d", at)
		}
	})
}

func TestAnInsertDuringAScanIsOnTime(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		s := w.start()
		var inserted task.Task
		w.rows.during = func(p task.Partition) {
			inserted = w.waiting(p, 2*time.Second)
			s.Added(&inserted)
		}
		w.advance(10 * time.Second)
		w.wantOnTime(inserted)
	})
}

// The scan finds more than fits, so that the high-water mark comes nearer after the hint was taken.
func TestAHintThatTheHighWaterMarkPassedOverIsFound(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.look = 1
		s := w.start()
		var all []task.Task
		w.rows.during = func(p task.Partition) {
			for i := range 200 {
				one := w.waiting(p, time.Duration(200-i)*20*time.Millisecond)
				s.Added(&one)
				all = append(all, one)
			}
		}
		w.advance(10 * time.Second)
		w.wantOnTime(all...)
	})
}

func TestMoreHintsThanTheInboxHoldsLoseNothing(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		s := w.start()
		const n = 6000 // above the bound of the inbox
		block := make(chan struct{})
		w.sent.mu.Lock()
		w.sent.refuse = func(*task.Task) error { <-block; return nil }
		w.sent.mu.Unlock()
		first := w.waiting(high, 0)
		s.Added(&first)
		synctest.Wait() // the loop is busy with the first one
		for range n {
			one := w.waiting(high, time.Second)
			s.Added(&one)
		}
		close(block)
		w.sent.mu.Lock()
		w.sent.refuse = nil
		w.sent.mu.Unlock()
		w.advance(1100 * time.Millisecond)
		if got := len(w.drain(depth)); got != n+1 {
			t.Errorf("%d messages, want %d", got, n+1)
		}
	})
}

func TestABacklogBeyondTheLookaheadDrainsInDueOrder(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.look = 1 // the least share of a partition: 64 rows
		const n = 5000
		for i := range n {
			w.waiting(high, -time.Duration(i%700)*time.Millisecond)
		}
		w.start()
		w.advance(time.Millisecond)
		orders := w.sent.fired()
		if len(orders) != n || !inDueOrder(orders) {
			t.Errorf("%d of %d dispatched at once, in due order: %v", len(orders), n, inDueOrder(orders))
		}
		if w.rows.largest > 64 || w.sent.largest > 64 {
			t.Errorf("read %d rows at a time and dispatched %d, want at most 64", w.rows.largest, w.sent.largest)
		}
	})
}

func TestManyDueAtOneInstantAllGo(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.look = 1
		const n = 1000
		for range n {
			w.waiting(high, time.Second)
			w.awake(high, time.Second, func(*task.Task) {})
		}
		w.start()
		w.advance(time.Second)
		if got := len(w.drain(depth)); got != 2*n {
			t.Errorf("%d messages at the instant, want %d", got, 2*n)
		}
	})
}

// A queue may tell when it has room, or not: then its own bound is further away.
func TestAFullQueueIsWaitedForWithoutSpinning(t *testing.T) {
	for name, driverDepth := range map[string]int{"queue tells": 16, "queue does not tell": depth} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, driverDepth, func(w *world) {
				w.sent.depthMax = 16
				for range 20 {
					w.waiting(high, 0)
					w.awake(high, 0, func(t *task.Task) { t.State, t.Attempt = task.RetriableFailure, 1 })
				}
				s := w.start()
				w.advance(time.Second)
				if got := len(w.sent.fired()); got != 16 {
					t.Errorf("%d dispatched into a queue of 16", got)
				}
				if w.sent.rooms > 300 {
					t.Errorf("asked %d times for room in a second", w.sent.rooms)
				}
				if _, overdue := s.Overdue()[high]; !overdue {
					t.Error("nothing counts as overdue")
				}
				for left := 40; left > 0; {
					got := len(w.drain(10))
					if got == 0 {
						t.Fatalf("%d never came", left)
					}
					left -= got
					w.advance(50 * time.Millisecond)
				}
			})
		})
	}
}

func TestALostWorkerIsNoticedBehindAFullQueue(t *testing.T) {
	inWorld(t, 16, func(w *world) {
		for range 20 {
			w.awake(high, 0, func(t *task.Task) { t.State, t.Attempt = task.RetriableFailure, 1 })
		}
		l := w.openLease(3 * time.Second)
		running := w.running(high, l.Worker)
		w.start()
		w.advance(4 * time.Second)
		if got := w.read(running.ID); !got.Suspect || got.State != task.Enqueued {
			t.Errorf("%s, suspect %v", got.State, got.Suspect)
		}
	})
}

func TestATakeOverSendsWhatWasEnqueuedAgain(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		enqueued := func(t *task.Task) { t.State, t.Enqueues, t.Wake = task.Enqueued, 1, t.Due.Add(task.EnqueueTimeout) }
		overdue := func(t *task.Task) { t.State, t.Enqueues, t.Wake = task.Enqueued, 1, t.Due.Add(-time.Hour) }
		w.awake(high, 0, enqueued)
		w.awake(low, 5*time.Second, enqueued)
		w.awake(high, 0, overdue)
		w.awake(high, time.Minute, func(t *task.Task) { t.State, t.Attempt = task.RetriableFailure, 1 })
		w.start()
		if got := len(w.drain(depth)); got != 2 {
			t.Errorf("%d messages at the start, want one of each due task", got)
		}
		w.advance(5 * time.Second)
		if got := len(w.drain(depth)); got != 1 {
			t.Errorf("%d messages, want the one that was due later", got)
		}
	})
}

func TestARetryFiresAtItsBackoff(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		s := w.start()
		w.advance(3 * time.Second)
		failed := w.awake(high, -time.Second, func(t *task.Task) {
			t.State, t.Attempt, t.Failures, t.Wake = task.RetriableFailure, 1, 1, w.clock.Now().Add(1234567*time.Microsecond)
		})
		s.Awake(&failed)
		w.advance(5 * time.Second)
		at, ok := w.dispatched(failed)
		if !ok || at < failed.Wake || at > failed.Wake.Add(time.Millisecond) {
			t.Errorf("dispatched (%v) %v after its wake-up", ok, at.Sub(failed.Wake))
		}
		if !slices.Contains(w.waked, task.Enqueue) {
			t.Errorf("hook was told %v", w.waked)
		}
	})
}

func (w *world) openLease(length time.Duration) lease.Lease {
	w.t.Helper()
	l, err := w.leases.Open(w.ctx, "w", "", length, "", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return l
}

// running stores a task that a worker processes, with its wake-up at the end of a lease that begins now.
func (w *world) running(p task.Partition, worker string) task.Task {
	return w.awake(p, 0, func(t *task.Task) {
		t.State, t.Attempt, t.Worker, t.ClaimedAt = task.Processing, 1, worker, t.Due
		t.Wake = t.Due.Add(3*time.Second + task.ClockBound)
	})
}

func TestALostWorkersTasksBecomeSuspects(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		l := w.openLease(3 * time.Second)
		one, two := w.running(high, l.Worker), w.running(low, l.Worker)
		w.start()
		w.advance(3 * time.Second)
		if got := w.read(one.ID); got.State != task.Processing {
			t.Fatalf("taken back before the lease and the clock bound were over: %s", got.State)
		}
		w.advance(task.ClockBound)
		for _, id := range []task.ID{one.ID, two.ID} {
			if got := w.read(id); got.State != task.Enqueued || !got.Suspect || got.Lost != 1 || got.Failures != 0 || got.Blamed != 0 {
				t.Errorf("%s, suspect %v, lost %d, failures %d, blamed %d", got.State, got.Suspect, got.Lost, got.Failures, got.Blamed)
			}
		}
		if len(w.lost) != 1 {
			t.Errorf("told %d times of the lost worker", len(w.lost))
		}
		if got := w.drain(10); len(got) != 2 || queue.NameFor(&got[0].Task).Class != queue.Suspect {
			t.Errorf("%d messages", len(got))
		}
	})
}

func TestARunningTaskFollowsItsLease(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		l := w.openLease(3 * time.Second)
		running := w.running(high, l.Worker)
		w.start()
		for range 20 {
			w.advance(time.Second)
			if _, err := w.leases.Renew(w.ctx, l.Worker); err != nil {
				t.Fatal(err)
			}
		}
		if got := w.read(running.ID); got.State != task.Processing || got.Suspect || got.Seq != running.Seq {
			t.Errorf("%s, suspect %v, %d writes", got.State, got.Suspect, got.Seq-running.Seq)
		}
		if n := w.rows.readRows(); n > 8 {
			t.Errorf("its row was read %d times in 20 s with a lease of 3 s", n)
		}
		w.advance(3*time.Second + 2*task.ClockBound)
		if got := w.read(running.ID); !got.Suspect {
			t.Errorf("not taken back within the lease of the last heartbeat: %s", got.State)
		}
	})
}

// renewing lets a heartbeat through between the read of the lease and the decision.
type renewing struct {
	*lease.Book

	t     *testing.T
	beats atomic.Int32
}

func (r *renewing) MarkLost(ctx context.Context, seen lease.Lease) error {
	if r.beats.Add(-1) >= 0 {
		if _, err := r.Renew(ctx, seen.Worker); err != nil {
			r.t.Error(err)
		}
	}
	return r.Book.MarkLost(ctx, seen)
}

func TestALeaseRenewedInBetweenIsExtended(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		l := w.openLease(3 * time.Second)
		beats := &renewing{Book: w.leases, t: t}
		beats.beats.Store(1)
		w.marks = beats
		running := w.running(high, l.Worker)
		bystander := w.waiting(high, 3*time.Second+task.ClockBound)
		w.start()
		w.advance(3*time.Second + task.ClockBound)
		if got := w.read(running.ID); got.State != task.Processing || got.Seq != running.Seq {
			t.Errorf("%s, %d writes", got.State, got.Seq-running.Seq)
		}
		if w.failed[high] != 0 {
			t.Errorf("the partition failed %d times", w.failed[high])
		}
		w.wantOnTime(bystander)
		w.advance(4 * time.Second)
		if got := w.read(running.ID); !got.Suspect {
			t.Errorf("%s after the renewed lease ran out", got.State)
		}
	})
}

func TestATakeOverTellsWhatIsClaimed(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		l := w.openLease(time.Minute)
		claim := func(t *task.Task) {
			t.State, t.Attempt, t.Worker, t.ClaimedAt, t.Wake = task.Claimed, 1, l.Worker, t.Due, t.Due.Add(time.Minute)
		}
		claimed := w.awake(high, 0, claim)
		w.running(high, l.Worker)
		w.waiting(high, time.Hour)
		var found []task.ID
		w.found = func(t *task.Task) { w.note(func() { found = append(found, t.ID) }) }
		w.start()
		w.advance(10 * time.Second)
		w.awake(high, 0, claim) // by a process that is there
		w.advance(10 * time.Second)
		if !slices.Equal(found, []task.ID{claimed.ID}) {
			t.Errorf("found %v, want %v", found, claimed.ID)
		}
	})
}

func TestAnUnconfirmedClaimGoesBackToTheQueue(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		l := w.openLease(time.Minute)
		claimed := w.awake(high, 0, func(t *task.Task) {
			t.State, t.Attempt, t.Worker, t.ClaimedAt, t.Wake = task.Claimed, 1, l.Worker, t.Due, t.Due.Add(5*time.Second)
		})
		w.start()
		w.advance(task.ClaimTimeout)
		if _, err := w.leases.Renew(w.ctx, l.Worker); err != nil {
			t.Fatal(err)
		}
		w.advance(l.HeartbeatEvery())
		if got := w.read(claimed.ID); got.State != task.Enqueued || got.Suspect || got.Failures != 0 {
			t.Errorf("%s, suspect %v, failures %d", got.State, got.Suspect, got.Failures)
		}
	})
}

// A process that is stopped soon after a claim may be continued at any time within its lease, and the attempt
// with it.
func TestAClaimOfASilentWorkerStaysUntilItsLeaseIsOver(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		l := w.openLease(time.Minute)
		claimed := w.awake(high, 0, func(t *task.Task) {
			t.State, t.Attempt, t.Worker, t.ClaimedAt, t.Wake = task.Claimed, 1, l.Worker, t.Due, t.Due.Add(5*time.Second)
		})
		w.start()
		w.advance(time.Minute)
		if got := w.read(claimed.ID); got.State != task.Claimed {
			t.Errorf("%s while the lease was good", got.State)
		}
		w.advance(task.ClockBound)
		if got := w.read(claimed.ID); got.State != task.Enqueued || !got.Suspect {
			t.Errorf("%s, suspect %v", got.State, got.Suspect)
		}
	})
}

// A process that reads a lease late does not know how old its newest heartbeat is. A claim may be younger,
// and so may have started without a heartbeat that names it.
func TestAnOldHeartbeatDoesNotTellThatAClaimNeverStarted(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		l := w.openLease(lease.LengthDefault)
		w.advance(2 * time.Second)
		claimed := w.awake(high, 0, func(t *task.Task) {
			t.State, t.Attempt, t.Worker, t.ClaimedAt, t.Wake = task.Claimed, 1, l.Worker, t.Due, t.Due.Add(40*time.Second)
		})
		w.advance(25 * time.Second)
		w.marks = lease.NewBook(w.rows.Store, w.clock) // of another process
		w.start()
		w.advance(20 * time.Second)
		if got := w.read(claimed.ID); got.State != task.Claimed {
			t.Errorf("%s before the lease was over here: %+v", got.State, got.History)
		}
		w.advance(lease.LengthDefault)
		if got := w.read(claimed.ID); got.State != task.Enqueued || got.Lost != 1 {
			t.Errorf("%s, lost %d times, want enqueued and once", got.State, got.Lost)
		}
	})
}

func TestAFailingPartitionBacksOffAlone(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.rows.fails = func(p task.Partition) error {
			if p == high {
				return errors.New("out of order")
			}
			return nil
		}
		w.start()
		var tasks []task.Task
		for i := range 100 {
			tasks = append(tasks, w.waiting(low, time.Duration(5200+i*100)*time.Millisecond))
		}
		stuck := w.waiting(high, time.Second)
		w.advance(20 * time.Second)
		w.wantOnTime(tasks...)
		if n := w.rows.scansOf(high); n < 5 || n > 40 {
			t.Errorf("tried %d times in 20 s", n)
		}
		if w.failed[high] == 0 || w.failed[low] != 0 {
			t.Errorf("failures told: %v", w.failed)
		}
		w.rows.mu.Lock()
		w.rows.fails = nil
		w.rows.mu.Unlock()
		w.advance(6 * time.Second)
		if _, ok := w.dispatched(stuck); !ok {
			t.Error("not dispatched after the store was well again")
		}
	})
}

func TestARowThatCannotBeWrittenHoldsUpNobody(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		poison := w.waiting(high, 0)
		w.sent.refuse = func(t *task.Task) error {
			if t.ID == poison.ID {
				return store.ErrMalformed
			}
			return nil
		}
		var tasks []task.Task
		for i := range 100 {
			tasks = append(tasks, w.waiting(high, time.Duration(i*200)*time.Millisecond))
		}
		w.start()
		w.advance(20 * time.Second)
		w.wantOnTime(tasks...)
		if w.failed[high] == 0 || w.failed[high] > 10 {
			t.Errorf("told %d times of the row", w.failed[high])
		}
	})
}

func TestAnUnreadableLeaseHoldsUpNobody(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.apply(store.Op{Kind: store.PutControl, Control: store.Control{Kind: lease.Kind, Name: "odd", Version: 1, Value: []byte("no lease")}})
		w.running(high, "odd")
		l := w.openLease(3 * time.Second)
		running := w.running(high, l.Worker)
		bystander := w.waiting(high, 10*time.Second)
		w.start()
		w.advance(20 * time.Second)
		w.wantOnTime(bystander)
		if got := w.read(running.ID); !got.Suspect {
			t.Errorf("the other worker's task is %s", got.State)
		}
	})
}

func TestLambdasComeAndGoAtRunTime(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.parts.all = nil
		s := w.start()
		early := w.waiting(high, 2*time.Second)
		s.Added(&early) // for a partition that nobody runs
		w.parts.set(high)
		w.advance(3 * time.Second)
		w.wantOnTime(early)

		left := w.waiting(high, 4*time.Second)
		s.Added(&left)
		w.parts.set(low)
		stays := w.waiting(low, 4*time.Second)
		s.Added(&stays)
		w.advance(10 * time.Second)
		w.wantOnTime(stays)
		if _, ok := w.dispatched(left); ok {
			t.Error("a partition that is gone was still served")
		}
		w.parts.set(low, high)
		if _, ok := w.dispatched(left); !ok {
			t.Error("not dispatched when its partition came back")
		}
	})
}

func TestTwoSchedulersOverOneStoreSendEachTaskToOneClaim(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		var tasks []task.Task
		for i := range 300 {
			tasks = append(tasks, w.waiting(high, time.Duration(i)*10*time.Millisecond))
		}
		a := w.start()
		b := w.start()
		for i := range 300 {
			one := w.waiting(high, time.Duration(i)*10*time.Millisecond)
			a.Added(&one)
			b.Added(&one)
			tasks = append(tasks, one)
		}
		w.advance(10 * time.Second)
		w.wantOnTime(tasks...)
		claims := map[task.ID]int{}
		for _, m := range w.drain(depth) {
			next, _, err := m.Task.Apply(task.Event{Kind: task.Claim, Seq: m.Task.Seq, Worker: "w", Lease: time.Minute}, w.clock.Now(), policy)
			if err != nil {
				continue
			}
			results, _ := w.rows.Apply(w.ctx, []store.Op{{Kind: store.ReplaceTask, Task: next}})
			if results[0] == nil {
				claims[next.ID]++
			}
		}
		for _, one := range tasks {
			if claims[one.ID] != 1 {
				t.Fatalf("a task was claimed %d times", claims[one.ID])
			}
		}
		if n := len(w.schedule(high)); n != len(tasks) {
			t.Errorf("%d wake-up rows, want one for each of %d live tasks", n, len(tasks))
		}
	})
}

func TestOverdueTellsTheOldestOfEachPartition(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.sent.depthMax = 0
		oldest := w.waiting(high, -time.Hour)
		w.waiting(high, -time.Minute)
		w.waiting(low, time.Minute)
		s := w.start()
		all := s.Overdue()
		if len(all) != 1 || all[high] != oldest.Due {
			t.Errorf("overdue: %v", all)
		}
	})
}

func TestAKeyedTaskBehindAFullQueueIsOverdue(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.sent.depthMax = 0
		keyed := w.awake(high, time.Second, func(*task.Task) {})
		w.waiting(high, 2*time.Second)
		s := w.start()
		w.advance(900 * time.Millisecond)
		if all := s.Overdue(); len(all) != 0 {
			t.Errorf("overdue before anything is due: %v", all)
		}
		w.advance(5 * time.Second)
		if all := s.Overdue(); all[high] != keyed.Due {
			t.Errorf("overdue since %v after the start, want %v", all[high].Sub(start), keyed.Due.Sub(start))
		}
	})
}

func TestAClockThatIsSetStopsNothing(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, -3 * time.Second, time.Hour} {
		inWorld(t, depth, func(w *world) {
			wall := &clocktest.Settable{Clock: w.clock}
			w.wall = wall
			w.start()
			w.advance(7 * time.Second)
			wall.Step(step)
			w.advance(scheduler.WindowDefault / 2) // whatever it was waiting for is over now
			stored := w.next(high, 2*time.Second)
			stored.Due = wall.Now().Add(2 * time.Second).CeilMillis()
			w.apply(store.First(stored)...)
			w.advance(scheduler.WindowDefault/2 + 10*time.Millisecond)
			if _, ok := w.dispatched(stored); !ok {
				t.Errorf("step of %v: not found by a scan", step)
			}
			if n := w.rows.scansOf(high); n > 6 {
				t.Errorf("step of %v: %d scans", step, n)
			}
			late := w.next(high, 0)
			late.Due = wall.Now().Add(-2 * time.Minute).CeilMillis()
			w.apply(store.First(late)...)
			w.advance(fullScanLatest)
			if _, ok := w.dispatched(late); !ok {
				t.Errorf("step of %v: not found by a full scan", step)
			}
		})
	}
}

// TestWhatAReadBringsIsJudgedByTheClockOfThen sets the clock back while a partition is read, and then stores
// a task for later, and the first row of a call with a key that is under way.
func TestWhatAReadBringsIsJudgedByTheClockOfThen(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		wall := &clocktest.Settable{Clock: w.clock}
		w.wall, w.parts.all = wall, []task.Partition{high}
		var set sync.Once
		w.rows.slow = func() {
			set.Do(func() {
				wall.Step(-time.Hour)
				for _, key := range []string{"", "k"} {
					stored := w.next(high, -time.Hour+10*time.Second)
					stored.Key, stored.Created = key, wall.Now()
					w.apply(store.First(stored)[0])
				}
			})
		}
		w.start()
		w.advance(5 * time.Second)
		if rows, fired := w.schedule(high), w.sent.fired(); len(rows) != 2 || len(fired) != 0 {
			t.Errorf("%d of 2 rows are there, and %d tasks were dispatched before they were due", len(rows), len(fired))
		}
		w.advance(5*time.Second + scheduler.LeadDefault)
		if fired := w.sent.fired(); len(fired) != 2 {
			t.Errorf("%d of 2 tasks were dispatched in time", len(fired))
		}
	})
}

// fullScansMax is how many full scans of a partition are begun in ten minutes at most.
const fullScansMax = 3

func TestAnIdleSchedulerReadsLittle(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.waiting(high, 24*time.Hour)
		w.start()
		w.advance(10 * time.Minute)
		if n := w.rows.scansOf(high); n > 121+fullScansMax {
			t.Errorf("%d scans in ten minutes, want one each half window and the full scans", n)
		}
	})
}

func TestTheSweeperDeletesWhatExpiredInBoundedSteps(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		for range 2500 {
			w.awake(high, 0, func(t *task.Task) {
				t.State, t.Wake, t.Ended, t.ExpireAt = task.Success, 0, t.Due, t.Due.Add(time.Minute)
			})
		}
		kept := w.awake(high, 0, func(t *task.Task) {
			t.State, t.Wake, t.Ended, t.ExpireAt = task.Success, 0, t.Due, t.Due.Add(time.Hour)
		})
		sweeper := &scheduler.Sweeper{Store: w.rows, Clock: w.clock, Log: discard}
		cancel := runtest.Start(t, sweeper.Run)
		synctest.Wait()
		w.advance(time.Minute + scheduler.SweepEvery)
		cancel()
		rows, _, err := w.rows.ScanEnded(w.ctx, &high, task.Unknown, nil, 100)
		if err != nil || len(rows) != 1 || rows[0].ID != kept.ID {
			t.Errorf("%d rows left, %v", len(rows), err)
		}
		if left := w.schedule(high); len(left) != 1 || left[0].ID != kept.ID {
			t.Errorf("%d wake-up rows left", len(left))
		}
	})
}
