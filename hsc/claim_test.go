package hsc

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/queue"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

func TestAClaimedTaskTellsTheWorkerAllItNeeds(t *testing.T) {
	bubble(t, func(f *fixture) {
		want := f.task("mail", func(t *task.Task) {
			t.Collection, t.Key, t.Failures, t.Lost = "c", "k", 1, 2
			t.Overrides.Timeout = time.Minute
			t.Traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
			t.Tags = []task.Tag{{Name: "tenant", Value: "acme"}}
		})
		f.enqueue(want)
		got := f.work(slots(1, "mail")).wantClaimed(1)[0]
		if got.GetTraceparent() != want.Traceparent {
			t.Errorf("trace context %q", got.GetTraceparent())
		}
		if tags := got.GetTags(); len(tags) != 1 || tags["tenant"] != "acme" {
			t.Errorf("tags %v", tags)
		}
		if id(got) != want.ID || got.GetLambda() != "mail" || got.GetPriority() != "normal" || got.GetCollection() != "c" || got.GetKey() != "k" {
			t.Errorf("got %v", got)
		}
		if got.GetAttempt() != 1 || got.GetFailures() != 1 || got.GetWorkerLost() != 2 || got.GetMaxAttempts() != 3 {
			t.Errorf("got %v", got)
		}
		if got.GetTimeout() != time.Minute.Microseconds() || string(got.GetPayload()) != "hello" || got.GetDue() != int64(want.Due) {
			t.Errorf("got %v", got)
		}
		if token, err := f.svc.Sealer.Open(t.Context(), got.GetId()); err != nil || token.ID != want.ID {
			t.Errorf("public id %v, %v", token, err)
		}
		f.wantState(want.ID, task.Claimed)
		f.wantQueued(want, 0, 0)
	})
}

func TestNoMoreTasksThanSlots(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.enqueueMany("mail", 10)
		w := f.work(slots(3, "mail"))
		got := w.wantClaimed(3)
		w.report("success", got[0], got[1])
		w.report("success", got[1]) // said twice: one slot
		w.wantClaimed(5)
		f.wantState(id(got[0]), task.Success)
		f.wantState(id(got[2]), task.Claimed)
	})
}

func TestATaskIsClaimedAheadAndHeldUntilItIsDue(t *testing.T) {
	bubble(t, func(f *fixture) {
		w := f.work(slots(4, "mail"))
		f.enqueue(f.task("mail", func(t *task.Task) { t.Due += task.Instant(time.Second.Microseconds()) }))
		time.Sleep(900 * time.Millisecond)
		w.wantClaimed(0)
		time.Sleep(99 * time.Millisecond)
		got := w.wantClaimed(1)[0]
		sent := w.all()[1].GetNow()
		if due := sent + got.GetHold(); due != got.GetDue() || got.GetHold() == 0 {
			t.Errorf("held until %d, due %d", due, got.GetDue())
		}
	})
}

func TestPrioritiesAcrossLambdasAndTurns(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.lambda("push")
		var tasks []task.Task
		for _, lambda := range []string{"mail", "push"} {
			for p := range uint8(3) {
				tasks = append(tasks, f.task(lambda, func(t *task.Task) { t.Partition.Priority = 2 - p }))
			}
		}
		f.enqueue(tasks...)
		w := f.work(slots(1, "mail", "push"))
		for n := 1; n < len(tasks); n++ {
			got := w.wantClaimed(n)
			w.report("success", got[n-1])
		}
		var order []string
		for _, c := range w.wantClaimed(6) {
			order = append(order, c.GetPriority())
		}
		if want := []string{"high", "high", "normal", "normal", "low", "low"}; !slices.Equal(order, want) {
			t.Errorf("order %v", order)
		}
	})
}

func TestQueueNames(t *testing.T) {
	bubble(t, func(f *fixture) {
		a, b := f.lambda("a", "x"), f.lambda("b", "x", "y")
		lambdas := f.svc.entries(nil, []string{"a", "b"})
		name := func(ref uint32, p uint8, c queue.Class) queue.Name {
			return queue.Name{Lambda: ref, Priority: p, Class: c}
		}
		want := []queue.Name{name(b.Ref, 0, 0), name(a.Ref, 0, 0), name(b.Ref, 1, 0)}
		if got := queueNames(nil, lambdas, 1, accepted{anything: true}); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		got := queueNames(nil, lambdas, 0, accepted{anything: true, suspects: true, blamed: true})
		var classes []queue.Class
		for _, n := range got {
			classes = append(classes, n.Class)
		}
		if want := []queue.Class{2, 2, 2, 1, 1, 1, 0, 0, 0}; !slices.Equal(classes, want) {
			t.Errorf("classes %v", classes)
		}
	})
}

