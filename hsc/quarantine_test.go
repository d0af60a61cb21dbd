package hsc

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/clock/clocktest"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// names returns the suspect that the lease of a worker names.
func (f *fixture) names(worker string) task.ID {
	f.Helper()
	l, err := f.book.Look(f.ctx, worker)
	if err != nil {
		f.Fatal(err)
	}
	return l.Suspect
}

// keeps sends heartbeats for some time.
func (f *fixture) keeps(d time.Duration, workers ...string) {
	f.Helper()
	for ; d > 0; d -= time.Second {
		time.Sleep(min(d, time.Second))
		for _, w := range workers {
			f.heartbeat(w)
		}
	}
	synctest.Wait()
}

// Nothing begins beside a task in quarantine, by whatever way it comes: another task that kills the process
// would be blamed on it.
func TestNothingBeginsBesideATaskInQuarantine(t *testing.T) {
	bubble(t, func(f *fixture) {
		w := f.work(slots(4, "mail"), slots(4, "mail"))
		time.Sleep(2 * idleAfter)
		one := f.task("mail", func(t *task.Task) { t.State, t.Enqueued = task.Scheduled, 0 })
		if s := f.reserve(&one); s == nil {
			t.Fatal("an idle worker is not matched")
		} else {
			s.Settle(&one, store.ErrConflict)
		}
		f.enqueue(f.task("mail", suspect(1)))
		blamed := w.wantClaimed(1)[0]
		f.enqueueMany("mail", 3)
		f.enqueue(f.task("mail", suspect(0)))
		f.keeps(5*time.Second, w.id)
		w.wantClaimed(1)
		if f.reserve(&one) != nil {
			t.Error("a task is matched with a process in quarantine")
		}
		w.report("success", blamed)
		synctest.Wait()
		w.wantClaimed(5)
	})
}

// A quarantine lasts as long as it must, also when the wall clock is set back meanwhile: the process takes
// nothing else before its end.
func TestAQuarantineEndsThoughTheClockIsSetBack(t *testing.T) {
	k := &clocktest.Settable{Clock: clock.Real()}
	bubbleBy(t, k, func(f *fixture) {
		w := f.work(slots(4, "mail"))
		f.enqueue(f.task("mail", suspect(1)))
		w.wantClaimed(1)
		k.Step(-time.Hour)
		f.enqueueMany("mail", 1)
		f.keeps(task.QuarantineMin-2*time.Second, w.id)
		w.wantClaimed(1)
		f.keeps(4*time.Second, w.id)
		w.wantClaimed(2)
	})
}

// Other processes take what a process in quarantine leaves.
func TestOthersServeMeanwhile(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.enqueue(f.task("mail", suspect(1)))
		apart := f.work(slots(4, "mail"))
		apart.wantClaimed(1)
		other := f.work(slots(4, "mail"))
		f.enqueueMany("mail", 3)
		other.wantClaimed(3)
		apart.wantClaimed(1)
	})
}

// Half of the processes serve other tasks at any time, so that those are not held up.
func TestHalfOfTheProcessesServeOthers(t *testing.T) {
	bubble(t, func(f *fixture) {
		var workers []*remote
		for range 4 {
			workers = append(workers, f.work(slots(4, "mail")))
		}
		for range 6 {
			f.enqueue(f.task("mail", suspect(1)))
		}
		time.Sleep(time.Second)
		closed := 0
		for _, w := range workers {
			closed += len(w.claimed())
		}
		if closed != 2 {
			t.Fatalf("%d of 4 processes are in quarantine, want 2", closed)
		}
		f.enqueueMany("mail", 8)
		all := 0
		for _, w := range workers {
			all += len(w.claimed())
		}
		if all != 2+8 {
			t.Errorf("%d of 8 tasks were taken by the others", all-2)
		}
	})
}

// A process without young attempts gets the task at once; the others leave it to that one.
func TestABlamedTaskGoesWhereThereIsRoom(t *testing.T) {
	bubble(t, func(f *fixture) {
		busy := f.work(slots(4, "mail"))
		f.enqueueMany("mail", 1)
		busy.wantClaimed(1)
		f.enqueue(f.task("mail", suspect(1)))
		time.Sleep(2 * putBackDelay)
		busy.wantClaimed(1)
		f.enqueueMany("mail", 1)
		busy.wantClaimed(2) // it goes on meanwhile
		fresh := f.work(slots(4, "mail"))
		time.Sleep(2 * putBackDelay)
		fresh.wantClaimed(1)
	})
}

