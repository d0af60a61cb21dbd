package inbound_test

import (
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/storetest"
	"github.com/kinesin-io/kinesin/task"
)

// wantMoved checks that a task has another priority, and a wake-up row there and nowhere else.
func (f *fixture) wantMoved(id, priority string) task.Task {
	f.t.Helper()
	row := f.row(id)
	p, err := f.lambda.Priority(priority)
	if err != nil {
		f.t.Fatal(err)
	}
	rows, err := f.store.Wakeups(f.ctx, []store.WakeKey{store.KeyOf(&row)})
	if err != nil {
		f.t.Fatal(err)
	}
	if row.Partition.Priority != p || rows[0].ID != row.ID {
		f.t.Errorf("the task is in partition %+v, want %s; its wake-up row is %+v", row.Partition, priority, rows[0])
	}
	if left := f.waitingRows(); len(left) != 0 {
		f.t.Errorf("leftover wake-up rows: %+v", left)
	}
	return row
}

// Another priority is another partition. The task moves there with what it is, and back.
func TestAnotherPriorityInEveryState(t *testing.T) {
	for name, accept := range inStates {
		run(t, func(f *fixture) {
			id := accept(f)
			before, asStored := f.get(id).Task, f.row(id)
			r := f.update(&kinesinv1.TaskUpdate{Id: id, Priority: "high"})
			if asStored.State.IsRunning() || asStored.State.IsEnd() {
				wantRefusal(t, name, r.Problem, isTooLate)
				return
			}
			if r.Problem != nil || r.Seq <= before.Seq || r.Due != before.Due {
				t.Errorf("%s: %v, was %v", name, r, before)
			}
			row := f.wantMoved(id, "high")
			if asStored.State == task.RetriableFailure && (row.State != asStored.State || row.Wake != asStored.Wake) {
				t.Errorf("%s: a backoff is cut short: %+v", name, row)
			}
			if now := f.get(id).Task; now.Id != id || now.Priority != "high" || string(now.Payload) != string(before.Payload) {
				t.Errorf("%s: was %v, is %v", name, before, now)
			}
			if r := f.update(&kinesinv1.TaskUpdate{Id: id, Priority: before.Priority}); r.Problem != nil {
				t.Errorf("%s, back: %v", name, r)
			}
			f.wantMoved(id, before.Priority)
			f.update(&kinesinv1.TaskUpdate{Id: id, Priority: "low"})
			if r := f.cancel(id); r.Problem != nil || len(f.waitingRows()) != 0 || f.get(id).Task.State != "cancelled" {
				t.Errorf("%s: cancel: %v, %d wake-up rows", name, r, len(f.waitingRows()))
			}
		})
	}
}

// All that an update names is changed in one write.
func TestPriorityTimeAndPayloadAtOnce(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(with(in(time.Hour), func(i *item) { i.Key = "k" }))
		seq := f.get(id).Task.Seq
		r := f.update(&kinesinv1.TaskUpdate{
			Id: id, IfSeq: seq, Priority: "low", Delay: new((3 * time.Hour).Microseconds()), Payload: []byte("other"),
			StartBefore: int64(f.clock.Now().Add(4 * time.Hour)),
		})
		due := f.clock.Now().Add(3 * time.Hour).CeilMillis()
		if row := f.wantMoved(id, "low"); r.Problem != nil || row.Due != due || row.Wake != due || row.StartBefore != f.clock.Now().Add(4*time.Hour) {
			t.Errorf("%v, %+v", r, row)
		}
		if got := f.get(id).Task; string(got.Payload) != "other" || got.Seq != r.Seq {
			t.Errorf("%v", got)
		}
		// The key is still the task's, as it was and as it is.
		again := f.schedule(with(in(time.Hour), func(i *item) { i.Key, i.Priority, i.Payload = "k", "low", []byte("other") }))[0]
		if again.Problem != nil || again.Id != id || !again.Duplicate {
			t.Errorf("the same again: %v", again)
		}
		wantRefusal(t, "another", f.update(&kinesinv1.TaskUpdate{Id: id, Priority: "urgent"}).Problem, isInvalid, "urgent", "high")
		wantRefusal(t, "too far", f.update(&kinesinv1.TaskUpdate{Id: id, Delay: new((100_000 * time.Hour).Microseconds())}).Problem, isInvalid, "too far ahead")
		wantRefusal(t, "both", f.update(&kinesinv1.TaskUpdate{Id: id, Delay: new(int64(1)), Due: int64(due)}).Problem, isInvalid, "not both")
	})
}

// A dispatch, a claim or an end at the same time wins or loses as a whole, and so does a lost answer.
func TestAnotherPriorityMeetsOthers(t *testing.T) {
	for name, first := range map[string]func(f *fixture, id string, ops []store.Op){
		"dispatch": func(f *fixture, id string, _ []store.Op) {
			if err := f.dispatch(id); err != nil {
				f.t.Error(err)
			}
		},
		"claim": func(f *fixture, id string, _ []store.Op) {
			if err := f.dispatch(id); err != nil {
				f.t.Error(err)
			}
			f.claim(id)
		},
		"cancel":     func(f *fixture, id string, _ []store.Op) { f.cancel(id) },
		"reschedule": func(f *fixture, id string, _ []store.Op) { f.reschedule(id, time.Minute, 0) },
		"itself":     func(f *fixture, _ string, ops []store.Op) { f.apply(slices.Clone(ops)...) },
	} {
		t.Run(name, func(t *testing.T) {
			run(t, func(f *fixture) {
				id := f.accept(in(time.Hour))
				f.rows.beforeApply = func(ops []store.Op) {
					f.rows.beforeApply = nil
					first(f, id, ops)
				}
				r := f.update(&kinesinv1.TaskUpdate{Id: id, Priority: "high"})
				if name == "claim" || name == "cancel" {
					wantRefusal(t, name, r.Problem, isTooLate)
					return
				}
				if r.Problem != nil {
					t.Errorf("%v", r)
				}
				f.wantMoved(id, "high")
			})
		})
	}
	run(t, func(f *fixture) { // the answer is lost
		id := f.accept(with(in(time.Hour), func(i *item) { i.Key = "k" }))
		f.driver.Fail(store.ReplaceTask, 1, 1, storetest.AppliedButErrored)
		if r := f.update(&kinesinv1.TaskUpdate{Id: id, Priority: "high"}); r.Problem != nil {
			t.Errorf("%v", r)
		}
		f.wantMoved(id, "high")
	})
}
