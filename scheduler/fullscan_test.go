package scheduler_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/scheduler"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// backedOff is a task that waits for its next try, that long after it was stored.
func backedOff(d time.Duration) func(t *task.Task) {
	return func(t *task.Task) {
		t.State, t.Attempt, t.Failures, t.Wake = task.RetriableFailure, 1, 1, t.Created.Add(d)
	}
}

// either returns the first number in the long form of the tests, and the second one in the short form.
func either(long, short int) int {
	if testing.Short() {
		return short
	}
	return long
}

// settled starts a scheduler whose first full scan is over.
func (w *world) settled() *scheduler.Scheduler {
	w.t.Helper()
	s := w.start()
	w.advance(time.Second)
	return s
}

// wantDispatched checks when a task was dispatched, from then on.
func (w *world) wantDispatched(t *task.Task, from task.Instant, within time.Duration) {
	w.t.Helper()
	if at, ok := w.dispatched(*t); !ok || at < from || at > from.Add(within) {
		w.t.Errorf("dispatched (%v) %v after it was to be, want %v at most", ok, at.Sub(from), within)
	}
}

// A read-ahead begins a margin before now, so it finds what was stored some time after it was due. Older rows
// wait for the full scan.
func TestAReadAheadBeginsBeforeNow(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.settled()
		w.advance(2 * time.Minute)
		now := w.clock.Now()
		near, far := w.waiting(high, -50*time.Second), w.waiting(high, -70*time.Second)
		w.advance(window / 2)
		w.wantDispatched(&near, now, window/2)
		if _, ok := w.dispatched(far); ok {
			t.Error("a read-ahead read what lies before its margin")
		}
		w.advance(fullScanLatest)
		w.wantDispatched(&far, now, fullScanLatest)
	})
}

// While the store is away no look comes through. The next one begins where the last one ended, however long
// ago that was.
func TestAReadAheadGoesOnWhereTheLastOneEnded(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.settled()
		w.rows.setFails(func(task.Partition) error { return store.ErrUnreachable })
		w.advance(20 * time.Second)
		one := w.waiting(high, 0)
		w.advance(3 * time.Minute)
		w.rows.setFails(nil)
		now := w.clock.Now()
		w.advance(window)
		w.wantDispatched(&one, now, 6*time.Second)
	})
}

// The next full scan finds what a crash leaves behind read-aheads, and deletes it only where a task row shows
// that nobody needs it.
func TestAFullScanCleansUp(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.settled()
		ended := w.awake(high, -time.Hour, func(t *task.Task) {
			t.State, t.Wake, t.Ended, t.ExpireAt = task.Success, 0, t.Due, t.Due.Add(24*time.Hour)
		})
		moved := w.moved(high, time.Hour, func(t *task.Task) { t.State, t.Attempt = task.RetriableFailure, 1 })
		old := moved
		old.WakeRow = task.WakeRow{At: w.clock.Now().Add(-time.Hour), Seq: 2}
		w.apply(store.Op{Kind: store.PutWakeup, Task: bare(&old)})
		coming := moved // a move back that did not get to its task row
		coming.WakeRow = task.WakeRow{At: w.clock.Now().Add(-2 * time.Hour), Seq: moved.Seq + 1}
		w.apply(store.Op{Kind: store.PutWakeup, Task: bare(&coming)})
		alone := w.next(high, -time.Hour) // put for a change of a task that has ended and expired since
		alone.WakeRow = task.WakeRow{At: alone.Due, Seq: 3}
		w.apply(store.Op{Kind: store.PutWakeup, Task: bare(&alone)})
		w.advance(fullScanLatest)
		var left []store.WakeKey
		for _, row := range w.schedule(high) {
			left = append(left, store.KeyOf(&row))
		}
		if want := []store.WakeKey{store.KeyOf(&coming), store.KeyOf(&moved)}; !slices.Equal(left, want) {
			t.Errorf("left are %v, want %v", left, want)
		}
		if n := w.sent.counted(&w.sent.removed); n != 3 {
			t.Errorf("%d removed, want those of %s, %s and %s", n, ended.ID, moved.ID, alone.ID)
		}
		if orders := w.sent.fired(); len(orders) != 0 {
			t.Errorf("dispatched %v", orders)
		}
	})
}

