package hsc

import (
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/dispatcher"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// waiting returns a task that is due now and has no row.
func (f *fixture) waiting(lambda string, changes ...func(*task.Task)) task.Task {
	f.Helper()
	return f.task(lambda, append(changes, func(t *task.Task) {
		t.State, t.Enqueued, t.Enqueues, t.Wake = task.Scheduled, 0, 0, t.Due
	})...)
}

// reserve reserves a slot for a task.
func (f *fixture) reserve(t *task.Task) dispatcher.Slot {
	return f.svc.Waiting.Match(f.catalog.ByRef(t.Partition.Lambda), clock.Mono(f.clock))
}

// match reserves a slot for a task and returns the task as it is to be stored.
func (f *fixture) match(t task.Task) (dispatcher.Slot, task.Task) {
	f.Helper()
	slot := f.reserve(&t)
	if slot == nil {
		return nil, t
	}
	event := task.Event{Kind: task.Match, Worker: slot.Worker(), Lease: slot.Lease()}
	next, _, err := t.Apply(event, f.clock.Now(), task.Policy{})
	if err != nil {
		f.Fatal(err)
	}
	next.WakeRow = task.WakeRow{At: next.Due, Seq: 1}
	return slot, next
}

// wantMatch reserves a slot for a task and stores the task as claimed.
func (f *fixture) wantMatch(t task.Task) task.Task {
	f.Helper()
	slot, next := f.match(t)
	if slot == nil {
		f.Fatal("not matched")
	}
	f.put(next)
	slot.Settle(&next, nil)
	return next
}

func (f *fixture) wantNoMatch(t task.Task) {
	f.Helper()
	if f.reserve(&t) != nil {
		f.Error("matched")
	}
}

// idle opens the stream of a worker and waits until its slots are idle.
func (f *fixture) idle(groups ...*kinesinv1.SlotGroup) *remote {
	f.Helper()
	w := f.work(groups...)
	time.Sleep(idleAfter)
	return w
}

func TestAMatchedTaskReachesTheWorker(t *testing.T) {
	bubble(t, func(f *fixture) {
		ended, matched, claimed := 0, 0, 0
		f.svc.Ended = func([]task.ID) { ended++ }
		f.svc.Hooks.Matched = func(*catalog.Entry, *task.Task) { matched++ }
		f.svc.Hooks.Claimed = func(*catalog.Entry, *task.Task) { claimed++ }
		w := f.idle(slots(2, "mail"))
		one := f.wantMatch(f.waiting("mail"))
		got := w.wantClaimed(1)[0]
		if id(got) != one.ID || got.GetAttempt() != 1 || string(got.GetPayload()) != "hello" {
			t.Errorf("got %v", got)
		}
		w.report("success", got)
		w.wantAck(got, kinesinv1.Reason_REASON_UNSPECIFIED)
		f.wantState(one.ID, task.Success)
		if rows := f.wakeups(one); len(rows) != 0 {
			t.Errorf("wake-up rows %+v", rows)
		}
		if ended != 1 || matched != 1 || claimed != 1 {
			t.Errorf("told of %d ends, %d matches and %d claims", ended, matched, claimed)
		}
		f.wantMatch(f.waiting("mail")) // it never stopped waiting
		w.wantClaimed(2)
	})
}

func TestNoMatchWithoutASlotThatWaits(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.wantNoMatch(f.waiting("mail")) // nobody is there
		f.lambda("push")
		w := f.work(slots(2, "mail"))
		f.wantNoMatch(f.waiting("mail")) // it may just be about to get something
		time.Sleep(idleAfter)
		f.wantNoMatch(f.waiting("push"))
		f.wantNoMatch(f.waiting("mail", func(t *task.Task) { t.Partition.Lambda++ }))
		f.wantMatch(f.waiting("mail"))
		f.wantMatch(f.waiting("mail"))
		f.wantNoMatch(f.waiting("mail")) // no slot is free
		got := w.wantClaimed(2)
		w.report("success", got...)
		time.Sleep(idleAfter)
		f.wantMatch(f.waiting("mail"))
		w.send(&kinesinv1.WorkRequest{Drain: true})
		f.wantNoMatch(f.waiting("mail"))
	})
}

func TestNoMatchWithoutAGoodLease(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.svc.Ahead = time.Second
		w := f.idle(slots(1, "mail"))
		time.Sleep(time.Minute)
		f.wantNoMatch(f.waiting("mail"))
		f.heartbeat(w.id)
		time.Sleep(leaseLookEvery + idleAfter)
		f.wantMatch(f.waiting("mail"))
		w.wantClaimed(1)
	})
}

