package scheduler_test

import (
	"context"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// beat renews a lease four times in its length while time goes on.
func (w *world) beat(d time.Duration, leases ...lease.Lease) {
	w.t.Helper()
	step := leases[0].HeartbeatEvery()
	for gone := time.Duration(0); gone < d; gone += step {
		w.advance(step)
		for _, l := range leases {
			if _, err := w.leases.Renew(w.ctx, l.Worker); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

func TestAHeadFullOfRunningTasksStarvesNobody(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.look = 1 // the least share of a partition: 64 rows
		l := w.openLease(15 * time.Second)
		const n = 1000
		var all []task.Task
		for range n {
			all = append(all, w.running(high, l.Worker))
		}
		dead := w.openLease(3 * time.Second)
		lost := w.awake(high, 4*time.Second, func(t *task.Task) {
			t.State, t.Attempt, t.Worker, t.ClaimedAt = task.Processing, 1, dead.Worker, w.clock.Now()
		})
		w.start()
		retries := func() (tasks []task.Task) {
			for i := range 100 {
				tasks = append(tasks, w.awake(high, time.Duration(i)*100*time.Millisecond+window, func(t *task.Task) {
					t.State, t.Attempt, t.Failures = task.RetriableFailure, 1, 1
				}))
			}
			return tasks
		}
		first := retries()
		w.beat(time.Minute, l)
		// They lie in the margin of twelve read-aheads and are read once by the full scan. The first
		// read-ahead goes over them in pieces of 64, each time from the instant at which they all wake.
		if scanned := w.rows.lookedRows(); scanned > 13*n+n*n/2/56 {
			t.Errorf("%d rows scanned for %d that woke at one instant", scanned, n)
		}
		second := retries()
		w.beat(5*time.Minute, l)
		for _, one := range append(first, second...) {
			if at, ok := w.dispatched(one); !ok || at < one.Wake || at > one.Wake.Add(10*time.Millisecond) {
				t.Fatalf("a retry was dispatched (%v) %v after its backoff", ok, at.Sub(one.Wake))
			}
		}
		if got := w.read(lost.ID); !got.Suspect {
			t.Errorf("the task of a lost worker is %s", got.State)
		}
		for _, one := range all {
			if got := w.read(one.ID); got.Seq != one.Seq {
				t.Fatalf("%d writes for a running task", got.Seq-one.Seq)
			}
		}
		w.rows.readRows()
		w.rows.lookedRows()
		w.beat(10*time.Minute, l)
		if reads, scanned := w.rows.readRows(), w.rows.lookedRows(); reads > 3*n || scanned > 4*n {
			t.Errorf("%d tasks that run were read %d times one by one and %d times by scans in ten minutes", n, reads, scanned)
		}
		w.advance(16 * time.Second) // and no heartbeat
		for _, one := range all {
			if got := w.read(one.ID); !got.Suspect {
				t.Fatalf("%s after its lease ran out", got.State)
			}
		}
	})
}

const window = 10 * time.Second

// fullScanLatest is how long after a full scan the next one ends at the latest.
const fullScanLatest = 6*time.Minute + 15*time.Second + window

// Running tasks beyond what memory holds cost no writes, and are read by the read-aheads of their first
// minute and by every full scan.
func TestWhatMemoryHasNoRoomForIsFoundByTheFullScan(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.flight = 5
		l := w.openLease(3 * time.Second)
		var all []task.Task
		for range 8 {
			all = append(all, w.running(high, l.Worker))
		}
		s := w.start()
		w.beat(2*time.Minute, l)
		for _, one := range all {
			if got := w.read(one.ID); got.State != task.Processing || got.Seq != one.Seq {
				t.Fatalf("%s with a good lease, %d writes", got.State, got.Seq-one.Seq)
			}
		}
		if n := s.InFlight(); n != 5 {
			t.Errorf("%d in flight are remembered, want 5", n)
		}
		suspects := func() (n int) {
			for _, one := range all {
				if w.read(one.ID).Suspect {
					n++
				}
			}
			return n
		}
		w.advance(4 * time.Second)
		if n := suspects(); n != 5 {
			t.Errorf("%d were taken back within the lease, want those that are remembered", n)
		}
		w.advance(fullScanLatest)
		if n := suspects(); n != 8 {
			t.Errorf("%d were taken back by the next full scan, want all", n)
		}
	})
}