// A first row that holds its task is the task until there is a task row, whatever state it says.
func TestAFirstRowWithoutItsTaskRowIsFired(t *testing.T) {
	for _, state := range []task.State{task.Scheduled, task.Enqueued, task.Claimed} {
		inWorld(t, depth, func(w *world) {
			one := w.next(high, 0)
			one.State, one.Wake, one.Key, one.Worker = state, one.Due.Add(task.EnqueueTimeout), "k", "p-gone"
			if state == task.Claimed {
				one.Attempt, one.ClaimedAt = 1, one.Due
			}
			ops := store.FirstWithRow(one)
			w.apply(ops[0])
			w.start()
			w.advance(time.Second)
			if got := w.read(one.ID); got.State != task.Enqueued || got.Seq != 2 || got.Attempt != 0 || got.Enqueues != 1 {
				t.Errorf("%s: stored as %s, seq %d, attempt %d, sent %d times", state, got.State, got.Seq, got.Attempt, got.Enqueues)
			}
			if n := len(w.drain(10)); n != 1 {
				t.Errorf("%s: %d messages", state, n)
			}
		})
	}
}

// TestATakeOverFollowsWhoEnqueued has a queue that outlives processes: only what one that is gone enqueued
// moments ago is sent again at once.
func TestATakeOverFollowsWhoEnqueued(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.process, w.depths = "p-self", lasting{w.queue}
		w.presence = func(process string) (here, gone bool) { return process == "p-here", process == "p-gone" }
		enqueued := func(process string, ago time.Duration) task.Task {
			return w.awake(high, -ago, func(t *task.Task) {
				t.State, t.Enqueues, t.Worker, t.Enqueued = task.Enqueued, 1, process, t.Due
				t.Wake = t.Due.Add(task.EnqueueTimeoutAfter(0) + ago)
			})
		}
		moments := enqueued("p-gone", 10*time.Second)
		enqueued("p-gone", task.EnqueueTimeout)
		enqueued("p-here", time.Second)
		enqueued("p-stranger", time.Second)
		w.start()
		got := w.drain(10)
		if len(got) != 1 || got[0].Task.ID != moments.ID || got[0].Task.Seq != moments.Seq {
			t.Errorf("%d messages at once, want that of the process that went a moment ago", len(got))
		}
		w.advance(task.EnqueueTimeout - time.Millisecond)
		if n := len(w.drain(10)); n != 0 {
			t.Errorf("%d messages before their time", n)
		}
		w.advance(time.Second)
		if n := len(w.drain(10)); n != 4 {
			t.Errorf("%d messages at their time, want all", n)
		}
	})
}

// The same holds while the partition stays here and the process goes that dispatched some of its tasks.
func TestWhatAProcessEnqueuedBeforeItWentIsSentAgain(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		gone := false
		w.process, w.depths = "p-self", lasting{w.queue}
		w.presence = func(process string) (bool, bool) {
			return process == "p-foreign" && !gone, process == "p-foreign" && gone
		}
		a := newAssigned(map[task.Partition]string{high: "me", low: "me"})
		w.startAs(a)
		w.advance(time.Minute)
		w.awake(high, 0, func(t *task.Task) {
			t.State, t.Enqueues, t.Worker, t.Enqueued, t.Wake = task.Enqueued, 1, "p-foreign", t.Due, t.Due.Add(task.EnqueueTimeout)
		})
		w.advance(6 * time.Second)
		if n := len(w.drain(10)); n != 0 {
			t.Errorf("%d messages while it is there", n)
		}
		gone = true
		a.follow() // something was heard of the members
		if n := len(w.drain(10)); n != 1 {
			t.Errorf("%d messages when it is gone, want one", n)
		}
	})
}

