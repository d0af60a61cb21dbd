package inbound_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/storetest"
	"github.com/kinesin-io/kinesin/task"
)

const isTooLate = kinesinv1.Reason_REASON_TOO_LATE

func (f *fixture) cancel(id string) *kinesinv1.CancelResult {
	f.t.Helper()
	response, err := f.Cancel(f.ctx, &kinesinv1.CancelRequest{Ids: []string{id}})
	if err != nil {
		f.t.Fatal(err)
	}
	return response.Results[0]
}

func TestCancelInEveryState(t *testing.T) {
	dispatched := func(f *fixture) string { return f.accept(in(0)) }
	claimed := func(f *fixture) string { id := dispatched(f); f.claim(id); return id }
	for _, c := range []struct {
		name    string
		make    func(f *fixture) string
		outcome string
		state   string // where the cancel met it
		after   task.State
	}{
		{"waiting", func(f *fixture) string { return f.accept(in(time.Minute)) }, "cancelled", "scheduled", task.Cancelled},
		{"keyed", func(f *fixture) string { return f.accept(with(in(time.Minute), func(i *item) { i.Key = "k" })) }, "cancelled", "scheduled", task.Cancelled},
		{"enqueued", dispatched, "cancelled", "enqueued", task.Cancelled},
		{"backing off", func(f *fixture) string { id := claimed(f); f.finish(id, task.OutcomeRetriable); return id }, "cancelled", "retriable_failure", task.Cancelled},
		{"snoozed", func(f *fixture) string { id := claimed(f); f.finish(id, task.OutcomeSnoozed); return id }, "cancelled", "scheduled", task.Cancelled},
		{"claimed", claimed, "cancelling", "claimed", task.Claimed},
		{"processing", func(f *fixture) string {
			id := claimed(f)
			f.move(id, task.Event{Kind: task.Start, Worker: "w", Attempt: 1})
			return id
		}, "cancelling", "processing", task.Processing},
	} {
		run(t, func(f *fixture) {
			id := c.make(f)
			r := f.cancel(id)
			row := f.row(id)
			if r.Outcome != c.outcome || r.State != c.state || r.Problem != nil || row.State != c.after || len(f.waitingRows()) != 0 {
				t.Errorf("%s: %v; the row is %s, %d wake-up rows", c.name, r, row.State, len(f.waitingRows()))
			}
			if running := c.outcome == "cancelling"; row.CancelRequested != running || slices.Equal(f.stopped, []task.ID{row.ID}) != running {
				t.Errorf("%s: cancel requested %v, workers told %v", c.name, row.CancelRequested, f.stopped)
			}
			if c.outcome == "cancelled" {
				wantRefusal(t, c.name+" again", f.cancel(id).Problem, isTooLate, "cancelled")
			} else if again := f.cancel(id); again.Outcome != "cancelling" {
				t.Errorf("%s again: %v", c.name, again)
			}
		})
	}
}

func TestCancelOfWhatHasEndedIsTooLate(t *testing.T) {
	for _, o := range []task.Outcome{task.OutcomeSuccess, task.OutcomeFatal, task.OutcomeCancelled} {
		run(t, func(f *fixture) {
			id := f.accept(in(0))
			f.claim(id)
			ended := f.finish(id, o)
			r := f.cancel(id)
			wantRefusal(t, o.String(), r.Problem, isTooLate, "has ended", ended.State.String())
			if r.State != ended.State.String() || r.Outcome != "" || f.row(id).Seq != ended.Seq {
				t.Errorf("%v; the row changed: %v", r, f.row(id).Seq != ended.Seq)
			}
		})
	}
}

func TestACancelledTaskNeverStarts(t *testing.T) {
	run(t, func(f *fixture) {
		waiting := f.accept(in(time.Minute))
		stale := f.waitingRows()[0] // as a scheduler has read it ahead
		enqueued := f.accept(in(0))
		message := f.row(enqueued)
		f.cancel(waiting)
		f.cancel(enqueued)

		next, _, err := stale.Apply(task.Event{Kind: task.Enqueue}, f.clock.Now(), task.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		claimed, _, err := message.Apply(task.Event{Kind: task.Claim, Seq: message.Seq, Worker: "w", Lease: time.Minute}, f.clock.Now(), task.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		results, err := f.store.Apply(f.ctx, []store.Op{{Kind: store.PutTask, Task: next}, {Kind: store.ReplaceTask, Task: claimed}})
		if err != nil || !errors.Is(results[0], store.ErrConflict) || !errors.Is(results[1], store.ErrConflict) {
			t.Errorf("dispatch and claim after the cancel: %v, %v", results, err)
		}
	})
}

func TestCancelRacesDispatchAndClaim(t *testing.T) {
	for name, c := range map[string]struct {
		due     time.Duration
		between func(f *fixture, id string)
		outcome string
	}{
		"dispatched in between": {time.Minute, func(f *fixture, id string) {
			if err := f.dispatch(id); err != nil {
				t.Error(err)
			}
		}, "cancelled"},
		"claimed in between": {0, func(f *fixture, id string) { f.claim(id) }, "cancelling"},
		"ended in between":   {0, func(f *fixture, id string) { f.claim(id); f.finish(id, task.OutcomeSuccess) }, ""},
		// By this very call, as far as it knows: the answer to its first write may have been lost.
		"cancelled in between": {0, func(f *fixture, id string) { f.claim(id); f.finish(id, task.OutcomeCancelled) }, "cancelled"},
	} {
		run(t, func(f *fixture) {
			id := f.accept(in(c.due))
			once := true
			f.rows.beforeApply = func([]store.Op) {
				if once {
					once = false
					c.between(f, id)
				}
			}
			r := f.cancel(id)
			if r.Outcome != c.outcome || (c.outcome == "") != (r.Problem.GetReason() == isTooLate) {
				t.Errorf("%s: %v", name, r)
			}
			if c.outcome == "cancelled" && f.row(id).State != task.Cancelled {
				t.Errorf("%s: acknowledged, but %s", name, f.row(id).State)
			}
		})
	}
}

func TestCancelGivesUpOnATaskThatKeepsMoving(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(in(0))
		tries := 0
		f.rows.beforeApply = func([]store.Op) {
			tries++
			f.move(id, task.Event{Kind: task.Enqueue})
		}
		wantRefusal(t, "moving", f.cancel(id).Problem, kinesinv1.Reason_REASON_UNAVAILABLE, "try again")
		if tries > 10 {
			t.Errorf("%d tries", tries)
		}
	})
}

