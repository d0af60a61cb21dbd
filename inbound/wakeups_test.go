package inbound_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/storetest"
	"github.com/kinesin-io/kinesin/task"
)

const isUnavailable = kinesinv1.Reason_REASON_UNAVAILABLE

func keyed(d time.Duration) *item { return with(in(d), func(i *item) { i.Key = "k" }) }

// postpone has a task wait for its retry in d, with its wake-up row there.
func (f *fixture) postpone(id string, d time.Duration) task.Task {
	f.t.Helper()
	before := f.row(id)
	next, _, err := before.Apply(task.Event{
		Kind: task.Finish, Worker: "w", Attempt: before.Attempt, Outcome: task.OutcomeSnoozed, Delay: d, Started: f.clock.Now(),
	}, f.clock.Now(), f.lambda.PolicyFor(&before))
	if err != nil {
		f.t.Fatal(err)
	}
	f.apply(store.Change(next, true, false)...)
	return f.row(id)
}

// wantOneWakeup checks that a task has a live row, and no wake-up row but the one that it names.
func (f *fixture) wantOneWakeup(what, id string) {
	f.t.Helper()
	row, all := f.row(id), f.wakeupRows()
	if row.State.IsEnd() || len(all) != 1 || store.KeyOf(&all[0]) != store.KeyOf(&row) || all[0].WakeRow != row.WakeRow {
		f.t.Errorf("%s: the task is %s and names %+v; wake-up rows %+v", what, row.State, row.WakeRow, all)
	}
}

func TestARepeatedRequestLeavesNoRowThatFires(t *testing.T) {
	once := func(d time.Duration) *item {
		return &item{Lambda: "mail", Due: int64(start.Add(d)), RequestId: uuid7(1)}
	}
	again := map[string]struct {
		due  time.Duration
		wait time.Duration // before the call is made again
	}{
		"same, far": {time.Minute, 0}, "same, near": {time.Minute, 55 * time.Second}, "same, late": {time.Minute, 2 * time.Minute},
		"other, near": {time.Second, 0}, "other, late": {70 * time.Second, 2 * time.Minute},
	}
	for name, c := range again {
		run(t, func(f *fixture) {
			// The server itself, whose ids are the same for another due time.
			f.ctx = access.With(f.ctx, access.Caller{Identity: access.Identity{Grants: access.All()}})
			id := f.accept(once(time.Minute))
			if err := f.dispatch(id); err != nil {
				t.Fatal(err)
			}
			f.time.Advance(c.wait)
			repeat := func(what string) {
				t.Helper()
				if r := f.schedule(once(c.due))[0]; !r.Duplicate || f.messages() != 0 {
					t.Errorf("%s, %s: %v, %d messages", name, what, r, f.messages())
				}
			}
			repeat("enqueued")
			f.wantOneWakeup(name+", enqueued", id)
			f.claim(id)
			repeat("claimed")
			f.wantOneWakeup(name+", claimed", id)
			f.finish(id, task.OutcomeSuccess)
			if c.wait == 0 && c.due == time.Minute { // it is put as a wake-up row alone, which the task row refuses
				f.schedule(once(c.due))
				if err := f.dispatch(id); !errors.Is(err, store.ErrConflict) {
					t.Errorf("%s, ended: dispatched again: %v", name, err)
				}
				return
			}
			repeat("ended")
			if n := len(f.wakeupRows()); n != 0 {
				t.Errorf("%s, ended: %d wake-up rows", name, n)
			}
		})
	}
}