func TestANewOwnerReadsWhatWasInFlight(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		l := w.openLease(3 * time.Second)
		one := w.running(high, l.Worker)
		s := w.start()
		w.beat(2*time.Minute, l)
		w.parts.set(low)
		if s.InFlight() != 0 {
			t.Errorf("%d tasks of a partition that is gone are in flight", s.InFlight())
		}
		w.beat(time.Minute, l)
		w.parts.set(low, high)
		w.beat(time.Minute, l)
		if got := w.read(one.ID); got.State != task.Processing || got.Seq != one.Seq || s.InFlight() != 1 {
			t.Errorf("%s, %d writes, %d in flight", got.State, got.Seq-one.Seq, s.InFlight())
		}
		w.parts.set(low)
		w.advance(time.Minute)
		w.parts.set(low, high)
		w.advance(time.Second)
		if got := w.read(one.ID); !got.Suspect {
			t.Errorf("the new owner left it %s", got.State)
		}
	})
}

// A task that ends leaves the memory within the time that it was in flight, though its worker lives on.
func TestWhatEndedLeavesTheMemory(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		l := w.openLease(15 * time.Second)
		var all []task.Task
		for range 100 {
			all = append(all, w.running(high, l.Worker))
		}
		s := w.start()
		w.beat(time.Minute, l)
		for _, one := range all {
			w.finish(one, task.OutcomeSuccess, false)
		}
		w.beat(2*time.Minute, l)
		if s.InFlight() != 0 {
			t.Errorf("%d tasks are in flight", s.InFlight())
		}
	})
}

// finish ends the attempt of a running task, unheard by the scheduler. With move its wake-up row moves, too.
func (w *world) finish(t task.Task, o task.Outcome, move bool) task.Task {
	w.t.Helper()
	row := w.read(t.ID)
	next, _, err := row.Apply(task.Event{Kind: task.Finish, Worker: row.Worker, Attempt: row.Attempt, Outcome: o}, w.clock.Now(), policy)
	if err != nil {
		w.t.Fatal(err)
	}
	ops := store.Change(next, move, false)
	w.apply(ops...)
	for i := range ops {
		if ops[i].Kind == store.ReplaceTask {
			next = ops[i].Task
		}
	}
	return next
}

func TestATaskInFlightThatMovesOnIsFired(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		l := w.openLease(15 * time.Second)
		one := w.running(high, l.Worker)
		w.start()
		w.beat(3*time.Minute, l)
		failed := w.finish(one, task.OutcomeRetriable, true)
		w.beat(30*time.Second, l)
		if at, ok := w.dispatched(failed); !ok || at < failed.Wake || at > failed.Wake.Add(window/2+time.Second) {
			t.Errorf("dispatched (%v) %v after its backoff", ok, at.Sub(failed.Wake))
		}
	})
}

// The message waits in a queue that is older than the timeout: nothing is sent, and nothing written, however
// long that takes.
func TestABrakedTaskCostsNoWrites(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		var all []task.Task
		for range 10 {
			one := w.awake(high, 0, func(t *task.Task) { t.State, t.Enqueues, t.Wake = task.Enqueued, 1, t.Due.Add(task.EnqueueTimeout) })
			all = append(all, one)
		}
		w.start() // and sends them
		w.advance(10 * time.Minute)
		for _, one := range all {
			if got := w.read(one.ID); got.Seq != one.Seq {
				t.Fatalf("%d writes", got.Seq-one.Seq)
			}
		}
		if n := w.rows.readRows(); n > 10*8 {
			t.Errorf("read %d times in ten minutes, want a number of times that grows with the logarithm", n)
		}
		if got := w.drain(3); len(got) != 3 {
			t.Fatalf("%d messages", len(got))
		}
		w.drain(10)
		w.advance(time.Hour) // the queue is empty: what is not claimed was lost
		if got := w.drain(100); len(got) < 10 {
			t.Errorf("%d messages, want each again", len(got))
		}
	})
}

