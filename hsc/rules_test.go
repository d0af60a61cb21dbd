package hsc

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// TestSameClaim changes each thing that a claim wrote: then the row belongs to another claim.
func TestSameClaim(t *testing.T) {
	ours := task.Task{ID: task.ID{1}, State: task.Claimed, Seq: 4, Attempt: 2, Worker: "w", ClaimedAt: 1000}
	if row := ours; !sameClaim(&row, &ours) {
		t.Error("our own claim is not known")
	}
	for name, change := range map[string]func(*task.Task){
		"worker":                   func(t *task.Task) { t.Worker = "other" },
		"seq":                      func(t *task.Task) { t.Seq++ },
		"attempt":                  func(t *task.Task) { t.Attempt++ },
		"time, by another stream":  func(t *task.Task) { t.ClaimedAt++ },
		"state, so it was changed": func(t *task.Task) { t.State = task.Enqueued },
	} {
		row := ours
		if change(&row); sameClaim(&row, &ours) {
			t.Errorf("%s: the row of somebody else is taken for ours", name)
		}
	}
}

func TestRecordedIsOfTheWorkerAndItsOutcome(t *testing.T) {
	row := task.Task{History: []task.Attempt{{Number: 1, Worker: "a", Outcome: task.OutcomeSuccess}}}
	for _, c := range []struct {
		worker  string
		number  uint32
		outcome task.Outcome
		want    bool
	}{
		{"a", 1, task.OutcomeSuccess, true},
		{"b", 1, task.OutcomeSuccess, false},
		{"a", 1, task.OutcomeRetriable, false},
		{"a", 2, task.OutcomeSuccess, false},
	} {
		if got := isRecorded(&row, c.worker, c.number, c.outcome); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}

func TestWhatAWorkersClockSaysIsBounded(t *testing.T) {
	claimed := task.Task{ClaimedAt: 100}
	for started, want := range map[task.Instant]task.Instant{0: 0, 50: 100, 150: 150, 999: 200} {
		if got := boundStart(started, &claimed, 200); got != want {
			t.Errorf("started at %d: %d, want %d", started, got, want)
		}
	}
	one := task.ID{1}
	for _, c := range []struct {
		micros int64
		want   time.Duration
	}{{-5, 0}, {7, 7 * time.Microsecond}, {1 << 62, snoozeMax}} {
		r, problem := finishOf(&kinesinv1.Result{Task: one[:], Attempt: 1, Outcome: "snoozed", Delay: c.micros})
		if problem != nil || r.event.Delay != c.want {
			t.Errorf("delay of %d µs: %v, want %v (%v)", c.micros, r.event.Delay, c.want, problem)
		}
	}
}

func TestAnOlderSightOfALeaseChangesNothing(t *testing.T) {
	sess := newSession(&lease.Lease{Worker: "w", Length: time.Second})
	newer, older := lease.Lease{Heard: 5_000_000, Length: time.Second}, lease.Lease{Heard: 1_000_000, Length: time.Second}
	sess.noteLease(&newer)
	sess.noteLease(&older)
	if sess.end() != newer.HoldsUntil() {
		t.Errorf("ends at %d, want %d", sess.end(), newer.HoldsUntil())
	}
}

func TestWhatIsOnItsWayNeedNotBeNamed(t *testing.T) {
	sess := newSession(&lease.Lease{Worker: "w", Length: time.Second})
	now := task.FromMillis(1_000_000)
	before := now.Add(-task.ClaimTimeout)
	young := task.Task{ID: task.ID{1}, Attempt: 1, ClaimedAt: before + 1}
	old := task.Task{ID: task.ID{2}, Attempt: 1, ClaimedAt: before}
	ahead := task.Task{ID: task.ID{3}, Attempt: 1, ClaimedAt: before, Due: before + 1}
	for _, row := range []*task.Task{&young, &old, &ahead} {
		sess.assigned[row.ID] = &assignment{row: row}
	}
	if got := sess.missing(nil, now); len(got) != 1 || got[0].id != old.ID {
		t.Errorf("missing are %v, want the one that was claimed and due long ago", got)
	}
	if got := sess.missing([]attempt{{old.ID, 1}}, now); len(got) != 0 {
		t.Errorf("missing are %v, though it is named", got)
	}
}

// TestAProcessReservesOneBlamedTask has two streams of a process receive a blamed task each. They stop
// polling once one is reserved, but a message may be on its way.
func TestAProcessReservesOneBlamedTask(t *testing.T) {
	sess := newSession(&lease.Lease{Worker: "w", Length: time.Second})
	first, second, now := task.ID{1}, task.ID{2}, task.FromMillis(1_000_000)
	if !sess.reserveSuspect(first, now) || sess.reserveSuspect(second, now) || !sess.isReserved(first) {
		t.Errorf("reserved is %v, want the first alone", sess.suspect)
	}
}

// TestAMessageIsJudgedByTheRowAsItIsNow changes rows between a message and its claim.
func TestAMessageIsJudgedByTheRowAsItIsNow(t *testing.T) {
	bubble(t, func(f *fixture) {
		now := f.clock.Now()
		sent := task.Task{ID: task.ID{1}, State: task.Enqueued, Seq: 2, Due: now}
		c := claimer{svc: f.svc}
		for name, want := range map[string]struct {
			change func(*task.Task)
			state  claimState
		}{
			"only its wake-up was moved": {func(t *task.Task) { t.Seq++ }, claimOpen},
			"it was blamed":              {func(t *task.Task) { t.Seq, t.Suspect, t.Blamed = 3, true, 1 }, claimRefused},
			"it is due later":            {func(t *task.Task) { t.Seq, t.Due = 3, now.Add(time.Hour) }, claimRefused},
			"it has ended":               {func(t *task.Task) { t.Seq, t.State = 3, task.Success }, claimRefused},
			"it has another payload":     {func(t *task.Task) { t.Seq, t.PayloadRev = 3, 1 }, claimRefused},
			"it waits for a retry":       {func(t *task.Task) { t.Seq, t.State = 3, task.RetriableFailure }, claimRefused},
		} {
			row := sent
			want.change(&row)
			cl := claim{row: &sent, message: &queue.Message{Task: sent}}
			if c.reconsider(&cl, &row); cl.state != want.state {
				t.Errorf("%s: state %d, want %d", name, cl.state, want.state)
			}
		}
	})
}

func TestABlamedTaskIsClaimedOnlyOnceTheLeaseNamesIt(t *testing.T) {
	bubble(t, func(f *fixture) {
		w := f.work(slots(2, "mail"))
		f.leases.away.Store(true)
		blamed := f.task("mail", suspect(1))
		f.enqueue(blamed)
		time.Sleep(time.Second)
		w.wantClaimed(0)
		f.wantState(blamed.ID, task.Enqueued)
		f.leases.away.Store(false)
		time.Sleep(time.Second)
		w.wantClaimed(1)
	})
}

func TestAHeartbeatThatNamesAnOldAttemptIsToldSo(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.enqueueMany("mail", 1)
		w := f.work(slots(1, "mail"))
		old := w.wantClaimed(1)[0]
		if err := w.close(); err != nil {
			t.Fatal(err)
		}
		f.change(id(old), task.Event{Kind: task.Unconfirmed, Worker: w.id, Attempt: 1})
		row := f.row(id(old))
		newer := f.change(id(old), task.Event{Kind: task.Claim, Seq: row.Seq, Worker: w.id, Lease: time.Minute})
		f.svc.forgetAll()
		if r := f.heartbeat(w.id, held(old)); len(r.GetFenced()) != 1 {
			t.Errorf("attempt 1 is not fenced, though the row has attempt %d", newer.Attempt)
		}
		again := f.dial(w.id, &kinesinv1.Hello{Groups: []*kinesinv1.SlotGroup{slots(1, "mail")}, Held: []*kinesinv1.Held{held(old)}})
		if c := again.cancels(); len(c) != 1 || c[0].GetAttempt() != 1 {
			t.Errorf("told to stop %v, want attempt 1", c)
		}
	})
}