func TestAKeyWithAnotherDueTimeLeavesOneWakeupRow(t *testing.T) {
	for _, d := range []time.Duration{0, time.Minute, 2 * time.Minute, time.Hour} {
		run(t, func(f *fixture) {
			id := f.accept(keyed(time.Minute))
			other := func() *item { return with(keyed(d), func(i *item) { i.Payload = []byte("other") }) }
			elsewhere := func() *item { return with(keyed(d), func(i *item) { i.Priority = "high" }) }
			check := func(what string) {
				t.Helper()
				if r := f.schedule(keyed(d))[0]; !r.Duplicate || r.Id != id {
					t.Errorf("%s, in %v: %v", what, d, r)
				}
				wantRefusal(t, what, f.schedule(other())[0].Problem, isConflict)
				wantRefusal(t, what, f.schedule(elsewhere())[0].Problem, isConflict)
				if len(f.sent)+len(f.done) != 0 || len(f.added) != 1 || len(f.awake) != 1 { // added: while it waits
					t.Errorf("%s: the scheduler was told %v %v %v %v", what, f.sent, f.added, f.done, f.awake)
				}
			}
			check("waiting")
			f.wantOneWakeup("waiting", id)
			f.move(id, task.Event{Kind: task.Enqueue})
			f.claim(id)
			check("claimed")
			f.wantOneWakeup("claimed", id)
			f.postpone(id, 2*time.Minute)
			check("postponed")
			f.wantOneWakeup("postponed", id)
			f.move(id, task.Event{Kind: task.Enqueue})
			f.claim(id)
			f.finish(id, task.OutcomeSuccess)
			check("ended")
			if n := len(f.wakeupRows()); n != 0 {
				t.Errorf("ended, in %v: %d wake-up rows", d, n)
			}
		})
	}
}

// Two calls with one key and two due times write in turns.
func TestTwoCallsWithOneKeyAtOnce(t *testing.T) {
	for _, d := range []time.Duration{0, time.Minute, time.Hour} {
		run(t, func(f *fixture) {
			var first string
			f.steps.meanwhile(func() { first = f.accept(keyed(time.Minute)) })
			if r := f.schedule(keyed(d))[0]; !r.Duplicate || r.Id != first {
				t.Errorf("in %v: %v", d, r)
			}
			f.wantOneWakeup("both", first)
			if f.accepted != 1 {
				t.Errorf("%d accepted", f.accepted)
			}
		})
	}
}

// A call that put the wake-up row and not the task row says that it is not known; the next one stores the
// task, and does not take the row for it.
func TestHalfASuccessIsNoDuplicate(t *testing.T) {
	once := func(d time.Duration, key string) *item {
		one := &item{Lambda: "mail", Due: int64(start.Add(d)), Key: key}
		if key == "" {
			one.RequestId = uuid7(1)
		}
		return one
	}
	for name, one := range map[string]*item{"near": once(time.Hour, ""), "keyed": once(3*time.Hour, "k"), "keyed and near": once(time.Hour, "k")} {
		for _, how := range []storetest.Fault{storetest.NotApplied, storetest.AppliedButErrored} {
			runWith(t, func(_ *fixture, c *settings) { c.Near = 2 * time.Hour }, func(f *fixture) {
				f.driver.Fail(store.PutTask, 1, 1, how)
				f.steps.meanwhile(func() { f.driver.FailReads(1000) })
				f.during(time.Minute, func() {
					wantRefusal(t, name, f.schedule(one)[0].Problem, isUnavailable, "outcome of the write is unknown", "try again")
				})
				f.driver.FailReads(0)
				if n := len(f.wakeupRows()); n != 1 || len(f.sent)+len(f.awake)+f.accepted != 0 {
					t.Errorf("%s, fault %d: %d wake-up rows, told %v %v", name, how, n, f.sent, f.awake)
				}
				r := f.schedule(one)[0]
				if r.Problem != nil || r.Duplicate != (how == storetest.AppliedButErrored) {
					t.Errorf("%s, fault %d: %v", name, how, r)
				}
				f.wantOneWakeup(name, r.Id)
				if sent := map[bool]int{true: 1}[name != "keyed" && !r.Duplicate]; f.messages() != sent || len(f.sent) != sent {
					t.Errorf("%s, fault %d: %d messages, %v", name, how, f.messages(), f.sent)
				}
			})
		}
	}
}