func TestEachWriteOfACancelFailingEitherWay(t *testing.T) {
	for _, kind := range []store.OpKind{store.PutTask, store.ReplaceTask, store.DeleteWakeup} {
		for _, how := range []storetest.Fault{storetest.NotApplied, storetest.AppliedButErrored} {
			run(t, func(f *fixture) {
				id := f.accept(in(map[bool]time.Duration{true: 0, false: time.Minute}[kind == store.ReplaceTask]))
				f.driver.Fail(kind, 1, 1, how)
				f.during(time.Minute, func() {
					if r := f.cancel(id); r.Outcome != "cancelled" {
						t.Errorf("kind %d, fault %d: %v", kind, how, r)
					}
				})
				if f.row(id).State != task.Cancelled || len(f.waitingRows()) != 0 {
					t.Errorf("kind %d, fault %d: %s, %d wake-up rows", kind, how, f.row(id).State, len(f.waitingRows()))
				}
			})
		}
	}
}

func TestACancelOfUnknownOutcomeIsNotAcknowledged(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(in(0))
		f.driver.Fail(store.ReplaceTask, 1, 100, storetest.NotApplied)
		f.during(time.Minute, func() {
			wantRefusal(t, "unknown", f.cancel(id).Problem, kinesinv1.Reason_REASON_UNAVAILABLE, "outcome of the write is unknown", "try again")
		})
	})
}

// A cancel whose write was not answered, and whose task was redriven before it could be read back, is done:
// it does not cancel the task again, whose redrive was answered.
func TestACancelIsDoneOnce(t *testing.T) {
	for _, many := range []bool{false, true} {
		run(t, func(f *fixture) {
			id, other := f.accept(in(0)), f.accept(in(0))
			var redriven *kinesinv1.ChangeResult
			f.driver.Fail(store.ReplaceTask, 1, 1, storetest.AppliedButErrored)
			f.steps.afterwards(func() {
				redriven = f.redrive(&kinesinv1.RedriveRequest{Ids: []string{id}, RequestId: uuid7(1)})
			})
			ids := []string{id}
			if many {
				ids = append(ids, other)
			}
			response, err := f.Cancel(f.ctx, &kinesinv1.CancelRequest{Ids: ids})
			if err != nil || redriven.Problem != nil {
				t.Fatal(err, redriven)
			}
			if r := response.Results[0]; r.Problem != nil || r.Outcome != "cancelled" || f.row(id).State != task.Scheduled {
				t.Errorf("many %v: %v, and the task that was redriven is %s", many, r, f.row(id).State)
			}
		})
	}
}

func TestCancelOfMany(t *testing.T) {
	run(t, func(f *fixture) {
		a, b := f.accept(in(0)), f.accept(in(time.Minute))
		response, err := f.Cancel(f.ctx, &kinesinv1.CancelRequest{Ids: []string{a, "nonsense", b, a}})
		if err != nil {
			t.Fatal(err)
		}
		r := response.Results
		if r[0].Outcome != "cancelled" || r[1].Problem.GetReason() != isNotFound || r[2].Outcome != "cancelled" || r[3].Problem.GetReason() != isTooLate {
			t.Errorf("%v", r)
		}
		for _, n := range []int{0, inbound.IDsMax + 1} {
			_, err := f.Cancel(f.ctx, &kinesinv1.CancelRequest{Ids: make([]string, n)})
			wantError(t, "ids", err, isInvalid, "1 to 1000")
		}
	})
}

func TestACancelEndsAWait(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(in(time.Minute))
		done := f.wait(30*time.Second, id)
		f.during(100*time.Millisecond, func() {})
		f.cancel(id)
		f.wantAnswer(done, 20*time.Millisecond, "cancelled")
	})
}
