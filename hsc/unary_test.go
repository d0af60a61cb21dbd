package hsc

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/task"
)

func (f *fixture) claim(worker string, limit uint32, wait time.Duration) ([]*kinesinv1.Claimed, error) {
	r, err := f.svc.Claim(f.ctx, &kinesinv1.ClaimRequest{
		Worker: worker, Lambdas: []string{"mail"}, Limit: limit, Wait: wait.Microseconds(),
	})
	return r.GetTasks(), err
}

func TestRegisterAnswersWithTheLease(t *testing.T) {
	bubble(t, func(f *fixture) {
		r, err := f.svc.Register(f.ctx, &kinesinv1.RegisterRequest{Name: "host", Lease: 4_000_000})
		if err != nil || r.GetLease() != 4_000_000 || r.GetHeartbeat() != 1_000_000 {
			t.Errorf("%v, %v", r, err)
		}
		_, err = f.svc.Register(f.ctx, &kinesinv1.RegisterRequest{Lease: 1})
		wantReason(t, err, kinesinv1.Reason_REASON_INVALID)
		_, err = f.svc.Register(f.ctx, &kinesinv1.RegisterRequest{Groups: []*kinesinv1.SlotGroup{slots(1, "nobody")}})
		wantReason(t, err, kinesinv1.Reason_REASON_UNKNOWN_LAMBDA)
	})
}

func TestClaimIsALongPoll(t *testing.T) {
	bubble(t, func(f *fixture) {
		worker := f.register()
		began := f.clock.Now()
		if got, err := f.claim(worker, 5, 3*time.Second); len(got) != 0 || err != nil {
			t.Errorf("%v, %v", got, err)
		}
		if waited := f.clock.Now().Sub(began); waited != 3*time.Second {
			t.Errorf("waited %v", waited)
		}
		go func() {
			time.Sleep(time.Second)
			f.enqueueMany("mail", 7)
		}()
		got, err := f.claim(worker, 5, time.Minute)
		if len(got) == 0 || len(got) > 5 || err != nil {
			t.Fatalf("%v, %v", got, err)
		}
		r, err := f.svc.SetResults(f.ctx, &kinesinv1.SetResultsRequest{Worker: worker, Results: []*kinesinv1.Result{result(got[0], "success")}})
		if err != nil || len(r.GetAcks()) != 1 || r.GetAcks()[0].GetProblem() != nil {
			t.Errorf("%v, %v", r, err)
		}
		f.wantState(id(got[0]), task.Success)
	})
}

func TestClaimAnswersAtOnceWithoutAWait(t *testing.T) {
	bubble(t, func(f *fixture) {
		worker := f.register()
		began := f.clock.Now()
		if got, err := f.claim(worker, 1, 0); len(got) != 0 || err != nil {
			t.Errorf("%v, %v", got, err)
		}
		if waited := f.clock.Now().Sub(began); waited > claimWaitMin {
			t.Errorf("waited %v", waited)
		}
		f.enqueueMany("mail", 1)
		if got, err := f.claim(worker, 1, 0); len(got) != 1 || err != nil {
			t.Errorf("%v, %v", got, err)
		}
	})
}