func TestAStoreThatIsFullHalfwayRefusesNothing(t *testing.T) {
	run(t, func(f *fixture) {
		f.steps.meanwhile(func() { f.memory.SetFull(true) })
		wantRefusal(t, "halfway", f.schedule(keyed(time.Minute))[0].Problem, isUnavailable, "outcome of the write is unknown")
		f.memory.SetFull(false)
		if r := f.schedule(keyed(time.Minute))[0]; r.Problem != nil || r.Duplicate {
			t.Errorf("then: %v", r)
		}
	})
}

// A repeated call meets the bare wake-up row of a task that was moved.
func TestARepeatedRequestForATaskThatWasMoved(t *testing.T) {
	run(t, func(f *fixture) {
		once := &item{Lambda: "mail", Due: int64(start.Add(time.Minute)), RequestId: uuid7(1)}
		id := f.accept(once)
		if err := f.dispatch(id); err != nil {
			t.Fatal(err)
		}
		f.claim(id)
		away := f.postpone(id, time.Hour)
		f.move(id, task.Event{Kind: task.Enqueue})
		f.claim(id)
		back := f.postpone(id, time.Minute) // to where it was at first
		if r := f.schedule(once)[0]; !r.Duplicate || r.Id != id || back.WakeRow.At != start.Add(time.Minute) || away.WakeRow.At == back.WakeRow.At {
			t.Errorf("%v, %+v, then %+v", r, away.WakeRow, back.WakeRow)
		}
		f.wantOneWakeup("moved", id)
	})
	run(t, func(f *fixture) { // its task row is gone
		once := &item{Lambda: "mail", Due: int64(start.Add(time.Minute)), RequestId: uuid7(1)}
		t1 := f.wakeupOf(f.accept(once))
		f.apply(store.Remove(&t1))
		f.apply(store.Op{Kind: store.PutWakeup, Task: task.Task{ID: t1.ID, Partition: t1.Partition, Seq: 7, Wake: t1.Due, WakeRow: task.WakeRow{At: t1.Due, Seq: 7}}})
		wantRefusal(t, "bare", f.schedule(once)[0].Problem, isUnavailable, "outcome of the write is unknown")
	})
}

// wakeupOf reads the first wake-up row of an id; a zero ID when there is none.
func (f *fixture) wakeupOf(id string) task.Task {
	f.t.Helper()
	token, err := f.seal.Open(f.ctx, id)
	if err != nil {
		f.t.Fatal(err)
	}
	rows, err := f.store.Wakeups(f.ctx, []store.WakeKey{{Partition: token.Partition, Wake: token.Due, ID: token.ID}})
	if err != nil {
		f.t.Fatal(err)
	}
	return rows[0]
}

func TestACancelTakesTheWakeupRowAndTellsTheScheduler(t *testing.T) {
	for name, stored := range map[string]func(f *fixture) string{
		"waiting": func(f *fixture) string { return f.accept(in(time.Minute)) },
		"dispatched": func(f *fixture) string {
			id := f.accept(in(time.Minute))
			if err := f.dispatch(id); err != nil {
				t.Fatal(err)
			}
			return id
		},
		"near":      func(f *fixture) string { return f.accept(in(0)) },
		"keyed":     func(f *fixture) string { return f.accept(keyed(time.Minute)) },
		"postponed": func(f *fixture) string { id := f.accept(in(0)); f.claim(id); f.postpone(id, time.Hour); return id },
	} {
		run(t, func(f *fixture) {
			id := stored(f)
			if r := f.cancel(id); r.Outcome != "cancelled" {
				t.Errorf("%s: %v", name, r)
			}
			row := f.row(id)
			if row.State != task.Cancelled || row.WakeRow.At.IsZero() || len(f.wakeupRows()) != 0 || !slices.Equal(f.done, []task.ID{row.ID}) {
				t.Errorf("%s: %s, names %+v, %d wake-up rows, told %v", name, row.State, row.WakeRow, len(f.wakeupRows()), f.done)
			}
		})
	}
}

// A task is dispatched, and may run to its end, between the two writes of its cancel.
func TestACancelBetweenWhoseWritesSomebodyMoves(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(in(time.Minute))
		f.steps.meanwhile(func() {
			if err := f.dispatch(id); !errors.Is(err, store.ErrConflict) {
				t.Errorf("dispatched: %v", err)
			}
		})
		if r := f.cancel(id); r.Outcome != "cancelled" || len(f.wakeupRows()) != 0 {
			t.Errorf("%v, %d wake-up rows", r, len(f.wakeupRows()))
		}
	})
}