func TestStaleMessagesAreRefusedAndDeleted(t *testing.T) {
	bubble(t, func(f *fixture) {
		cancelled, taken, stale, gone := f.task("mail"), f.task("mail"), f.task("mail"), f.task("mail")
		f.enqueue(cancelled, taken, stale)
		f.change(cancelled.ID, task.Event{Kind: task.Cancel})
		f.change(taken.ID, task.Event{Kind: task.Claim, Seq: 1, Worker: "other", Lease: time.Minute})
		f.change(stale.ID, task.Event{Kind: task.Claim, Seq: 1, Worker: "other", Lease: time.Minute})
		f.change(stale.ID, task.Event{Kind: task.Finish, Worker: "other", Attempt: 1, Outcome: task.OutcomeRetriable})
		f.send(gone)
		w := f.work(slots(10, "mail"))
		w.wantClaimed(0)
		f.wantQueued(gone, 0, 0)
		for _, reason := range []string{RefusedEnded, RefusedTaken, RefusedStale, RefusedGone} {
			if f.refused[reason] != 1 {
				t.Errorf("refused as %s: %d", reason, f.refused[reason])
			}
		}
		f.enqueueMany("mail", 12)
		w.wantClaimed(10) // the slots of the refused are free
	})
}

// A task may be enqueued again by a process that dies before it sends the message. The first message still
// leads to a claim.
func TestATaskEnqueuedAgainDoesNotMakeTheMessageStale(t *testing.T) {
	bubble(t, func(f *fixture) {
		one := f.task("mail")
		f.enqueue(one)
		f.change(one.ID, task.Event{Kind: task.Enqueue})
		f.change(one.ID, task.Event{Kind: task.Enqueue})
		w := f.work(slots(1, "mail"))
		if got := w.wantClaimed(1)[0]; got.GetAttempt() != 1 {
			t.Errorf("attempt %d", got.GetAttempt())
		}
		f.wantQueued(one, 0, 0)
	})
}

func TestADuplicateMessageIsRefused(t *testing.T) {
	bubble(t, func(f *fixture) {
		one := f.task("mail")
		f.enqueue(one)
		f.send(one, one)
		w := f.work(slots(10, "mail"))
		w.wantClaimed(1)
		f.send(one)
		w.wantClaimed(1)
		f.wantQueued(one, 0, 0)
		if f.refused[RefusedTwice] != 2 || f.refused[RefusedTaken] != 1 {
			t.Errorf("refused %v", f.refused)
		}
	})
}

func TestAClaimThatFailedEitherWayHasOneOwnerAndIsNotLost(t *testing.T) {
	for _, applied := range []bool{false, true} {
		bubble(t, func(f *fixture) {
			f.store.failApply(2, applied)
			f.store.reads = 2
			tasks := f.enqueueMany("mail", 5)
			w := f.work(slots(10, "mail"))
			time.Sleep(5 * time.Second)
			for _, c := range w.wantClaimed(5) {
				row := f.wantState(id(c), task.Claimed)
				if row.Attempt != c.GetAttempt() || row.Attempt != 1 || row.Worker != w.id {
					t.Errorf("applied %v: attempt %d of %s, the worker has %d", applied, row.Attempt, row.Worker, c.GetAttempt())
				}
			}
			w.report("success", w.claimed()...)
			for _, one := range tasks {
				f.wantState(one.ID, task.Success)
			}
			f.wantQueued(tasks[0], 0, 0)
		})
	}
}

func TestClaimsInDoubtGoBackWhenTheStreamEnds(t *testing.T) {
	for _, applied := range []bool{false, true} {
		bubble(t, func(f *fixture) {
			f.store.failApply(1<<30, applied)
			f.store.reads = 1 << 30
			tasks := f.enqueueMany("mail", 5)
			w := f.dial(f.register(), &kinesinv1.Hello{Groups: []*kinesinv1.SlotGroup{slots(5, "mail")}})
			w.wantClaimed(0)
			f.wantQueued(tasks[0], 0, 5)
			if err := w.close(); err != nil {
				t.Error(err)
			}
			f.wantQueued(tasks[0], 5, 0)
			f.store.failApply(0, false)
			f.store.mu.Lock()
			f.store.reads = 0
			f.store.mu.Unlock()
			again := f.work(slots(5, "mail"))
			time.Sleep(time.Second)
			if applied { // the rows belong to the first worker; its wake-up finds that it never confirmed
				again.wantClaimed(0)
				f.wantState(tasks[0].ID, task.Claimed)
				return
			}
			again.wantClaimed(5)
		})
	}
}