func TestACancelThatGotLostWithTheStreamIsToldByTheNextHeartbeat(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.enqueueMany("mail", 1)
		w := f.work(slots(1, "mail"))
		got := w.wantClaimed(1)[0]
		time.Sleep(confirmAfter)
		f.heartbeat(w.id, held(got))
		f.heartbeat(w.id, held(got)) // it is known to run
		f.svc.CancelRequested(f.change(id(got), task.Event{Kind: task.Cancel}))
		if r := f.heartbeat(w.id, held(got)); len(r.GetCancels()) != 1 {
			t.Errorf("the heartbeat says %v, want that the task was cancelled", r)
		}
	})
}

func TestAMatchThatLostIsNotPushed(t *testing.T) {
	bubble(t, func(f *fixture) {
		w := f.idle(slots(1, "mail"))
		slot, next := f.match(f.waiting("mail"))
		slot.Settle(&next, &store.ConflictError{})
		w.wantClaimed(0)
		time.Sleep(time.Second)
		f.wantMatch(f.waiting("mail")) // the slot is free
	})
}

func TestNobodyIsMatchedWhoMayNotStart(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.lambda("push")
		w := f.idle(slots(3, "mail", "push"))
		entry, err := f.catalog.Lambda("push")
		if err != nil {
			t.Fatal(err)
		}
		going := f.waiting("push")
		if _, err := f.catalog.Mark(f.ctx, entry, true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(idleAfter)
		f.wantNoMatch(going)
		st, sess := f.svc.sessions[w.id].current(), f.svc.sessions[w.id]
		sess.mu.Lock()
		st.draining = true
		sess.mu.Unlock()
		f.wantNoMatch(f.waiting("mail"))
		sess.mu.Lock()
		st.draining = false
		sess.mu.Unlock()
		f.wantMatch(f.waiting("mail"))
		time.Sleep(16 * time.Second)
		f.wantNoMatch(f.waiting("mail")) // its lease has run out
	})
}

