package hsc

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/clock/clocktest"
	"github.com/kinesin-io/kinesin/task"
)

// claimedBefore stores a task that the worker claimed through an earlier process.
func (f *fixture) claimedBefore(worker string) task.Task {
	f.Helper()
	t := f.task("mail", func(t *task.Task) {
		t.State, t.Attempt, t.Worker, t.Seq = task.Claimed, 1, worker, 2
		t.ClaimedAt = f.clock.Now().Add(-time.Hour)
	})
	f.put(t)
	return t
}

func TestAFoundClaimThatItsWorkerDoesNotHoldGoesBack(t *testing.T) {
	for name, foundFirst := range map[string]bool{"found, then the worker comes": true, "the worker comes, then found": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				worker := f.register()
				lost := f.claimedBefore(worker)
				if foundFirst {
					f.svc.RecoverClaim(&lost)
					synctest.Wait()
					f.wantState(lost.ID, task.Claimed) // who knows: its worker may hold it
				}
				w := f.dial(worker, &kinesinv1.Hello{Groups: []*kinesinv1.SlotGroup{slots(1, "mail")}})
				if !foundFirst {
					f.svc.RecoverClaim(&lost)
				}
				if got := w.wantClaimed(1)[0]; id(got) != lost.ID || got.Attempt != 2 || got.Failures != 0 || got.WorkerLost != 0 {
					t.Errorf("got %v", got)
				}
			})
		})
	}
}

func TestAFoundClaimThatItsWorkerHoldsStays(t *testing.T) {
	bubble(t, func(f *fixture) {
		worker := f.register()
		kept := f.claimedBefore(worker)
		f.svc.RecoverClaim(&kept)
		f.dial(worker, &kinesinv1.Hello{
			Groups: []*kinesinv1.SlotGroup{slots(1, "mail")}, Held: []*kinesinv1.Held{{Task: kept.ID[:], Attempt: 1}},
		})
		f.svc.RecoverClaim(&kept)
		synctest.Wait()
		if row := f.wantState(kept.ID, task.Claimed); row.Attempt != 1 {
			t.Errorf("attempt %d", row.Attempt)
		}
	})
}

// A wall clock that is set back makes the claims of this process look older than it is.
func TestNoClaimIsRecoveredAfterTheClockWasSet(t *testing.T) {
	for _, step := range []time.Duration{-time.Minute, time.Minute} {
		wall := &clocktest.Settable{Clock: clock.Real()}
		bubbleBy(t, wall, func(f *fixture) {
			wall.Step(step)
			claim := f.claimedBefore("w")
			f.svc.RecoverClaim(&claim)
			if n := len(f.svc.work.claims); n != 0 {
				t.Errorf("after a step of %v, %d claims are taken for those of an earlier process", step, n)
			}
		})
	}
}

func TestOwnClaimsAreNotFound(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.enqueueMany("mail", 1)
		w := f.work(slots(1, "mail"))
		own := f.row(id(w.wantClaimed(1)[0]))
		f.svc.RecoverClaim(&own)
		if n := len(f.svc.work.claims); n != 0 {
			t.Errorf("%d claims on their way count as lost", n)
		}
	})
}

// claimAgain claims after a claim that got no answer.
func (f *fixture) claimAgain(worker, lambda string, running ...*kinesinv1.Held) []*kinesinv1.Claimed {
	f.Helper()
	r, err := f.svc.Claim(f.ctx, &kinesinv1.ClaimRequest{
		Worker: worker, Lambdas: []string{lambda}, Limit: 10, Wait: time.Second.Microseconds(), Again: true, Running: running,
	})
	if err != nil {
		f.Fatal(err)
	}
	return r.GetTasks()
}

// Of the attempts that calls have handed out, those are claimed anew that the worker does not have: without the pause
// after which a claim counts as lost, and at nobody's charge.
func TestAClaimWhoseAnswerWasLostIsMadeAgain(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.lambda("other")
		worker := f.register()
		f.enqueueMany("mail", 3)
		f.enqueueMany("other", 1)
		mails, err := f.claim(worker, 3, 0)
		if err != nil || len(mails) != 3 {
			t.Fatal(mails, err)
		}
		others := f.claimAgain(worker, "other", held(mails[0]), held(mails[1]), held(mails[2])) // of another pool of the worker
		if len(others) != 1 || others[0].GetAttempt() != 1 {
			t.Fatalf("%v", others)
		}
		ended := []*kinesinv1.Result{result(mails[1], "success")}
		if _, err := f.svc.SetResults(f.ctx, &kinesinv1.SetResultsRequest{Worker: worker, Results: ended}); err != nil {
			t.Fatal(err)
		}
		began := f.clock.Now()
		got := f.claimAgain(worker, "mail", held(mails[0]))
		if len(got) != 1 || id(got[0]) != id(mails[2]) || got[0].GetAttempt() != 2 || got[0].GetFailures() != 0 || f.clock.Now() != began {
			t.Errorf("%v after %v", got, f.clock.Now().Sub(began))
		}
		for _, kept := range []*kinesinv1.Claimed{mails[0], others[0]} {
			if row := f.wantState(id(kept), task.Claimed); row.Attempt != 1 {
				t.Errorf("an attempt that the worker has, or that is of another lambda, was taken from it: %v", row)
			}
		}
	})
}

// So it is if the server that claimed them has ended, whichever comes first: the worker or what its partition has.
func TestAFoundClaimThatACallerDoesNotHoldGoesBack(t *testing.T) {
	for name, foundFirst := range map[string]bool{"found, then the worker claims": true, "the worker claims, then found": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				worker := f.register()
				lost, kept := f.claimedBefore(worker), f.claimedBefore(worker)
				recovered := func() {
					f.svc.RecoverClaim(&lost)
					f.svc.RecoverClaim(&kept)
					synctest.Wait()
				}
				if foundFirst {
					recovered()
				} else {
					go func() {
						time.Sleep(time.Millisecond)
						recovered()
					}()
				}
				got := f.claimAgain(worker, "mail", &kinesinv1.Held{Task: kept.ID[:], Attempt: 1})
				if len(got) != 1 || id(got[0]) != lost.ID || got[0].GetAttempt() != 2 || got[0].GetWorkerLost() != 0 {
					t.Errorf("got %v", got)
				}
				f.wantState(kept.ID, task.Claimed)
			})
		})
	}
}

// What it had claimed for another pool of the worker may be on its way, until that pool claims again, too.
func TestAFoundClaimOfAnotherPoolStays(t *testing.T) {
	for name, foundFirst := range map[string]bool{"found, then the worker claims": true, "the worker claims, then found": false} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				f.lambda("other")
				worker := f.register()
				found := f.claimedBefore(worker)
				if foundFirst {
					f.svc.RecoverClaim(&found)
				}
				f.claimAgain(worker, "other")
				if !foundFirst {
					f.svc.RecoverClaim(&found)
				}
				synctest.Wait()
				f.wantState(found.ID, task.Claimed)
				if got := f.claimAgain(worker, "mail"); len(got) != 1 || id(got[0]) != found.ID || got[0].GetAttempt() != 2 {
					t.Errorf("got %v", got)
				}
			})
		})
	}
}