func TestPayloadsStoredApartAreFetched(t *testing.T) {
	bubble(t, func(f *fixture) {
		apart := f.task("mail", func(t *task.Task) { t.Payload, t.PayloadSize = nil, 3 })
		f.apply(store.Op{Kind: store.PutPayload, Task: apart, Payload: []byte("big")})
		f.store.payloads = 1
		f.enqueue(apart)
		w := f.work(slots(1, "mail"))
		w.wantClaimed(0)
		f.wantState(apart.ID, task.Enqueued) // nothing is claimed before its payload is there
		time.Sleep(putBackDelay)
		if got := w.wantClaimed(1)[0]; string(got.GetPayload()) != "big" {
			t.Errorf("payload %q", got.GetPayload())
		}
	})
}

// An update replaces the payload of a task whose first message is still on its queue, and the task is
// enqueued again. The first message names a payload that is gone, or that the task does not have any more.
func TestAMessageFromBeforeAnUpdateBringsNoOldPayload(t *testing.T) {
	inline := func(text string) func(*task.Task) {
		return func(t *task.Task) { t.Payload, t.PayloadSize = []byte(text), 3 }
	}
	apart := func(t *task.Task) { t.Payload, t.PayloadSize = nil, 3 }
	for name, change := range map[string]struct {
		before, after func(*task.Task)
		kept          bool // the payload apart that it had before
	}{
		"from its row to one apart":       {before: inline("old"), after: apart},
		"from one apart to its row":       {before: apart, after: inline("new")},
		"from one apart to another":       {before: apart, after: apart},
		"from one apart, not deleted yet": {before: apart, after: apart, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				one := f.task("mail", change.before)
				updated := one
				updated.Seq, updated.PayloadRev = one.Seq+1, one.Seq
				change.after(&updated)
				if change.kept {
					f.putPayload(&one, "old")
				}
				if updated.PayloadStoredApart() {
					f.putPayload(&updated, "new")
				}
				f.enqueue(one)
				updated.WakeRow = f.row(one.ID).WakeRow
				f.apply(store.Change(updated, false, false)...)
				w := f.work(slots(1, "mail"))
				w.wantClaimed(0)
				f.send(updated)
				if got := w.wantClaimed(1)[0]; string(got.GetPayload()) != "new" {
					t.Errorf("payload %q, want the new one", got.GetPayload())
				}
			})
		})
	}
}

func (f *fixture) putPayload(t *task.Task, payload string) {
	f.Helper()
	f.apply(store.Op{Kind: store.PutPayload, Task: task.Task{ID: t.PayloadID(), Partition: t.Partition, Due: t.Due}, Payload: []byte(payload)})
}

// A task whose payload is damaged has failed for good, and says why: it would go back at each claim. So it is
// where the task came from its queue and where it was matched.
func TestATaskWhosePayloadIsDamagedFailsForGood(t *testing.T) {
	apart := func(t *task.Task) { t.Payload, t.PayloadSize = nil, 3 }
	for name, run := range map[string]func(f *fixture) task.ID{
		"from its queue": func(f *fixture) task.ID {
			row := f.task("mail", apart)
			f.enqueue(row)
			return row.ID
		},
		"matched": func(f *fixture) task.ID { return f.wantMatch(f.waiting("mail", apart)).ID },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				w := f.idle(slots(1, "mail"))
				f.store.rotten = true
				id := run(f)
				time.Sleep(time.Second)
				row := f.wantState(id, task.FatalFailure)
				if n := len(row.History); n != 1 || row.History[0].Error != store.PayloadDamaged {
					t.Errorf("history %+v", row.History)
				}
				f.enqueueMany("mail", 1)
				w.wantClaimed(1) // its slot is free
			})
		})
	}
}

