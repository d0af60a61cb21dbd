package hsc

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/catalog"
	"github.com/kinesin-io/kinesin/task"
)

func wantReason(t *testing.T, err error, want kinesinv1.Reason) {
	t.Helper()
	if got := api.ProblemOf(err).GetReason(); got != want {
		t.Errorf("%v: reason %v, want %v", err, got, want)
	}
}

func TestHelloIsChecked(t *testing.T) {
	bubble(t, func(f *fixture) {
		worker := f.register()
		if _, _, err := f.catalog.Create(f.ctx, task.Lambda{Name: "out", Mode: task.Deliver}); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			hello *kinesinv1.Hello
			want  kinesinv1.Reason
		}{
			"no slots":       {&kinesinv1.Hello{Worker: worker, Groups: []*kinesinv1.SlotGroup{slots(0, "mail")}}, kinesinv1.Reason_REASON_INVALID},
			"no lambda":      {&kinesinv1.Hello{Worker: worker, Groups: []*kinesinv1.SlotGroup{slots(1)}}, kinesinv1.Reason_REASON_INVALID},
			"too many":       {&kinesinv1.Hello{Worker: worker, Groups: []*kinesinv1.SlotGroup{slots(SlotsMax+1, "mail")}}, kinesinv1.Reason_REASON_INVALID},
			"unknown lambda": {&kinesinv1.Hello{Worker: worker, Groups: []*kinesinv1.SlotGroup{slots(1, "nobody")}}, kinesinv1.Reason_REASON_UNKNOWN_LAMBDA},
			"deliver lambda": {&kinesinv1.Hello{Worker: worker, Groups: []*kinesinv1.SlotGroup{slots(1, "mail", "out")}}, kinesinv1.Reason_REASON_INVALID},
			"bad lambda":     {&kinesinv1.Hello{Worker: worker, Groups: []*kinesinv1.SlotGroup{slots(1, "no such")}}, kinesinv1.Reason_REASON_INVALID},
			"no worker":      {&kinesinv1.Hello{}, kinesinv1.Reason_REASON_INVALID},
			"unknown worker": {&kinesinv1.Hello{Worker: "w-1"}, kinesinv1.Reason_REASON_LEASE_LOST},
		} {
			w := f.dial(c.hello.GetWorker(), c.hello)
			<-w.over
			t.Log(name, w.err)
			wantReason(t, w.err, c.want)
		}
		w := &remote{fixture: f, requests: make(chan *kinesinv1.WorkRequest, 1), over: make(chan struct{})}
		w.requests <- &kinesinv1.WorkRequest{}
		wantReason(t, f.svc.serveStream(f.ctx, w), kinesinv1.Reason_REASON_INVALID)
	})
}

func TestAStreamSaysAtOnceThatItIsOpen(t *testing.T) {
	bubble(t, func(f *fixture) {
		w := f.work(slots(1, "mail"))
		if got := w.all(); len(got) != 1 || got[0].GetNow() != int64(f.clock.Now()) {
			t.Errorf("got %v", got)
		}
	})
}

func TestWhatWaitsIsSentInFewMessages(t *testing.T) {
	bubble(t, func(f *fixture) {
		w := f.work(slots(2000, "mail"))
		w.mu.Lock()
		w.deaf = make(chan struct{})
		w.mu.Unlock()
		for range 40 {
			f.enqueueMany("mail", 30)
			synctest.Wait()
		}
		close(w.deaf)
		w.wantClaimed(1200)
		if n := len(w.all()); n > 2+3+1 {
			t.Errorf("%d messages", n)
		}
		for _, r := range w.all() {
			if len(r.GetTasks()) > tasksPerMessage {
				t.Errorf("%d tasks in one message", len(r.GetTasks()))
			}
		}
	})
}

func TestDrainStopsTheClaiming(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.enqueueMany("mail", 1)
		w := f.work(slots(5, "mail"))
		got := w.wantClaimed(1)
		w.send(&kinesinv1.WorkRequest{Drain: true})
		f.enqueueMany("mail", 3)
		w.wantClaimed(1)
		w.report("success", got...)
		w.wantAck(got[0], kinesinv1.Reason_REASON_UNSPECIFIED)
		if err := w.close(); err != nil {
			t.Error(err)
		}
		f.wantState(id(got[0]), task.Success)
	})
}

func TestResultsReadBeforeTheEndAreStoredAndAcknowledged(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.enqueueMany("mail", 5)
		w := f.work(slots(5, "mail"))
		got := w.wantClaimed(5)
		for _, c := range got {
			w.requests <- &kinesinv1.WorkRequest{Results: []*kinesinv1.Result{result(c, "success")}}
		}
		if err := w.close(); err != nil {
			t.Error(err)
		}
		if n := len(w.acks()); n != 5 {
			t.Errorf("%d acks", n)
		}
	})
}