// A message that was sent before its task had a row is good for a while. Then the task is sent again, unless
// it has a row now.
func TestATaskWithoutARowIsSentAgainWhenItsMessageIsTooOld(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.sent.early = true
		one, ended := w.waiting(high, time.Second), w.waiting(high, time.Second)
		w.start()
		w.advance(2 * time.Second)
		if got := w.drain(10); len(got) != 2 || got[0].Task.State != task.Scheduled {
			t.Fatalf("%d messages", len(got))
		}
		over := ended
		over.State, over.Seq, over.Wake, over.Ended, over.ExpireAt = task.Cancelled, 2, 0, w.clock.Now(), w.clock.Now().Add(time.Hour)
		w.apply(store.Op{Kind: store.PutTask, Task: over})
		w.rows.readRows()
		w.advance(task.UndispatchedMax - 5*time.Second)
		if got, n := w.drain(10), w.rows.readRows(); len(got) != 0 || n > 4 {
			t.Errorf("%d messages and %d reads before the message is too old", len(got), n)
		}
		w.advance(10 * time.Second)
		if got := w.drain(10); len(got) != 1 || got[0].Task.ID != one.ID {
			t.Errorf("%d messages when it is, want the one", len(got))
		}
		if rows := w.schedule(high); len(rows) != 1 {
			t.Errorf("%d wake-up rows, want the one of the task that lives", len(rows))
		}
	})
}

// failing is a book of leases that cannot be read for a while.
type failing struct {
	*lease.Book

	fails func() bool
}

func (f *failing) Look(ctx context.Context, worker string) (lease.Lease, error) {
	if f.fails() {
		return lease.Lease{}, store.ErrUnknown
	}
	return f.Book.Look(ctx, worker)
}

func TestATaskInFlightOutlivesLeasesThatCannotBeRead(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		out := false
		w.marks = &failing{w.leases, func() bool { return out }}
		l := w.openLease(3 * time.Second)
		one := w.running(high, l.Worker)
		w.start()
		w.beat(time.Minute, l)
		out = true
		w.beat(time.Minute, l)
		out = false
		w.beat(20*time.Second, l)
		if got := w.read(one.ID); got.State != task.Processing || got.Seq != one.Seq {
			t.Errorf("%s", got.State)
		}
		w.advance(12 * time.Second)
		if got := w.read(one.ID); !got.Suspect {
			t.Errorf("%s after its lease ran out", got.State)
		}
	})
}

// A row at the head that nobody can judge is met again now and then; what runs behind it is not read because
// of it.
func TestARowThatCannotBeJudgedIsPutAside(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.apply(store.Op{Kind: store.PutControl, Control: store.Control{Kind: lease.Kind, Name: "odd", Version: 1, Value: []byte("no lease")}})
		w.running(high, "odd")
		w.advance(time.Second)
		l := w.openLease(15 * time.Second)
		const n = 100
		for range n {
			w.running(high, l.Worker)
		}
		w.start()
		w.beat(2*time.Minute, l)
		w.rows.lookedRows()
		w.failed = map[task.Partition]int{}
		w.beat(10*time.Minute, l)
		if got := w.rows.lookedRows(); got > 4*n {
			t.Errorf("%d rows were scanned in ten minutes", got)
		}
		if told := w.failed[high]; told == 0 || told > 21 {
			t.Errorf("told %d times of it in ten minutes", told)
		}
	})
}