func TestATaskWhosePayloadIsGoneFailsForGood(t *testing.T) {
	bubble(t, func(f *fixture) {
		lost := f.task("mail", func(t *task.Task) { t.Payload, t.PayloadSize = nil, 3 })
		f.enqueue(lost)
		w := f.work(slots(1, "mail"))
		w.wantClaimed(0)
		if left := f.wakeups(f.wantState(lost.ID, task.FatalFailure)); len(left) != 0 {
			t.Errorf("%d wake-up rows are left", len(left))
		}
		f.wantDone(lost)
		f.enqueueMany("mail", 1)
		w.wantClaimed(1)
	})
}

func suspect(blamed uint32) func(*task.Task) {
	return func(t *task.Task) { t.Suspect, t.Lost, t.Blamed = true, 1+blamed, blamed }
}

func TestSuspectsRunTogetherUntilTheyAreBlamed(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.enqueue(f.task("mail", suspect(0)), f.task("mail", suspect(0)), f.task("mail", suspect(0)))
		w := f.work(slots(5, "mail"))
		first := w.wantClaimed(3)
		if l, err := f.book.Look(f.ctx, w.id); err != nil || !l.Suspect.IsZero() {
			t.Errorf("the lease names %v, %v", l.Suspect, err)
		}
		f.enqueue(f.task("mail", suspect(1)))
		time.Sleep(forceAfter / 2)
		w.wantClaimed(3) // not beside those, of which one may be poison
		w.report("success", first...)
		time.Sleep(2 * suspectPause)
		w.wantClaimed(4)
		f.enqueue(f.task("mail", suspect(0)))
		w.wantClaimed(4) // not beside a blamed one
	})
}

func TestBlamedRunOneAtATimeAndTheLeaseNamesThem(t *testing.T) {
	bubble(t, func(f *fixture) {
		all := []task.Task{f.task("mail", suspect(1)), f.task("mail", suspect(1)), f.task("mail", suspect(1))}
		f.enqueue(all...)
		w := f.work(slots(4, "mail"), slots(4, "mail"))
		for i, outcome := range []string{"success", "retriable_failure", "success"} {
			for range 100 {
				if len(w.claimed()) <= i { // others have their turn
					time.Sleep(putBackDelay)
				}
			}
			one := w.wantClaimed(i + 1)[i]
			if l, err := f.book.Look(f.ctx, w.id); err != nil || l.Suspect != id(one) {
				t.Errorf("the lease names %v, %v; want %v", l.Suspect, err, id(one))
			}
			f.wantQueued(all[0], 2-i, 0)
			w.report(outcome, one)
			if row := f.row(id(one)); row.Suspect || row.Blamed != 0 {
				t.Errorf("%s after %s alone is under suspicion", row.State, outcome)
			}
		}
		f.heartbeat(w.id)
		if l, err := f.book.Look(f.ctx, w.id); err != nil || !l.Suspect.IsZero() {
			t.Errorf("the lease still names %v, %v", l.Suspect, err)
		}
	})
}

func TestTwoWorkersShareTheBlamed(t *testing.T) {
	bubble(t, func(f *fixture) {
		workers := []*remote{f.work(slots(5, "mail")), f.work(slots(5, "mail"))}
		f.enqueue(f.task("mail", suspect(1)), f.task("mail", suspect(1)), f.task("mail", suspect(1)))
		done := map[*remote]int{}
		for all := range 3 {
			f.keeps(2*time.Second, workers[0].id, workers[1].id)
			for _, w := range workers {
				if got := w.claimed(); len(got) > done[w] {
					done[w]++
					w.report("success", got[len(got)-1])
					break
				}
			}
			if sum := done[workers[0]] + done[workers[1]]; sum != all+1 {
				t.Fatalf("%d ran, want %d", sum, all+1)
			}
		}
		if done[workers[0]] == 0 || done[workers[1]] == 0 {
			t.Error("while one rested the other one did not take its turn")
		}
	})
}

func TestASuspectThatIsRefusedMakesRoom(t *testing.T) {
	bubble(t, func(f *fixture) {
		ended, next := f.task("mail", suspect(1)), f.task("mail", suspect(1))
		f.enqueue(ended, next)
		f.change(ended.ID, task.Event{Kind: task.Cancel})
		w := f.work(slots(1, "mail"))
		if got := w.wantClaimed(1)[0]; id(got) != next.ID {
			t.Errorf("got %v", id(got))
		}
	})
}