func TestUnsentTasksGoBackAtOnce(t *testing.T) {
	bubble(t, func(f *fixture) {
		w := f.work(slots(5, "mail"))
		w.mu.Lock()
		w.deaf, w.broken = make(chan struct{}), errors.New("connection reset")
		w.mu.Unlock()
		f.enqueueMany("mail", 1) // the writer takes it and hangs
		synctest.Wait()
		later := f.enqueueMany("mail", 2)
		synctest.Wait()
		f.wantState(later[0].ID, task.Claimed)
		close(w.deaf)
		<-w.over
		for _, one := range later {
			row := f.wantState(one.ID, task.Enqueued)
			if row.Failures != 0 || row.Lost != 0 || row.History[0].Outcome != task.OutcomeReleased {
				t.Errorf("charged: %+v", row)
			}
		}
		f.wantQueued(later[0], 2, 0)
		f.work(slots(5, "mail")).wantClaimed(2)
	})
}

func TestAWorkerThatReconnectsKeepsWhatItHolds(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.enqueueMany("mail", 3)
		w := f.work(slots(3, "mail"))
		got := w.wantClaimed(3)
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		f.wantState(id(got[0]), task.Claimed)
		f.enqueueMany("mail", 5)
		// The third never arrived.
		again := f.dial(w.id, &kinesinv1.Hello{
			Groups: []*kinesinv1.SlotGroup{slots(3, "mail")}, Held: []*kinesinv1.Held{held(got[0]), held(got[1])},
		})
		more := again.wantClaimed(1) // two of three slots are taken
		if row := f.row(id(got[2])); row.State != task.Enqueued && row.Attempt != 2 {
			t.Errorf("what never arrived is %s", row.State)
		}
		again.report("success", got[0], got[1], more[0])
		again.wantClaimed(4)
		f.wantState(id(got[0]), task.Success)
	})
}

func TestAnotherHSCTakesTheWorkerOver(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.enqueueMany("mail", 2)
		w := f.work(slots(2, "mail"))
		got := w.wantClaimed(2)
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		f.svc.forgetAll()
		again := f.dial(w.id, &kinesinv1.Hello{
			Groups: []*kinesinv1.SlotGroup{slots(2, "mail")}, Held: []*kinesinv1.Held{held(got[0]), held(got[1])},
		})
		f.enqueueMany("mail", 2)
		again.wantClaimed(0)
		again.report("success", got...)
		again.wantClaimed(2)
		f.wantState(id(got[1]), task.Success)
	})
}

// forgetAll forgets what is only in memory, as a restart does.
func (s *Service) forgetAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sessions)
}

func TestHelloIsToldWhatIsNotOwnedAnyMore(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.enqueueMany("mail", 2)
		w := f.work(slots(2, "mail"))
		got := w.wantClaimed(2)
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		f.change(id(got[0]), task.Event{Kind: task.WorkerLost, Worker: w.id, Attempt: 1})
		f.change(id(got[1]), task.Event{Kind: task.Cancel})
		again := f.dial(w.id, &kinesinv1.Hello{
			Groups: []*kinesinv1.SlotGroup{slots(2, "mail")}, Held: []*kinesinv1.Held{held(got[0]), held(got[1])},
		})
		if n := len(again.cancels()); n != 2 {
			t.Errorf("%d told to stop", n)
		}
	})
}

func TestANewStreamReplacesTheOld(t *testing.T) {
	bubble(t, func(f *fixture) {
		old := f.work(slots(1, "mail"))
		again := f.dial(old.id, &kinesinv1.Hello{Groups: []*kinesinv1.SlotGroup{slots(1, "mail")}})
		<-old.over
		if !errors.Is(old.err, error(errSuperseded)) {
			t.Errorf("ended with %v", old.err)
		}
		f.enqueueMany("mail", 1)
		again.wantClaimed(1)
		if n := f.svc.Workers(); n != 1 {
			t.Errorf("%d workers", n)
		}
	})
}

func TestASuspectNobodyHoldsIsForgotten(t *testing.T) {
	bubble(t, func(f *fixture) {
		worker := f.register()
		if err := f.book.SetSuspect(f.ctx, worker, task.ID{1}); err != nil {
			t.Fatal(err)
		}
		f.svc.forgetAll()
		f.enqueue(f.task("mail", suspect(1)))
		f.dial(worker, &kinesinv1.Hello{Groups: []*kinesinv1.SlotGroup{slots(1, "mail")}}).wantClaimed(1)
	})
}

func TestACancelIsPushed(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.enqueueMany("mail", 1)
		w := f.work(slots(1, "mail"))
		got := w.wantClaimed(1)[0]
		f.svc.CancelRequested(f.change(id(got), task.Event{Kind: task.Cancel}))
		if c := w.cancels(); len(c) != 1 || string(c[0].GetTask()) != string(got.GetTask()) || c[0].GetAttempt() != 1 {
			t.Errorf("cancels %v", c)
		}
		w.report("cancelled", got)
		w.wantAck(got, kinesinv1.Reason_REASON_UNSPECIFIED)
		f.wantState(id(got), task.Cancelled)
	})
}