func TestClaimIsChecked(t *testing.T) {
	bubble(t, func(f *fixture) {
		worker := f.register()
		for name, c := range map[string]struct {
			request *kinesinv1.ClaimRequest
			want    kinesinv1.Reason
		}{
			"limit":          {&kinesinv1.ClaimRequest{Worker: worker, Lambdas: []string{"mail"}, Limit: ClaimMax + 1}, kinesinv1.Reason_REASON_INVALID},
			"wait":           {&kinesinv1.ClaimRequest{Worker: worker, Lambdas: []string{"mail"}, Wait: 60_000_001}, kinesinv1.Reason_REASON_INVALID},
			"no lambdas":     {&kinesinv1.ClaimRequest{Worker: worker}, kinesinv1.Reason_REASON_INVALID},
			"unknown lambda": {&kinesinv1.ClaimRequest{Worker: worker, Lambdas: []string{"nobody"}}, kinesinv1.Reason_REASON_UNKNOWN_LAMBDA},
			"unknown worker": {&kinesinv1.ClaimRequest{Worker: "w-1", Lambdas: []string{"mail"}}, kinesinv1.Reason_REASON_LEASE_LOST},
		} {
			_, err := f.svc.Claim(f.ctx, c.request)
			t.Log(name, err)
			wantReason(t, err, c.want)
		}
		f.enqueueMany("mail", 1)
		some, err := f.svc.Claim(f.ctx, &kinesinv1.ClaimRequest{Worker: worker, Lambdas: []string{"nobody", "mail"}})
		if err != nil || len(some.GetTasks()) != 1 {
			t.Errorf("one of two lambdas exists: %v, %v", some, err)
		}
		time.Sleep(lease.LengthDefault)
		_, err = f.claim(worker, 1, 0)
		wantReason(t, err, kinesinv1.Reason_REASON_INVALID)
		f.heartbeat(worker)
		if _, err := f.claim(worker, 1, 0); err != nil {
			t.Error(err)
		}
	})
}

func TestClaimForACallerThatHasGoneIsGivenBack(t *testing.T) {
	bubble(t, func(f *fixture) {
		sess, err := f.svc.session(f.ctx, f.register())
		if err != nil {
			t.Fatal(err)
		}
		one := f.enqueueMany("mail", 1)[0]
		won, err := f.svc.poll(f.ctx, sess, []string{"mail"}, 1, 0)
		if len(won) != 1 || err != nil {
			t.Fatal(won, err)
		}
		ctx, cancel := context.WithCancel(f.ctx)
		cancel()
		if _, err := f.svc.respond(ctx, sess, won); err == nil {
			t.Error("no error")
		}
		f.wantState(one.ID, task.Enqueued)
		f.wantQueued(one, 1, 0)
	})
}

// claimMeanwhile claims for lambdas while the test goes on; its error, if any, comes on the channel.
func (f *fixture) claimMeanwhile(worker string, lambdas ...string) <-chan error {
	over := make(chan error, 1)
	go func() {
		r, err := f.svc.Claim(f.ctx, &kinesinv1.ClaimRequest{Worker: worker, Lambdas: lambdas, Wait: time.Minute.Microseconds()})
		if len(r.GetTasks()) > 0 {
			f.Errorf("a claim that should get nothing for %v got %v", lambdas, r.GetTasks())
		}
		over <- err
	}()
	synctest.Wait()
	return over
}

// Nobody reads the answer of the claim that is repeated.
func TestAClaimAgainEndsTheOneThatItRepeats(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.lambda("other")
		worker := f.register()
		repeated, other := f.claimMeanwhile(worker, "mail"), f.claimMeanwhile(worker, "other")
		go func() {
			time.Sleep(time.Millisecond)
			f.enqueueMany("mail", 1)
		}()
		if got := f.claimAgain(worker, "mail"); len(got) != 1 || got[0].GetAttempt() != 1 {
			t.Errorf("got %v", got)
		}
		wantReason(t, <-repeated, kinesinv1.Reason_REASON_INVALID)
		synctest.Wait()
		select {
		case err := <-other:
			t.Errorf("the claim of another pool ended: %v", err)
		default:
		}
	})
}

func TestAClaimEndsWithItsLease(t *testing.T) {
	for name, end := range map[string]func(*fixture, string){
		"given up": func(f *fixture, worker string) {
			if _, err := f.svc.Leave(f.ctx, &kinesinv1.LeaveRequest{Worker: worker}); err != nil {
				f.Fatal(err)
			}
		},
		"run out": func(*fixture, string) { time.Sleep(lease.LengthDefault) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				worker := f.register()
				over := f.claimMeanwhile(worker, "mail")
				end(f, worker)
				one := f.enqueueMany("mail", 1)[0]
				if err := <-over; err == nil {
					t.Error("no error")
				}
				f.wantState(one.ID, task.Enqueued)
				f.wantQueued(one, 1, 0)
			})
		})
	}
}