func TestAWorkerThatWasLostMeanwhileGetsNoStream(t *testing.T) {
	bubble(t, func(f *fixture) {
		w := f.work(slots(1, "mail"))
		sess := f.svc.sessions[w.id]
		st := sess.current()
		f.svc.removeSession(w.id, leaseLost(w.id))
		if err := f.svc.admitStream(st); !errors.Is(err, api.ErrLeaseLost) {
			t.Errorf("%v, want that the lease is lost", err)
		}
	})
}

func TestWhatAWorkerNamesIsBounded(t *testing.T) {
	bubble(t, func(f *fixture) {
		w := f.dial(f.register(), &kinesinv1.Hello{Groups: []*kinesinv1.SlotGroup{slots(1, "mail")}, Held: make([]*kinesinv1.Held, HeldMax+1)})
		<-w.over
		if w.err == nil || !strings.Contains(w.err.Error(), "want at most") {
			t.Errorf("%v", w.err)
		}
	})
}

// A report whose write had an unknown outcome meets a row that has moved on: no message of that row is sent.
func TestAReportThatIsOldNewsSendsNothing(t *testing.T) {
	row := task.Task{
		ID: task.ID{1}, State: task.Success, Attempt: 2,
		History: []task.Attempt{{Number: 1, Worker: "w", Outcome: task.OutcomeReleased}},
	}
	r := report{attempt: attempt{row.ID, 1}, row: &row, event: task.Event{Kind: task.Finish, Outcome: task.OutcomeReleased}, effect: task.Send}
	if r.refuse("w", task.ErrEnded); r.effect != task.None || r.problem != nil {
		t.Errorf("effect %v, problem %v", r.effect, r.problem)
	}
}
