package hsc

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/task"
)

// lease registers a worker and returns the response.
func (f *fixture) lease(previous *kinesinv1.PreviousLease) (*kinesinv1.RegisterResponse, error) {
	return f.svc.Register(f.ctx, &kinesinv1.RegisterRequest{Name: "w", Previous: previous})
}

// tookUp returns a worker that has n tasks of which it has reported nothing, and its lease.
func (f *fixture) tookUp(n int) (*kinesinv1.RegisterResponse, *remote, []*kinesinv1.Claimed) {
	f.Helper()
	l, err := f.lease(nil)
	if err != nil {
		f.Fatal(err)
	}
	w := f.dial(l.GetWorker(), &kinesinv1.Hello{Groups: []*kinesinv1.SlotGroup{slots(uint32(n), "mail")}})
	f.enqueueMany("mail", n)
	synctest.Wait()
	return l, w, w.wantClaimed(n)
}

func givenUp(l *kinesinv1.RegisterResponse, results ...*kinesinv1.Result) *kinesinv1.PreviousLease {
	return &kinesinv1.PreviousLease{Worker: l.GetWorker(), Proof: l.GetProof(), Results: results}
}

// A worker that lost its lease while it was idle registers again. Its results are stored; what it never
// started, and what never reached it, goes back at once, and nobody is charged.
func TestAPreviousLeaseIsGivenUp(t *testing.T) {
	bubble(t, func(f *fixture) {
		l, w, tasks := f.tookUp(3)
		next, err := f.lease(givenUp(l, result(tasks[0], "success"), result(tasks[1], "released"))) // the third one got lost
		if err != nil || next.GetWorker() == l.GetWorker() || len(next.GetAcks()) != 2 || next.GetAcks()[0].GetProblem() != nil || next.GetAcks()[1].GetProblem() != nil {
			t.Fatalf("%v, %v", next, err)
		}
		f.wantState(id(tasks[0]), task.Success)
		for _, c := range tasks[1:] {
			if row := f.wantState(id(c), task.Enqueued); row.Suspect || row.Lost != 0 || row.Failures != 0 {
				t.Errorf("task %s is charged: %+v", row.ID, row)
			}
		}
		<-w.over
		if old, err := f.book.Look(f.ctx, l.GetWorker()); err != nil || !old.Lost {
			t.Errorf("the lease that was given up is %+v, %v", old, err)
		}
		again := f.dial(next.GetWorker(), &kinesinv1.Hello{Groups: []*kinesinv1.SlotGroup{slots(3, "mail")}})
		again.wantClaimed(2)
	})
}

// The answer got lost, so the worker registers again: it gets a lease and the same acks.
func TestAPreviousLeaseMayBeGivenUpTwice(t *testing.T) {
	bubble(t, func(f *fixture) {
		l, _, tasks := f.tookUp(2)
		for range 2 {
			next, err := f.lease(givenUp(l, result(tasks[0], "success"), result(tasks[1], "released")))
			if err != nil || next.GetAcks()[0].GetProblem() != nil || next.GetAcks()[1].GetProblem() != nil {
				t.Fatalf("%v, %v", next, err)
			}
		}
		if row := f.wantState(id(tasks[0]), task.Success); row.Attempt != 1 {
			t.Errorf("at attempt %d", row.Attempt)
		}
	})
}

// Results of tasks that were taken over meanwhile are refused, one by one.
func TestResultsOfAPreviousLeaseAreFenced(t *testing.T) {
	bubble(t, func(f *fixture) {
		l, _, tasks := f.tookUp(2)
		f.change(id(tasks[0]), task.Event{Kind: task.WorkerLost, Worker: l.GetWorker(), Attempt: 1})
		next, err := f.lease(givenUp(l, result(tasks[0], "success"), result(tasks[1], "success")))
		if err != nil || len(next.GetAcks()) != 2 {
			t.Fatalf("%v, %v", next, err)
		}
		if got := next.GetAcks()[0].GetProblem().GetReason(); got != kinesinv1.Reason_REASON_FENCED {
			t.Errorf("a result of a task that was taken back: %v, want it fenced", got)
		}
		f.wantState(id(tasks[0]), task.Enqueued)
		f.wantState(id(tasks[1]), task.Success)
	})
}