func TestStoppingEndsStreamsAndRefusesCalls(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.enqueueMany("mail", 1)
		w := f.work(slots(3, "mail"))
		got := w.wantClaimed(1)
		f.stop()
		<-w.over
		wantReason(t, w.err, kinesinv1.Reason_REASON_UNAVAILABLE)
		f.wantState(id(got[0]), task.Claimed)
		_, err := f.svc.Heartbeat(f.ctx, &kinesinv1.HeartbeatRequest{Worker: w.id})
		wantReason(t, err, kinesinv1.Reason_REASON_UNAVAILABLE)
	})
}

func TestALambdaThatComesAgainIsPolledAnew(t *testing.T) {
	bubble(t, func(f *fixture) {
		w := f.work(slots(1, "mail"))
		l, err := f.catalog.Lambda("mail")
		if err != nil {
			t.Fatal(err)
		}
		if err := f.catalog.Remove(f.ctx, l); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		f.lambda("mail")
		synctest.Wait()
		f.enqueueMany("mail", 1)
		w.wantClaimed(1)
	})
}

// A worker of several lambdas does not wait for one that does not exist, and gets its tasks when it does.
func TestAMissingLambdaIsTakenOnWhenItAppears(t *testing.T) {
	bubble(t, func(f *fixture) {
		groups := []*kinesinv1.SlotGroup{slots(2, "mail", "push"), slots(1, "sms")}
		r, err := f.svc.Register(f.ctx, &kinesinv1.RegisterRequest{Groups: groups})
		if err != nil || !slices.Equal(r.GetMissing(), []string{"push", "sms"}) {
			t.Fatalf("%v, %v", r, err)
		}
		w := f.dial(r.GetWorker(), &kinesinv1.Hello{Groups: groups})
		f.enqueueMany("mail", 1)
		w.wantClaimed(1)
		for n, name := range []string{"push", "sms"} {
			f.lambda(name)
			synctest.Wait()
			f.enqueueMany(name, 1)
			if got := w.wantClaimed(n + 2)[n+1]; got.GetLambda() != name {
				t.Errorf("got a task of %s, want one of %s", got.GetLambda(), name)
			}
		}
		_, err = f.svc.Register(f.ctx, &kinesinv1.RegisterRequest{Groups: []*kinesinv1.SlotGroup{slots(1, "one", "two")}})
		wantReason(t, err, kinesinv1.Reason_REASON_UNKNOWN_LAMBDA)
		if !strings.Contains(err.Error(), `"one", "two"`) {
			t.Error(err)
		}
	})
}

func TestALambdaBeingDeletedIsNotServed(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.lambda("push")
		w := f.work(slots(2, "mail", "push"))
		if _, err := f.catalog.Update(f.ctx, "mail", func(l *task.Lambda) error { l.Deleting = true; return nil }); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		f.enqueueMany("mail", 1)
		f.enqueueMany("push", 1)
		if got := w.wantClaimed(1)[0]; got.GetLambda() != "push" {
			t.Errorf("got %s", got.GetLambda())
		}
	})
}

func TestHooksTellLateness(t *testing.T) {
	bubble(t, func(f *fixture) {
		var waited []time.Duration
		f.svc.Hooks.Claimed = func(_ *catalog.Entry, t *task.Task) { waited = append(waited, t.ClaimedAt.Sub(t.Due)) }
		one := f.enqueueMany("mail", 1)[0]
		time.Sleep(time.Second)
		w := f.work(slots(1, "mail"))
		got := w.wantClaimed(1)[0]
		time.Sleep(time.Second)
		r := result(got, "success")
		r.Started = int64(one.Due.Add(1500 * time.Millisecond))
		w.send(&kinesinv1.WorkRequest{Results: []*kinesinv1.Result{r}})
		synctest.Wait()
		if len(waited) != 1 || waited[0] != time.Second || len(f.started) != 1 || f.started[0] != 1500*time.Millisecond {
			t.Errorf("waited %v, started late %v", waited, f.started)
		}
	})
}

func TestADrainSendsTheAcksAtOnce(t *testing.T) {
	bubble(t, func(f *fixture) {
		w, c := f.one()
		w.report("success", c)
		synctest.Wait() // it is stored, and its ack waits for company
		began := time.Now()
		w.send(&kinesinv1.WorkRequest{Drain: true})
		synctest.Wait()
		sent := 0
		for _, r := range w.all() {
			sent += len(r.Acks)
		}
		if sent != 1 || !time.Now().Equal(began) {
			t.Errorf("%d acks after %v, want 1 at once", sent, time.Since(began))
		}
	})
}