// A task is tried again in place by the process that stored that. When it is gone, whoever owns the partition
// reads again all that is in flight.
func TestWhatAMemberChangedLastIsReadAgainWhenItIsGone(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		a := newAssigned(map[task.Partition]string{high: "me", low: "me"})
		l := w.openLease(15 * time.Second)
		one, other := w.running(high, l.Worker), w.running(high, l.Worker)
		w.startAs(a)
		w.beat(2*time.Minute, l)
		failed := w.finish(one, task.OutcomeRetriable, false) // and nobody is told
		w.rows.readRows()
		a.follow() // something was heard of the members
		if n := w.rows.readRows(); n != 2 {
			t.Errorf("%d rows were read, want all in flight", n)
		}
		w.advance(failed.Wake.Sub(w.clock.Now()))
		w.wantDispatched(&failed, failed.Wake, time.Millisecond)
		failed = w.finish(other, task.OutcomeRetriable, false)
		a.give(low, "other") // and so does another view of them
		w.advance(failed.Wake.Sub(w.clock.Now()))
		w.wantDispatched(&failed, failed.Wake, time.Millisecond)
	})
}

// A partition goes to another process, which does not know of the retries in place here.
func TestWhatIsDemotedFiresTheRetriesThatItAloneKnows(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		a := newAssigned(map[task.Partition]string{high: "me", low: "me"})
		s := w.startAs(a)
		w.advance(time.Minute)
		retry := w.awake(high, -30*time.Second, backedOff(8*time.Second))
		if !s.FiresWithin(high, retry.Wake) || s.FiresWithin(high, w.clock.Now().Add(window+time.Microsecond)) {
			t.Error("fires retries other than those within the window")
		}
		s.Awake(&retry)
		synctest.Wait()
		a.give(high, "other")
		a.follow()
		if s.Fires(high) {
			t.Fatal("the partition is still fired here")
		}
		later := w.awake(high, -30*time.Second, backedOff(4*time.Second))
		if !s.FiresWithin(high, later.Wake) || s.FiresWithin(high, w.clock.Now().Add(window/2+time.Microsecond)) {
			t.Error("a foreign loop fires retries other than those within half a window")
		}
		s.Awake(&later)
		w.advance(window)
		w.wantDispatched(&retry, retry.Wake, 100*time.Millisecond)
		w.wantDispatched(&later, later.Wake, 100*time.Millisecond)
	})
}

// A retry in place fires at its time, though read-aheads and full scans go over the wake-up row that it left
// long ago; one that has moved is found by a read-ahead, told of or not.
func TestRetriesFireAtTheirTime(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		s := w.settled()
		var all []task.Task
		for n := range 60 { // read-aheads and full scans come at any moment of their lives
			inPlace := w.awake(high, -time.Duration(n)*3*time.Second, backedOff(9500*time.Millisecond))
			s.Awake(&inPlace)
			told := w.moved(high, -time.Minute, backedOff(12*time.Second))
			s.Awake(&told)
			snoozed := w.moved(high, -time.Minute, func(t *task.Task) { t.Attempt, t.Wake = 1, t.Created.Add(1500*time.Millisecond) })
			s.Awake(&snoozed)
			all = append(all, inPlace, told, snoozed, w.moved(high, -time.Hour, backedOff(17*time.Second)))
			w.advance(700 * time.Millisecond)
		}
		w.advance(20 * time.Second)
		for _, one := range all {
			w.wantDispatched(&one, one.Wake, time.Millisecond)
		}
		if n := w.sent.counted(&w.sent.refused); n != 0 {
			t.Errorf("%d writes were refused", n)
		}
	})
}

// A retry in place that waits for room in its queue is not forgotten by the read-aheads in between.
func TestARetryThatWaitsForRoomIsKept(t *testing.T) {
	for name, add := range map[string]func(w *world) task.Task{
		"in place": func(w *world) task.Task { return w.awake(high, -30*time.Second, backedOff(time.Second)) },
		"old one":  func(w *world) task.Task { return w.awake(high, -10*time.Minute, backedOff(time.Second)) },
		"moved":    func(w *world) task.Task { return w.moved(high, 0, backedOff(time.Second)) },
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, depth, func(w *world) {
				w.sent.depthMax = 0
				s := w.settled()
				one := add(w)
				s.Awake(&one)
				for range 40 {
					w.advance(time.Second)
					if since, overdue := s.Overdue()[high]; w.clock.Now() > one.Wake && (!overdue || since != one.Wake) {
						t.Fatalf("overdue since %v (%v), want its wake-up", since.Sub(start), overdue)
					}
				}
				if n := w.rows.readRows(); n > 4 {
					t.Errorf("it was read %d times in 40 s", n)
				}
				w.sent.mu.Lock()
				w.sent.depthMax = 1
				w.sent.mu.Unlock()
				now := w.clock.Now()
				w.advance(time.Second)
				w.wantDispatched(&one, now, 100*time.Millisecond)
			})
		})
	}
}