func TestNothingIsClaimedForAWorkerWhoseLeaseRanOut(t *testing.T) {
	bubble(t, func(f *fixture) {
		w := f.work(slots(5, "mail"))
		time.Sleep(16 * time.Second)
		one := f.enqueueMany("mail", 1)[0]
		w.wantClaimed(0)
		f.wantQueued(one, 1, 0)
		f.heartbeat(w.id)
		time.Sleep(leaseLookEvery)
		w.wantClaimed(1)
	})
}

func TestAClaimThatMovesTheWakeUpTellsTheScheduler(t *testing.T) {
	for lease, want := range map[time.Duration]int{3 * time.Second: 1, time.Minute: 0} {
		bubble(t, func(f *fixture) {
			worker, err := f.svc.Register(f.ctx, &kinesinv1.RegisterRequest{Lease: lease.Microseconds()})
			if err != nil {
				t.Fatal(err)
			}
			one := f.enqueueMany("mail", 1)[0]
			got, err := f.svc.Claim(f.ctx, &kinesinv1.ClaimRequest{Worker: worker.GetWorker(), Lambdas: []string{"mail"}, Limit: 1})
			if err != nil || len(got.GetTasks()) != 1 {
				t.Fatal(got, err)
			}
			if len(f.awake) != want || want > 0 && f.awake[0].Wake != one.Due.Add(lease+task.ClockBound) {
				t.Errorf("lease of %v: told of %v", lease, f.awake)
			}
		})
	}
}

func TestAStreamEndsWhenTheLeaseIsLost(t *testing.T) {
	bubble(t, func(f *fixture) {
		w := f.work(slots(5, "mail"))
		l, err := f.book.Look(f.ctx, w.id)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.book.MarkLost(f.ctx, l); err != nil {
			t.Fatal(err)
		}
		_, err = f.svc.Heartbeat(f.ctx, &kinesinv1.HeartbeatRequest{Worker: w.id})
		wantReason(t, err, kinesinv1.Reason_REASON_LEASE_LOST)
		<-w.over
		wantReason(t, w.err, kinesinv1.Reason_REASON_LEASE_LOST)
		synctest.Wait()
	})
}

// Two messages of one delivery would write the same row in the same instant. If the outcome of both is
// unknown, the row cannot tell them apart.
func TestDuplicatesOfUnknownOutcomeAreOneClaim(t *testing.T) {
	bubble(t, func(f *fixture) {
		one := f.task("mail")
		f.enqueue(one)
		f.send(one)
		f.store.failApply(1, true)
		w := f.work(slots(10, "mail"))
		time.Sleep(time.Second)
		w.wantClaimed(1)
		f.enqueueMany("mail", 12)
		w.wantClaimed(10)
	})
}

// A claim whose outcome is unknown was not written, and the row was claimed by somebody else in the same moment:
// what is read back is not this worker's.
func TestTheClaimOfAnotherWorkerIsNotOurs(t *testing.T) {
	for name, other := range map[string]func(e *task.Event, now *task.Instant){
		"another worker":                     func(e *task.Event, _ *task.Instant) { e.Worker = "other@host/1" },
		"the same worker, by another server": func(_ *task.Event, now *task.Instant) { *now = now.Add(-time.Microsecond) },
		"another worker, at another moment":  func(e *task.Event, now *task.Instant) { e.Worker, *now = "other@host/1", now.Add(-time.Millisecond) },
	} {
		bubble(t, func(f *fixture) {
			worker := f.register()
			one := f.task("mail")
			f.put(one)
			f.store.failPart(1, func(int) int {
				row, now := f.row(one.ID), f.clock.Now()
				if row.State != task.Enqueued {
					return 0
				}
				event := task.Event{Kind: task.Claim, Seq: row.Seq, Worker: worker, Lease: time.Minute}
				other(&event, &now)
				next, _, err := row.Apply(event, now, task.Policy{})
				if err != nil {
					t.Error(err)
				}
				if results, err := f.store.Store.Apply(f.ctx, []store.Op{{Kind: store.ReplaceTask, Task: next}}); err != nil || results[0] != nil {
					t.Error(results, err)
				}
				return 0
			})
			f.send(one)
			w := f.dial(worker, &kinesinv1.Hello{Groups: []*kinesinv1.SlotGroup{slots(1, "mail")}})
			time.Sleep(time.Second)
			if got := w.claimed(); len(got) > 0 {
				t.Errorf("%s has the task, and so has the worker that asked", name)
			}
			f.wantState(one.ID, task.Claimed)
		})
	}
}
