package hsc

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// damage makes task rows unreadable for good.
func (f *fixture) damage(ids ...task.ID) {
	f.store.damaged = map[task.ID]bool{}
	for _, id := range ids {
		f.store.damaged[id] = true
	}
}

// wantOneUnreadable checks that the read of one row was counted as a failure, once, and that nothing else
// failed.
func (f *fixture) wantOneUnreadable() {
	f.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed["read a task row"] != 1 || len(f.failed) != 1 {
		f.Errorf("failures %v, want one unreadable task row and nothing else", f.failed)
	}
}

// A heartbeat that names one attempt reads its row alone.
func TestAHeartbeatWithAnUnreadableRowRenewsTheLease(t *testing.T) {
	bubble(t, func(f *fixture) {
		w, c := f.one()
		before, err := f.book.Look(f.ctx, w.id)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(confirmAfter)
		f.damage(id(c))
		r := f.heartbeat(w.id, held(c))
		if len(r.GetFenced()) != 1 || string(r.GetFenced()[0].GetTask()) != string(c.GetTask()) {
			t.Errorf("fenced %v, want the attempt whose row cannot be read", r.GetFenced())
		}
		if l, err := f.book.Look(f.ctx, w.id); err != nil || l.Receipt == before.Receipt {
			t.Errorf("the lease was not renewed: %+v, %v", l, err)
		}
		f.wantOneUnreadable()
		f.enqueueMany("mail", 1)
		w.wantClaimed(2) // the slot is free
	})
}

// A start that cannot be written, because its row was damaged since it was read, is read again alone.
func TestAHeartbeatWithAnUnwritableRowRenewsTheLease(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.enqueueMany("mail", 2)
		w := f.work(slots(2, "mail"))
		got := w.wantClaimed(2)
		time.Sleep(confirmAfter)
		f.store.meanwhile = func() { f.damage(id(got[0])) }
		f.heartbeat(w.id, held(got[0]), held(got[1]))
		f.wantState(id(got[1]), task.Processing)
		f.wantOneUnreadable()
	})
}

func TestHelloWithAnUnreadableRowOpensTheStream(t *testing.T) {
	bubble(t, func(f *fixture) {
		w, c := f.one()
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		f.svc.forgetAll()
		f.damage(id(c))
		again := f.dial(w.id, &kinesinv1.Hello{Groups: []*kinesinv1.SlotGroup{slots(1, "mail")}, Held: []*kinesinv1.Held{held(c)}})
		if cancels := again.cancels(); len(cancels) != 1 {
			t.Errorf("told to stop %v, want the attempt whose row cannot be read", cancels)
		}
		f.wantOneUnreadable()
		f.enqueueMany("mail", 1)
		again.wantClaimed(1)
	})
}

// A worker would send a result that is answered as unavailable again and again.
func TestAResultForAnUnreadableRowIsFenced(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.enqueueMany("mail", 2)
		w := f.work(slots(2, "mail"))
		got := w.wantClaimed(2)
		f.damage(id(got[0]))
		w.report("success", got...)
		for _, ack := range w.acks() {
			want := kinesinv1.Reason_REASON_UNSPECIFIED
			if string(ack.GetTask()) == string(got[0].GetTask()) {
				want = kinesinv1.Reason_REASON_FENCED
			}
			if ack.GetProblem().GetReason() != want {
				t.Errorf("ack %v, want %v", ack, want)
			}
		}
		f.wantState(id(got[1]), task.Success)
		f.wantOneUnreadable()
	})
}

func TestARegistrationWithAnUnreadableRowGivesUpThePreviousLease(t *testing.T) {
	bubble(t, func(f *fixture) {
		l, _, tasks := f.tookUp(2)
		f.svc.forgetAll()
		f.damage(id(tasks[0]))
		next, err := f.lease(givenUp(l, result(tasks[0], "success")))
		if err != nil || len(next.GetAcks()) != 1 || next.GetAcks()[0].GetProblem().GetReason() != kinesinv1.Reason_REASON_FENCED {
			t.Fatalf("%v, %v; want a lease and the result refused", next, err)
		}
		f.wantOneUnreadable()
	})
}

// A claim or a match of unknown outcome is read back until the row is known; the worker's queue waits
// meanwhile.
func TestAnUnreadableRowIsReadBackOnce(t *testing.T) {
	bubble(t, func(f *fixture) {
		w := f.idle(slots(1, "mail"))
		slot, next := f.match(f.waiting("mail"))
		f.damage(next.ID)
		slot.Settle(&next, store.ErrUnknown)
		time.Sleep(time.Second)
		f.wantMatch(f.waiting("mail")) // its slot is free
		w.wantClaimed(1)
		f.wantOneUnreadable()
	})
	bubble(t, func(f *fixture) {
		w := f.work(slots(1, "mail"))
		f.store.failApply(1, true)
		row := f.task("mail")
		f.damage(row.ID)
		f.enqueue(row)
		time.Sleep(time.Second)
		f.enqueueMany("mail", 1)
		w.wantClaimed(1)
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.failed["read a task row"] != 1 || f.refused[RefusedStale] != 1 {
			t.Errorf("failures %v, refused %v; want the unreadable row refused after one read", f.failed, f.refused)
		}
	})
}
