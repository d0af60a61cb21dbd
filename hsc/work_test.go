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