// If all processes run young attempts, one of them takes nothing until its attempts have run for long enough.
func TestAProcessMakesRoom(t *testing.T) {
	bubble(t, func(f *fixture) {
		w := f.work(slots(4, "mail"))
		f.enqueueMany("mail", 1)
		w.wantClaimed(1) // and runs for a minute
		began := f.clock.Now()
		blamed := f.task("mail", suspect(1))
		f.enqueue(blamed)
		f.keeps(forceAfter+2*time.Second, w.id)
		f.enqueueMany("mail", 1)
		for f.row(blamed.ID).State == task.Enqueued {
			if waited := f.clock.Now().Sub(began); waited > provenWaitMax {
				t.Fatalf("it waits for %v", waited)
			}
			f.keeps(100*time.Millisecond, w.id)
		}
		if waited := f.clock.Now().Sub(began); waited < task.QuarantineMin || waited > task.QuarantineMin+time.Second {
			t.Errorf("it began %v after what runs beside it, want %v", waited, task.QuarantineMin)
		}
		if w.wantClaimed(2); f.names(w.id) != blamed.ID {
			t.Errorf("the lease names %v", f.names(w.id))
		}
	})
}

// A quarantine ends before its task if that takes longer: the id comes off the lease, and then other tasks
// begin beside it.
func TestAQuarantineEnds(t *testing.T) {
	for blamed, lasts := range map[uint32]time.Duration{1: task.QuarantineMin, 3: 4 * task.QuarantineMin} {
		bubble(t, func(f *fixture) {
			one := f.task("mail", suspect(blamed))
			f.enqueue(one, f.task("mail", suspect(1)))
			w := f.work(slots(4, "mail"))
			w.wantClaimed(1)
			f.enqueueMany("mail", 2)
			f.keeps(lasts-time.Second, w.id)
			if w.wantClaimed(1); f.names(w.id) != one.ID {
				t.Errorf("the lease names %v", f.names(w.id))
			}
			f.keeps(2*time.Second, w.id)
			if w.wantClaimed(3); !f.names(w.id).IsZero() {
				t.Errorf("others run, and the lease names %v", f.names(w.id))
			}
			f.keeps(time.Minute, w.id)
			w.wantClaimed(3) // one blamed task to a process
		})
	}
}

// While the id cannot be taken off the lease nothing begins beside the task.
func TestAQuarantineThatCannotEndGoesOn(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.enqueue(f.task("mail", suspect(1)))
		w := f.work(slots(4, "mail"))
		w.wantClaimed(1)
		f.enqueueMany("mail", 1)
		f.keeps(task.QuarantineMin-time.Second, w.id)
		f.leases.away.Store(true)
		time.Sleep(3 * time.Second)
		w.wantClaimed(1)
		f.leases.away.Store(false)
		time.Sleep(2 * quarantineLookEvery)
		w.wantClaimed(2)
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.failed["end a quarantine"] == 0 {
			t.Errorf("failures %v", f.failed)
		}
	})
}

// Between two quarantines other tasks are served for as long as they had to wait.
func TestOthersHaveTheirTurnBetweenQuarantines(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.enqueue(f.task("mail", suspect(1)), f.task("mail", suspect(1)))
		w := f.work(slots(4, "mail"))
		first := w.wantClaimed(1)
		f.keeps(4*time.Second, w.id)
		w.report("success", first...)
		f.keeps(3*time.Second, w.id)
		w.report("success", first...)
		w.wantClaimed(1)
		f.enqueueMany("mail", 1)
		w.report("success", w.wantClaimed(2)[1])
		f.keeps(2*time.Second, w.id)
		w.wantClaimed(3)
	})
}