func TestUnaryBlamedOneAtATime(t *testing.T) {
	bubble(t, func(f *fixture) {
		worker := f.register()
		f.enqueue(f.task("mail", suspect(1)), f.task("mail", suspect(1)))
		got, err := f.claim(worker, 10, 0)
		if len(got) != 1 || err != nil {
			t.Fatal(got, err)
		}
		if more, err := f.claim(worker, 10, time.Second); len(more) != 0 || err != nil {
			t.Error(more, err)
		}
		// Another HSC knows only the lease.
		f.svc.forgetAll()
		if more, err := f.claim(worker, 10, time.Second); len(more) != 0 || err != nil {
			t.Error(more, err)
		}
		if _, err := f.svc.SetResults(f.ctx, &kinesinv1.SetResultsRequest{Worker: worker, Results: []*kinesinv1.Result{result(got[0], "success")}}); err != nil {
			t.Fatal(err)
		}
		if more, err := f.claim(worker, 10, 3*time.Second); len(more) != 1 || err != nil { // others have had their turn by then
			t.Error(more, err)
		}
	})
}

func TestAHeartbeatDuringTheClaimOfABlamedOne(t *testing.T) {
	bubble(t, func(f *fixture) {
		worker := f.register()
		f.enqueue(f.task("mail", suspect(1)), f.task("mail", suspect(1)))
		f.store.meanwhile = func() { f.heartbeat(worker) }
		got, err := f.claim(worker, 10, 0)
		if len(got) != 1 || err != nil {
			t.Fatal(got, err)
		}
		if more, err := f.claim(worker, 10, time.Second); len(more) != 0 || err != nil {
			t.Errorf("two at a time: %v, %v", more, err)
		}
		if l, err := f.book.Look(f.ctx, worker); err != nil || l.Suspect != id(got[0]) {
			t.Errorf("the lease names %v, %v", l.Suspect, err)
		}
	})
}

func TestAHeartbeatFindsABlamedOneThatIsOver(t *testing.T) {
	bubble(t, func(f *fixture) {
		worker := f.register()
		f.enqueue(f.task("mail", suspect(1)), f.task("mail", suspect(1)))
		got, err := f.claim(worker, 10, 0)
		if len(got) != 1 || err != nil {
			t.Fatal(got, err)
		}
		f.change(id(got[0]), task.Event{Kind: task.Finish, Worker: worker, Attempt: 1, Outcome: task.OutcomeSuccess})
		f.heartbeat(worker)
		if more, err := f.claim(worker, 10, time.Second); len(more) != 1 || err != nil {
			t.Error(more, err)
		}
	})
}

func TestResultsNeedNoLease(t *testing.T) {
	bubble(t, func(f *fixture) {
		worker := f.register()
		f.enqueueMany("mail", 1)
		got, err := f.claim(worker, 1, 0)
		if len(got) != 1 || err != nil {
			t.Fatal(got, err)
		}
		l, err := f.book.Look(f.ctx, worker)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.book.MarkLost(f.ctx, l); err != nil {
			t.Fatal(err)
		}
		f.svc.removeSession(worker, leaseLost(worker))
		r, err := f.svc.SetResults(f.ctx, &kinesinv1.SetResultsRequest{Worker: worker, Results: []*kinesinv1.Result{result(got[0], "success")}})
		if err != nil || r.GetAcks()[0].GetProblem() != nil {
			t.Errorf("%v, %v", r, err)
		}
		f.wantState(id(got[0]), task.Success)
	})
}

func TestAHeartbeatConfirmsCancelsAndFences(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.enqueueMany("mail", 3)
		w := f.work(slots(3, "mail"))
		got := w.wantClaimed(3)
		f.change(id(got[1]), task.Event{Kind: task.Cancel})
		f.change(id(got[2]), task.Event{Kind: task.WorkerLost, Worker: w.id, Attempt: 1})
		time.Sleep(confirmAfter)
		r := f.heartbeat(w.id, held(got[0]), held(got[1]), held(got[2]))
		if len(r.GetCancels()) != 1 || string(r.GetCancels()[0].GetTask()) != string(got[1].GetTask()) {
			t.Errorf("cancels %v", r.GetCancels())
		}
		if len(r.GetFenced()) != 1 || string(r.GetFenced()[0].GetTask()) != string(got[2].GetTask()) {
			t.Errorf("fenced %v", r.GetFenced())
		}
		f.wantState(id(got[0]), task.Processing)
		f.enqueueMany("mail", 2)
		w.wantClaimed(4) // the slot of the fenced one is free
		w.report("success", got[0])
		f.wantState(id(got[0]), task.Success)
	})
}