// More is told of than the inbox holds, of rows that no look would read: the next one begins where the
// earliest of them is.
func TestAnOverflowOfHintsLowersWhereTheNextReadAheadBegins(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		s := w.settled()
		w.advance(2 * time.Minute)
		l := w.openLease(15 * time.Second)
		running := w.running(high, l.Worker)
		w.advance(window)
		block := make(chan struct{})
		w.sent.mu.Lock()
		w.sent.refuse = func(*task.Task) error { <-block; return nil }
		w.sent.mu.Unlock()
		first := w.waiting(high, 0)
		s.Added(&first)
		synctest.Wait() // the loop is busy with the first one
		const n = 5000  // above the bound of the inbox
		for i := range n {
			one := w.waiting(high, -time.Hour-time.Duration(i)*time.Second)
			s.Added(&one)
		}
		failed := w.finish(running, task.OutcomeRetriable, false)
		s.Awake(&failed)
		w.sent.mu.Lock()
		w.sent.refuse = nil
		w.sent.mu.Unlock()
		close(block)
		w.advance(time.Millisecond)
		if got := len(w.drain(depth)); got != n+1 {
			t.Errorf("%d messages, want %d", got, n+1)
		}
		w.advance(window)
		w.wantDispatched(&failed, failed.Wake, time.Millisecond)
	})
}

// Told of late, or twice, of a task that is in flight, nothing is sent twice.
func TestALateHintSendsNothingTwice(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		s := w.settled()
		one := w.waiting(high, 0)
		s.Added(&one)
		w.advance(time.Second)
		s.Added(&one)
		w.advance(time.Second)
		if n, refused := len(w.drain(10)), w.sent.counted(&w.sent.refused); n != 1 || refused != 0 {
			t.Errorf("%d messages, %d writes refused", n, refused)
		}
	})
}

// A task in flight snoozes for no time, so that it wakes where its wake-up row is, and the high-water mark is
// not there yet. The scan that gets there passes over the rows of tasks in flight, so the hint must tell it.
func TestASnoozeBehindTheHighWaterMarkIsFired(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.look = 64
		for range 2 * w.look {
			w.waiting(high, -time.Second)
		}
		w.sent.depthMax = 0
		s := w.settled()
		now := w.clock.Now()
		one := w.awake(high, 0, func(t *task.Task) { t.State, t.Enqueues, t.Wake = task.Enqueued, 1, t.Due.Add(task.EnqueueTimeout) })
		s.Enqueued(&one)
		w.advance(0)
		one.State, one.Attempt, one.Wake, one.Seq = task.Scheduled, 1, one.WakeRow.At, one.Seq+1
		w.apply(store.Change(one, false, false)...)
		s.Awake(&one)
		w.advance(0)
		w.sent.mu.Lock()
		w.sent.depthMax = depth
		w.sent.mu.Unlock()
		w.advance(window)
		w.wantDispatched(&one, now, time.Second)
	})
}

// Tens of thousands of tasks of one partition run for hours: a read-ahead does not read them.
func TestWhatRunsForHoursIsNotReadWithEveryReadAhead(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		l := w.openLease(5 * time.Minute)
		n := either(50_000, 10_000)
		for range n {
			w.running(high, l.Worker)
		}
		s := w.start()
		w.beat(2*time.Minute, l)
		if got := s.InFlight(); got != n {
			t.Fatalf("%d in flight, want %d", got, n)
		}
		w.rows.lookedRows()
		w.rows.readRows()
		const fullScans = 3
		w.beat(10*time.Minute, l)
		if looked, read := w.rows.lookedRows(), w.rows.readRows(); looked > fullScans*n || read > fullScans*n {
			t.Errorf("%d tasks that run were read %d times by scans and %d times one by one in ten minutes", n, looked, read)
		}
	})
}