// A quarantine goes on when the stream of its process breaks.
func TestAQuarantineOutlivesItsStream(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.enqueue(f.task("mail", suspect(2)))
		w := f.work(slots(4, "mail"))
		blamed := w.wantClaimed(1)[0]
		f.enqueueMany("mail", 1)
		_ = w.close()
		f.keeps(time.Second, w.id)
		f.svc.forgetAll() // another server
		again := f.dial(w.id, &kinesinv1.Hello{Groups: []*kinesinv1.SlotGroup{slots(4, "mail")}, Held: []*kinesinv1.Held{held(blamed)}})
		f.keeps(2*task.QuarantineMin-3*time.Second, w.id)
		again.wantClaimed(0)
		f.keeps(4*time.Second, w.id)
		again.wantClaimed(1)
	})
}

// Workers that claim by calls wait for young attempts as well.
func TestQuarantineOfAWorkerThatCalls(t *testing.T) {
	bubble(t, func(f *fixture) {
		worker := f.register()
		f.enqueueMany("mail", 1)
		if got, err := f.claim(worker, 10, 0); len(got) != 1 || err != nil {
			t.Fatal(got, err)
		}
		blamed, began := f.task("mail", suspect(1)), f.clock.Now()
		f.enqueue(blamed)
		got, err := f.claim(worker, 10, 12*time.Second)
		if len(got) != 1 || err != nil || id(got[0]) != blamed.ID || f.clock.Now().Sub(began) < task.QuarantineMin || f.names(worker) != blamed.ID {
			t.Fatalf("%v, %v after %v, the lease names %v", got, err, f.clock.Now().Sub(began), f.names(worker))
		}
		f.enqueueMany("mail", 1)
		f.heartbeat(worker, held(got[0]))
		if got, err := f.claim(worker, 10, 5*time.Second); len(got) != 0 || err != nil {
			t.Errorf("beside a task in quarantine: %v, %v", got, err)
		}
		f.heartbeat(worker, held(got[0]))
		if got, err := f.claim(worker, 10, 6*time.Second); len(got) != 1 || err != nil || !f.names(worker).IsZero() {
			t.Errorf("%v, %v, the lease names %v", got, err, f.names(worker))
		}
	})
}

// Calls that are too short for that get the task all the same, in the end. Their lease does not name it,
// because their loss would prove nothing.
func TestABlamedTaskOfAWorkerThatCallsBriefly(t *testing.T) {
	bubble(t, func(f *fixture) {
		worker := f.register()
		blamed, began := f.task("mail", suspect(1)), f.clock.Now()
		f.enqueueMany("mail", 1)
		if got, err := f.claim(worker, 10, 0); len(got) != 1 || err != nil {
			t.Fatal(got, err)
		}
		f.enqueue(blamed)
		for f.row(blamed.ID).State == task.Enqueued {
			if waited := f.clock.Now().Sub(began); waited > provenWaitMax+2*time.Second {
				t.Fatalf("it waits for %v", waited)
			}
			f.enqueueMany("mail", 1)
			f.keeps(time.Second, worker)
			for range 2 {
				if _, err := f.claim(worker, 10, 200*time.Millisecond); err != nil {
					t.Fatal(err)
				}
			}
			if !f.names(worker).IsZero() {
				t.Fatal("the lease names it, and it runs beside others")
			}
		}
	})
}

// putBacks counts the messages that go back to a queue.
type putBacks struct {
	Queue

	n atomic.Int64
}

func (q *putBacks) Release(ctx context.Context, messages []queue.Message, delay time.Duration) error {
	q.n.Add(int64(len(messages)))
	return q.Queue.Release(ctx, messages, delay)
}

// Many blamed tasks that cannot begin yet are not received and put back all the time, before messages that
// others wait for.
func TestBlamedTasksThatWaitAreLeftInTheirQueue(t *testing.T) {
	bubble(t, func(f *fixture) {
		counted := &putBacks{Queue: f.svc.Queue}
		f.svc.Queue = counted
		for range 50 {
			f.enqueue(f.task("mail", suspect(1)))
		}
		w := f.work(slots(4, "mail"))
		first := w.wantClaimed(1)
		f.keeps(3*time.Second, w.id)
		w.report("success", first...)
		before := counted.n.Load()
		f.enqueueMany("mail", 3)
		f.keeps(2*time.Second, w.id)
		w.wantClaimed(4)
		if n := counted.n.Load() - before; n > 8 {
			t.Errorf("%d messages were put back in the turn of others", n)
		}
	})
}