// A duplicate out of the buffer comes while its task is in flight: late, in time, and when its queue is so
// full that it is stored as a wake-up row alone.
func TestADuplicateOutOfTheBufferLeavesTheWakeupRowOfATaskInFlight(t *testing.T) {
	for name, wait := range map[string]time.Duration{"early": 0, "near": 55 * time.Second, "late": time.Hour} {
		for _, crowded := range []bool{false, true} {
			runBuffered(t, func(c *settings) {
				if crowded {
					c.Near = -1
				}
			}, func(b *buffered) {
				one := b.accepted(in(time.Minute))[0]
				b.set(func() { b.forget = true })
				b.drain(time.Second)
				b.mustDispatch(one)
				b.claim(one)
				b.advance(wait)
				b.set(func() { b.forget = false })
				b.drain(time.Minute)
				b.wantOneWakeup(name, one)
				if b.state(one) != "claimed" || b.memory.Len() != 0 || len(b.added) != 1 || len(b.done) != 0 {
					t.Errorf("%s, crowded %v: %s, %d messages, told %v %v", name, crowded, b.state(one), b.memory.Len(), b.added, b.done)
				}
			})
		}
	}
}

func TestADuplicateOutOfTheBufferOfATaskThatWasMovedOrHasEnded(t *testing.T) {
	for _, ended := range []bool{false, true} {
		for _, crowded := range []bool{false, true} {
			runBuffered(t, func(c *settings) {
				if crowded {
					c.Near = -1
				}
			}, func(b *buffered) {
				one := b.accepted(in(time.Minute))[0]
				b.set(func() { b.forget = true })
				b.drain(time.Second)
				b.mustDispatch(one)
				b.claim(one)
				b.postpone(one, 2*time.Hour)
				if ended {
					b.cancel(one)
				}
				b.advance(time.Hour)
				b.set(func() { b.forget = false })
				b.drain(time.Minute)
				if ended {
					if n := len(b.wakeupRows()); n != 0 {
						t.Errorf("crowded %v: %d wake-up rows", crowded, n)
					}
				} else {
					b.wantOneWakeup(fmt.Sprintf("crowded %v", crowded), one)
				}
			})
		}
	}
}

// leftovers puts wake-up rows beside a live task that was moved and an ended one, and half of a task.
func (f *fixture) leftovers() (moved, ended string, half task.Task) {
	f.t.Helper()
	moved, ended = f.accept(in(time.Minute)), f.accept(in(time.Minute))
	left := []task.Task{f.wakeupOf(moved), f.wakeupOf(ended)}
	for _, id := range []string{moved, ended} {
		if err := f.dispatch(id); err != nil {
			f.t.Fatal(err)
		}
		f.claim(id)
	}
	f.postpone(moved, time.Hour)
	f.finish(ended, task.OutcomeSuccess)
	half = left[0]
	half.ID, half.State, half.Key = task.NewID(start, 1, 2), task.Enqueued, "half"
	for _, row := range append(left, half) {
		f.apply(store.Op{Kind: store.PutWakeup, Task: row})
	}
	return moved, ended, half
}

func TestAListShowsEachTaskOnce(t *testing.T) {
	run(t, func(f *fixture) {
		moved, ended, half := f.leftovers()
		next := f.row(moved) // another move has begun
		next.Seq, next.Wake = next.Seq+1, next.Wake.Add(time.Hour)
		f.apply(store.Change(next, true, false)[0])
		for _, limit := range []int32{1, 2, 3, 100} {
			want := []string{moved, f.seal.Seal(task.TokenOf(&half)), ended}
			got, _ := f.list("", limit)
			if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
				t.Errorf("limit %d: %v, want %v", limit, got, want)
			}
			if got, _ := f.list("scheduled", limit); !slices.Equal(got, []string{moved}) {
				t.Errorf("limit %d, scheduled: %v", limit, got)
			}
		}
		if got := f.get(f.seal.Seal(task.TokenOf(&half))); got.Task != nil {
			t.Errorf("half of a task: %v", got.Task)
		}
	})
}