// Prefetch is for tasks that wait in a queue anyway: a direct hand-off never waits at its worker.
func TestNoMatchBeyondTheSlots(t *testing.T) {
	bubble(t, func(f *fixture) {
		w := f.idle(slots(1, "mail"))
		for n := 1; n <= 3; n++ { // short ones
			f.wantMatch(f.waiting("mail"))
			got := w.wantClaimed(n)[n-1]
			w.send(&kinesinv1.WorkRequest{Results: []*kinesinv1.Result{{
				Task: got.GetTask(), Attempt: got.GetAttempt(), Outcome: "success", Started: int64(f.clock.Now()),
			}}})
			time.Sleep(idleAfter)
		}
		f.wantMatch(f.waiting("mail"))
		f.wantNoMatch(f.waiting("mail"))
		f.enqueueMany("mail", 1)
		w.wantClaimed(5)
	})
}

// While a message of one lambda is on its way to a worker, no task of its other lambda overtakes it, though a
// slot is free.
func TestAnotherLambdasMessageIsNotOvertaken(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.lambda("push")
		w := f.idle(slots(2, "mail", "push"))
		another, looked := f.waiting("mail"), false
		f.store.refuse = func(op *store.Op) bool {
			if op.Task.State == task.Claimed { // of the message
				looked = true
				f.wantNoMatch(another)
			}
			return false
		}
		f.enqueue(f.task("push"))
		if got := w.wantClaimed(1)[0]; got.GetLambda() != "push" || !looked {
			t.Errorf("got %s", got.GetLambda())
		}
		f.wantNoMatch(another) // it has only begun to wait again
		time.Sleep(idleAfter)
		f.wantMatch(another)
		w.wantClaimed(2)
	})
}

func TestAFullGroupStopsReceiving(t *testing.T) {
	bubble(t, func(f *fixture) {
		w := f.idle(slots(1, "mail"))
		f.wantMatch(f.waiting("mail"))
		synctest.Wait()
		waits := f.task("mail")
		f.enqueue(waits)
		synctest.Wait()
		f.wantQueued(waits, 1, 0)
		w.report("released", w.wantClaimed(1)...)
		w.wantClaimed(2)
	})
}

func TestAMatchOnAClosedStreamGoesBack(t *testing.T) {
	bubble(t, func(f *fixture) {
		w := f.idle(slots(1, "mail"))
		slot, next := f.match(f.waiting("mail"))
		f.put(next)
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		slot.Settle(&next, nil)
		row := f.wantState(next.ID, task.Enqueued)
		f.wantQueued(row, 1, 0)
		f.wantNoMatch(f.waiting("mail"))
		f.idle(slots(1, "mail")).wantClaimed(1)
	})
}

func TestAMatchThatIsNotStoredFreesItsSlot(t *testing.T) {
	bubble(t, func(f *fixture) {
		const n = 3
		w := f.idle(slots(n, "mail"))
		for range 10 * n {
			var all [n]dispatcher.Slot
			for i := range all {
				if all[i], _ = f.match(f.waiting("mail")); all[i] == nil {
					t.Fatal("a slot is lost")
				}
			}
			f.wantNoMatch(f.waiting("mail"))
			for i, slot := range all {
				slot.Settle(&task.Task{}, []error{store.ErrConflict, store.ErrFull, io.ErrUnexpectedEOF}[i])
			}
			time.Sleep(idleAfter)
		}
		f.enqueueMany("mail", 2*n)
		w.wantClaimed(n)
	})
}

// An unknown outcome of a match is read back, as soon as the row can be read.
func TestTheRowTellsOfAMatchOfUnknownOutcome(t *testing.T) {
	for _, stored := range []bool{false, true} {
		bubble(t, func(f *fixture) {
			w := f.idle(slots(1, "mail"))
			slot, next := f.match(f.waiting("mail"))
			if stored {
				f.put(next)
			}
			f.store.reads = 3
			slot.Settle(&next, store.ErrUnknown)
			synctest.Wait()
			w.wantClaimed(0)
			f.wantNoMatch(f.waiting("mail"))
			time.Sleep(time.Second)
			if !stored {
				w.wantClaimed(0)
				f.wantMatch(f.waiting("mail"))
			}
			if got := w.wantClaimed(1)[0]; got.GetAttempt() != 1 || f.failed["match"] != 3 {
				t.Errorf("attempt %d after %v", got.GetAttempt(), f.failed)
			}
		})
	}
}

// The same task may have been matched again by then, with the same worker: that is another claim.
func TestAnotherMatchOfTheSameTaskIsNotTakenForOurs(t *testing.T) {
	bubble(t, func(f *fixture) {
		w := f.idle(slots(2, "mail"))
		one := f.waiting("mail")
		slot, next := f.match(one)
		f.store.reads = 1
		slot.Settle(&next, store.ErrUnknown)
		synctest.Wait()
		time.Sleep(storeRetry.Min / 2)
		f.wantMatch(one)
		w.wantClaimed(1)
		time.Sleep(2 * storeRetry.Min)
		w.wantClaimed(1)
		f.wantMatch(f.waiting("mail")) // its slot is free
		w.wantClaimed(2)
	})
}