func TestAHeartbeatFreesTheSlotsOfWhatNeverArrived(t *testing.T) {
	bubble(t, func(f *fixture) {
		w, c := f.one()
		time.Sleep(10 * time.Second)
		f.heartbeat(w.id) // it does not name the task
		f.change(id(c), task.Event{Kind: task.Unconfirmed, Worker: w.id, Attempt: 1})
		f.enqueueMany("mail", 1)
		w.wantClaimed(1)
		f.heartbeat(w.id)
		w.wantClaimed(2)
	})
}

func TestLeaveOfAWorkerWithoutAttemptsEndsItsLease(t *testing.T) {
	bubble(t, func(f *fixture) {
		w, c := f.one()
		w.report("success", c)
		w.wantAck(c, kinesinv1.Reason_REASON_UNSPECIFIED)
		if _, err := f.svc.Leave(f.ctx, &kinesinv1.LeaveRequest{Worker: w.id}); err != nil {
			t.Fatal(err)
		}
		<-w.over
		if w.err != nil {
			t.Error(w.err)
		}
		_, err := f.svc.Heartbeat(f.ctx, &kinesinv1.HeartbeatRequest{Worker: w.id})
		wantReason(t, err, kinesinv1.Reason_REASON_LEASE_LOST)
	})
}

// Abandoned handlers may still run in a process that leaves.
func TestLeaveWithAttemptsInHandLeavesThemToTheLease(t *testing.T) {
	bubble(t, func(f *fixture) {
		w, c := f.one()
		if _, err := f.svc.Leave(f.ctx, &kinesinv1.LeaveRequest{Worker: w.id}); err != nil {
			t.Fatal(err)
		}
		<-w.over
		row := f.wantState(id(c), task.Claimed)
		f.wantQueued(row, 0, 0)
		l, err := f.book.Look(f.ctx, w.id)
		if err != nil || l.Lost || l.Over(f.clock.Now(), 0) {
			t.Errorf("the lease is %+v, %v", l, err)
		}
	})
}

// Tasks that were claimed for a worker that leaves, and not sent, never reached it.
func TestLeaveGivesBackWhatWasNotSent(t *testing.T) {
	bubble(t, func(f *fixture) {
		w := f.work(slots(1, "mail"))
		w.all()
		w.mu.Lock()
		w.deaf = make(chan struct{})
		w.mu.Unlock()
		f.enqueueMany("mail", 1)
		blocked := w.claimed() // the first is on its way for ever
		f.svc.mu.Lock()
		sess := f.svc.sessions[w.id]
		f.svc.mu.Unlock()
		sess.mu.Lock()
		for _, h := range sess.assigned {
			h.free() // as if its result were here: room for one that cannot be sent
		}
		sess.mu.Unlock()
		second := f.enqueueMany("mail", 1)[0]
		synctest.Wait()
		f.wantState(second.ID, task.Claimed)
		if _, err := f.svc.Leave(f.ctx, &kinesinv1.LeaveRequest{Worker: w.id}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		f.wantState(second.ID, task.Enqueued)
		close(w.deaf)
		<-w.over
		if len(blocked) != 0 {
			t.Errorf("got %v", blocked)
		}
	})
}

func TestSessionsOfWorkersThatAreGoneAreForgotten(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.register()
		w := f.work(slots(1, "mail"))
		time.Sleep(3 * lease.LengthDefault)
		synctest.Wait()
		if all := f.svc.all(); len(all) != 1 || all[0].worker != w.id {
			t.Errorf("%d sessions", len(all))
		}
	})
}