func TestADeletionSeesThroughLeftoverRows(t *testing.T) {
	run(t, func(f *fixture) {
		moved, _, half := f.leftovers()
		_, err := f.DeleteLambda(f.ctx, &kinesinv1.DeleteLambdaRequest{Name: "mail"})
		wantError(t, "live tasks", err, kinesinv1.Reason_REASON_IN_USE)
		dropped, err := f.remove(0, true)
		if err != nil || dropped != 2 || f.row(moved).State != task.Dropped {
			t.Errorf("%d dropped, %v; %s", dropped, err, f.row(moved).State)
		}
		rows, err := f.store.Tasks(f.ctx, []task.ID{half.ID})
		if err != nil || rows[0].State != task.Dropped {
			t.Errorf("half of a task is %s, %v", rows[0].State, err)
		}
		for _, p := range f.lambda.Partitions() {
			if left, err := f.store.ScanSchedule(f.ctx, p, store.WakeKey{}, start.Add(horizon), 10); len(left) != 0 || err != nil {
				t.Errorf("%+v are left, %v", left, err)
			}
		}
	})
}

// The head of a partition holds leftover rows only.
func TestADeletionGoesPastManyLeftoverRows(t *testing.T) {
	run(t, func(f *fixture) {
		const n = 3000
		var put []store.Op
		for i := range uint64(n) {
			row := task.Task{ID: task.NewID(start, i, i), Partition: task.Partition{Lambda: f.lambda.Ref}, State: task.Scheduled, Seq: 1, Due: start.Add(time.Duration(i+1) * time.Millisecond)}
			first := store.First(row)
			row = first[0].Task
			ended, _, err := row.Apply(task.Event{Kind: task.Cancel}, start, task.Policy{Retention: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
			put = append(put, first[0], store.Op{Kind: store.PutTask, Task: ended})
		}
		f.apply(put...)
		if dropped, err := f.remove(0, false); err != nil || dropped != 0 {
			t.Errorf("%d dropped, %v", dropped, err)
		}
		if left, err := f.store.ScanSchedule(f.ctx, task.Partition{Lambda: f.lambda.Ref}, store.WakeKey{}, start.Add(horizon), 10); len(left) != 0 || err != nil {
			t.Errorf("%d are left, %v", len(left), err)
		}
	})
}

func TestARowSaysWhoEnqueuedItsTask(t *testing.T) {
	runWith(t, func(_ *fixture, c *settings) { c.Process = "p7" }, func(f *fixture) {
		id := f.accept(in(0))
		if row := f.row(id); row.State != task.Enqueued || row.Worker != "p7" {
			t.Errorf("%s by %q", row.State, row.Worker)
		}
	})
}

// A call ends between its two writes. The next one meets the wake-up row and answers that the task exists,
// which is true.
func TestATaskWhoseTaskRowDidNotFollowIsFound(t *testing.T) {
	run(t, func(f *fixture) {
		once := func() *item {
			return &item{Lambda: "mail", Due: int64(start.Add(time.Second)), RequestId: uuid7(1)}
		}
		f.rows.set(func(ops []store.Op) {
			for i := range ops {
				if ops[i].Kind == store.PutTask {
					ops[i].Task.Seq = 0 // refused, as if the process had ended there
				}
			}
		}, nil, nil)
		f.schedule(once())
		f.rows.set(nil, nil, nil)
		for range 9 { // the queue fills up, so that the next call plans no task row
			f.accept(in(time.Second))
		}
		r := f.schedule(once())[0]
		if !r.Duplicate || f.get(r.Id).Task == nil {
			t.Fatalf("%v, then %v", r, f.get(r.Id))
		}
		if c := f.cancel(r.Id); c.Outcome != "cancelled" || f.row(r.Id).State != task.Cancelled {
			t.Errorf("cancel: %v", c)
		}
	})
}