func TestAMatchInDoubtEndsWithItsStream(t *testing.T) {
	bubble(t, func(f *fixture) {
		w := f.idle(slots(1, "mail"))
		slot, next := f.match(f.waiting("mail"))
		f.put(next)
		f.store.reads = 1000
		slot.Settle(&next, store.ErrUnknown)
		synctest.Wait()
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		f.store.reads = 0
		f.wantState(next.ID, task.Claimed)
	})
}

func TestAMatchThatIsStoredTooLateGoesBack(t *testing.T) {
	bubble(t, func(f *fixture) {
		w := f.idle(slots(1, "mail"))
		slot, next := f.match(f.waiting("mail"))
		f.put(next)
		time.Sleep(confirmAfter + time.Millisecond) // it is due at a whole one
		slot.Settle(&next, nil)
		if got := w.wantClaimed(1)[0]; got.GetAttempt() != 2 {
			t.Errorf("attempt %d", got.GetAttempt())
		}
	})
}

func TestTheWorkerGetsThePayloadThatIsStoredApart(t *testing.T) {
	apart := func(t *task.Task) { t.Payload, t.PayloadSize = nil, 3 }
	bubble(t, func(f *fixture) {
		w := f.idle(slots(1, "mail"))
		large := f.waiting("mail", apart)
		f.apply(store.Op{Kind: store.PutPayload, New: true, Payload: []byte("far"), Task: task.Task{ID: large.PayloadID(), Due: large.Due}})
		f.store.payloads = 1 // the read that fails first
		large = f.wantMatch(large)
		got := w.wantClaimed(1)[0]
		if string(got.GetPayload()) != "far" || got.GetAttempt() != 2 {
			t.Errorf("attempt %d with payload %q", got.GetAttempt(), got.GetPayload())
		}
		w.report("success", got)
		time.Sleep(idleAfter)
		missing := f.wantMatch(f.waiting("mail", apart))
		synctest.Wait()
		f.wantState(missing.ID, task.FatalFailure)
		time.Sleep(idleAfter)
		f.wantMatch(f.waiting("mail")) // its slot is free
		w.wantClaimed(2)
	})
}

// TestSlotsAreSharedOut gives matched and queued tasks to several workers at once: no worker ever has more
// than its slots.
func TestSlotsAreSharedOut(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.svc.SlotsOnly = true
		const workers, each, rounds = 3, 2, 40
		var all []*remote
		for range workers {
			all = append(all, f.work(slots(each, "mail")))
		}
		reported, matched := map[task.ID]bool{}, 0
		var tasks []task.Task
		for round := range rounds {
			time.Sleep(idleAfter)
			var calls sync.WaitGroup
			var mu sync.Mutex
			for n := range 5 {
				next := f.waiting("mail")
				calls.Go(func() {
					slot, next := f.match(next)
					if (n+round)%4 == 0 && slot != nil {
						slot.Settle(&next, store.ErrConflict)
						slot = nil
					}
					if slot == nil {
						next.State, next.Worker, next.Attempt, next.Enqueues, next.Seq = task.Enqueued, "", 0, 1, 1
						next.ClaimedAt, next.Wake = 0, next.Due.Add(task.EnqueueTimeout)
						f.enqueue(next)
					} else {
						f.put(next)
						slot.Settle(&next, nil)
					}
					mu.Lock()
					defer mu.Unlock()
					tasks = append(tasks, next)
					if slot != nil {
						matched++
					}
				})
			}
			calls.Wait()
			for i, w := range all {
				var open []*kinesinv1.Claimed
				for _, c := range w.claimed() {
					if !reported[id(c)] {
						open = append(open, c)
					}
				}
				if len(open) > each {
					t.Fatalf("worker %d has %d tasks, want %d at most", i, len(open), each)
				}
				for _, c := range open[:min(len(open), 1+round%each)] {
					reported[id(c)] = true
					w.report("success", c)
				}
			}
		}
		for range len(tasks) { // the rest
			for _, w := range all {
				for _, c := range w.claimed() {
					if !reported[id(c)] {
						reported[id(c)] = true
						w.report("success", c)
					}
				}
			}
		}
		for i := range tasks {
			f.wantState(tasks[i].ID, task.Success)
		}
		if matched == 0 || matched == len(tasks) {
			t.Errorf("%d of %d matched", matched, len(tasks))
		}
		f.wantQueued(task.Task{Partition: tasks[0].Partition}, 0, 0)
	})
}