// A backlog that a full queue holds up is read as far as memory goes and no further, and drains in due order.
func TestABacklogBehindAFullQueueIsReadInPieces(t *testing.T) {
	inWorld(t, 200_000, func(w *world) {
		const limit = 4096
		n := either(100_000, 20_000)
		oldest := w.waiting(high, -2*time.Hour)
		for i := range n - 1 {
			ago := time.Duration(i) * 10 * time.Millisecond // a read-ahead meets more than fit
			if i >= limit {
				ago = time.Minute + time.Duration(i-limit)*70*time.Millisecond
			}
			w.waiting(high, -ago)
		}
		w.sent.depthMax = 0
		warm := 0
		w.hooks.Warm = func(*scheduler.Assignment) { warm++ }
		s := w.start()
		if looked, read := w.rows.lookedRows(), w.rows.readRows(); looked > 2*limit || read > 2*limit {
			t.Errorf("%d rows were scanned and %d read at the start", looked, read)
		}
		minutes := either(10, 2)
		w.advance(time.Duration(minutes) * time.Minute)
		if looked := w.rows.lookedRows(); looked > 13*minutes*limit {
			t.Errorf("%d rows were scanned in %d minutes", looked, minutes)
		}
		if since := s.Overdue()[high]; since != oldest.Due {
			t.Errorf("overdue since %v before the start, want %v", start.Sub(since), start.Sub(oldest.Due))
		}
		if warm != 1 || s.Lag() != 0 {
			t.Errorf("warm %d times, lag %v", warm, s.Lag())
		}
		soon := w.waiting(low, time.Second) // what is due elsewhere is not held up
		s.Added(&soon)
		w.sent.mu.Lock()
		w.sent.depthMax = 1000
		w.sent.mu.Unlock()
		for range 2 * n / 1000 {
			w.advance(50 * time.Millisecond)
			w.drain(1000)
		}
		orders := w.sent.fired()
		if len(orders) != n+1 {
			t.Errorf("%d dispatched, want %d", len(orders), n+1)
		}
		orders = slices.DeleteFunc(orders, func(f fired) bool { return f.id == soon.ID })
		if !inDueOrder(orders) {
			t.Error("not in due order")
		}
		w.wantOnTime(soon)
	})
}

// A head of leftover rows delays nobody, and goes.
func TestAHeadOfLeftoverRowsDelaysNobody(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		n := either(100_000, 20_000)
		for i := range n {
			w.awake(high, -time.Hour-time.Duration(i)*time.Millisecond, func(t *task.Task) {
				t.State, t.Wake, t.Ended, t.ExpireAt = task.Success, 0, t.Due, t.Due.Add(24*time.Hour)
			})
		}
		w.depths = lasting{w.queue} // so that the full scan is paced
		s := w.start()
		var all []task.Task
		for range 40 {
			told := w.waiting(high, 300*time.Millisecond)
			s.Added(&told)
			all = append(all, told)
			w.advance(500 * time.Millisecond)
		}
		all = append(all, w.waiting(high, 11*time.Second))
		w.advance(12 * time.Second)
		w.wantOnTime(all...)
		if left := len(w.schedule(high)); left != len(all) {
			t.Errorf("%d wake-up rows are left, want those of %d live tasks", left, len(all))
		}
		if looked := w.rows.lookedRows(); looked > n+100*len(all) {
			t.Errorf("%d rows were scanned", looked)
		}
	})
}