// No worker can release the tasks of another one whose id it knows, nor report their results.
func TestAPreviousLeaseNeedsItsProof(t *testing.T) {
	bubble(t, func(f *fixture) {
		l, w, tasks := f.tookUp(2)
		other, err := f.lease(nil)
		if err != nil {
			t.Fatal(err)
		}
		for name, proof := range map[string][]byte{"none": nil, "another's": other.GetProof()} {
			next, err := f.lease(&kinesinv1.PreviousLease{Worker: l.GetWorker(), Proof: proof, Results: []*kinesinv1.Result{result(tasks[0], "success")}})
			if err != nil || next.GetWorker() == "" {
				t.Errorf("proof %s: %v, %v; want a new lease all the same", name, next, err)
			}
			if got := next.GetAcks()[0].GetProblem().GetReason(); got != kinesinv1.Reason_REASON_FENCED {
				t.Errorf("proof %s: the result is answered with %v", name, got)
			}
		}
		for _, c := range tasks {
			f.wantState(id(c), task.Claimed)
		}
		f.heartbeat(l.GetWorker(), held(tasks[0]), held(tasks[1]))
		w.report("success", tasks...)
		f.wantState(id(tasks[0]), task.Success)
	})
}

// While the store takes no results the worker is told to repeat the call, and keeps its old lease until all
// are stored.
func TestAPreviousLeaseIsKeptUntilItsResultsAreStored(t *testing.T) {
	bubble(t, func(f *fixture) {
		l, _, tasks := f.tookUp(2)
		f.store.failApply(1, false)
		previous := givenUp(l, result(tasks[0], "success"))
		_, err := f.lease(previous)
		wantReason(t, err, kinesinv1.Reason_REASON_UNAVAILABLE)
		if old, err := f.book.Look(f.ctx, l.GetWorker()); err != nil || old.Lost {
			t.Errorf("the lease is %+v, %v", old, err)
		}
		if _, err := f.lease(previous); err != nil {
			t.Fatal(err)
		}
		f.wantState(id(tasks[0]), task.Success)
		f.wantState(id(tasks[1]), task.Enqueued)
	})
}

// A server that did not have the stream does not know what was assigned. It stores the results, and the rest
// is judged by the lease, which has ended.
func TestAPreviousLeaseOfAnotherServer(t *testing.T) {
	bubble(t, func(f *fixture) {
		l, _, tasks := f.tookUp(2)
		other := New(f.svc.Config)
		next, err := other.Register(f.ctx, &kinesinv1.RegisterRequest{Previous: givenUp(l, result(tasks[0], "success"))})
		if err != nil || next.GetAcks()[0].GetProblem() != nil {
			t.Fatalf("%v, %v", next, err)
		}
		f.wantState(id(tasks[0]), task.Success)
		f.wantState(id(tasks[1]), task.Claimed)
		old, err := f.book.Look(f.ctx, l.GetWorker())
		if err != nil || !old.Over(f.clock.Now(), 0) {
			t.Errorf("the lease is %+v, %v", old, err)
		}
		time.Sleep(time.Second)
	})
}

func TestAPreviousLeaseIsChecked(t *testing.T) {
	bubble(t, func(f *fixture) {
		_, err := f.lease(&kinesinv1.PreviousLease{})
		wantReason(t, err, kinesinv1.Reason_REASON_INVALID)
		_, err = f.lease(&kinesinv1.PreviousLease{Worker: "w", Results: make([]*kinesinv1.Result, ResultsMax+1)})
		wantReason(t, err, kinesinv1.Reason_REASON_INVALID)
	})
}