// Tasks fail again and again, tried again in place or moved, told of or found: each try is made, none twice.
func TestNoRetryIsLost(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.look = 1
		const n, tries = 150, 4
		var all []task.Task
		for i := range n {
			all = append(all, w.awake(high, 0, backedOff(time.Duration(i)*37*time.Millisecond)))
		}
		l := w.openLease(15 * time.Second)
		s := w.start()
		ended, steps := 0, 0
		for ; ended < n && steps < 600; steps++ {
			w.beat(l.HeartbeatEvery(), l)
			for _, m := range w.drain(10_000) {
				ended += w.attempt(s, m.Task, l, tries)
			}
		}
		for _, one := range all {
			if got := w.read(one.ID); got.State != task.Dead || got.Attempt != tries+1 {
				t.Fatalf("%s at attempt %d", got.State, got.Attempt)
			}
		}
		if left := len(w.schedule(high)); left != 0 {
			t.Errorf("%d wake-up rows are left", left)
		}
		t.Logf("%d heartbeats", steps)
	})
}

// attempt claims a message's task and fails it; it returns 1 when that was its last try.
func (w *world) attempt(s *scheduler.Scheduler, t task.Task, l lease.Lease, tries uint32) int {
	w.t.Helper()
	row := w.read(t.ID)
	claimed, _, err := row.Apply(task.Event{Kind: task.Claim, Seq: t.Seq, Worker: l.Worker, Lease: l.Length}, w.clock.Now(), policy)
	if err != nil || row.Seq != t.Seq {
		return 0 // a message too many
	}
	w.apply(store.Change(claimed, false, false)...)
	ending := policy
	ending.MaxAttempts = tries + 1
	event := task.Event{
		Kind: task.Finish, Worker: l.Worker, Attempt: claimed.Attempt, Outcome: task.OutcomeRetriable, Jitter: w.clock.Uint64(),
	}
	failed, _, err := claimed.Apply(event, w.clock.Now(), ending)
	if err != nil {
		w.t.Fatal(err)
	}
	move := !s.FiresWithin(failed.Partition, failed.Wake)
	ops := store.Change(failed, move, false)
	w.apply(ops...)
	switch {
	case failed.State == task.Dead:
		return 1
	case !move:
		s.Awake(&failed)
	case w.clock.Uint64()%2 == 0:
		s.Awake(&ops[1].Task)
	}
	return 0
}

// A backlog holds a full scan up for as long as it lasts, which may be longer than ended rows are kept.
func TestABacklogDoesNotStopTheCleaningUp(t *testing.T) {
	inWorld(t, 10, func(w *world) {
		w.look = 1 // the least
		for i := range 200 {
			w.waiting(high, -time.Duration(10*60-i)*time.Second)
		}
		w.start()
		w.advance(time.Minute) // the queue is full, and nobody receives
		ended := w.awake(high, -time.Hour, func(t *task.Task) {
			t.State, t.Wake, t.Ended, t.ExpireAt = task.Success, 0, w.clock.Now(), w.clock.Now().Add(task.EndedMin)
		})
		w.advance(task.EndedMin)
		if rows := w.schedule(high); rows[0].ID == ended.ID {
			t.Error("the wake-up row is still there when the row of its ended task may go")
		}
	})
}

// A read-ahead finds a task that wakes far ahead, in its own place, when its time comes.
func TestFarSnoozesTakeNoMemory(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		l := w.openLease(15 * time.Second)
		var all []task.Task
		for range 10 {
			all = append(all, w.running(high, l.Worker))
		}
		s := w.start()
		w.beat(2*time.Minute, l)
		for _, one := range all {
			row := w.read(one.ID)
			snooze := task.Event{Kind: task.Finish, Worker: l.Worker, Attempt: row.Attempt, Outcome: task.OutcomeSnoozed, Delay: 30 * 24 * time.Hour}
			next, _, err := row.Apply(snooze, w.clock.Now(), policy)
			if err != nil {
				t.Fatal(err)
			}
			w.apply(store.Change(next, true, false)...)
		}
		w.beat(30*time.Minute, l)
		if n := s.InFlight(); n != 0 {
			t.Errorf("%d tasks in flight, want none", n)
		}
	})
}

// Ended rows outlast what could start their tasks again: the pause between two full scans, and the longest
// call.
func TestEndedRowsAreKeptForLongEnough(t *testing.T) {
	if task.EndedMin < store.CallMax+fullScanLatest {
		t.Errorf("ended rows are kept for %v, calls take up to %v, full scans are up to %v apart", task.EndedMin, store.CallMax, fullScanLatest)
	}
}
