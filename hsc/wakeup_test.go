package hsc

import (
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// snooze reports that a task is to run again after a delay.
func (w *remote) snooze(c *kinesinv1.Claimed, delay time.Duration) {
	r := result(c, "snoozed")
	r.Delay = delay.Microseconds()
	w.send(&kinesinv1.WorkRequest{Results: []*kinesinv1.Result{r}})
}

// wantDone checks which tasks one call told the scheduler to forget the wake-up rows of.
func (f *fixture) wantDone(rows ...task.Task) {
	f.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.done) != 1 || len(f.done[0]) != len(rows) {
		f.Fatalf("the scheduler was told %d times that tasks are done: %+v", len(f.done), f.done)
	}
	if f.undone {
		f.Error("the scheduler was told of a wake-up and then that the task is done")
	}
	for i, got := range f.done[0] {
		if got.ID != rows[i].ID || got.Partition != rows[i].Partition || got.WakeRow != rows[i].WakeRow {
			f.Errorf("done: task %s with the wake-up row %+v, want %s with %+v", got.ID, got.WakeRow, rows[i].ID, rows[i].WakeRow)
		}
	}
}

func TestAnEndDeletesTheWakeUpRow(t *testing.T) {
	for outcome, want := range map[string]task.State{
		"success": task.Success, "fatal_failure": task.FatalFailure, "cancelled": task.Cancelled, "retriable_failure": task.Dead,
	} {
		bubble(t, func(f *fixture) {
			one := f.task("mail", func(t *task.Task) { t.Failures = 2 }) // of 3
			f.enqueue(one)
			w := f.work(slots(1, "mail"))
			w.report(outcome, w.wantClaimed(1)...)
			row := f.wantState(one.ID, want)
			if left := f.wakeups(one); len(left) != 0 || row.WakeRow != one.WakeRow {
				t.Errorf("%s: %d wake-up rows are left; the task row names %+v, want %+v", outcome, len(left), row.WakeRow, one.WakeRow)
			}
			f.wantDone(one)
			if len(f.awake) != 0 {
				t.Errorf("%s: the scheduler heard of wake-ups %v", outcome, f.awake)
			}
		})
	}
}

// The sixteen seconds that the scheduler of the fixture looks ahead are less than the snooze.
func TestAFarRetryMovesTheWakeUpRow(t *testing.T) {
	for name, alone := range map[string]bool{"with a scheduler": false, "without one": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(f *fixture) {
				if alone {
					f.svc.Scheduler = nil
				}
				w, c := f.one()
				before := f.row(id(c))
				w.snooze(c, time.Hour)
				w.wantAck(c, kinesinv1.Reason_REASON_UNSPECIFIED)
				row := f.wantState(id(c), task.Scheduled)
				if row.WakeRow != (task.WakeRow{At: row.Wake, Seq: row.Seq}) || row.WakeRow == before.WakeRow {
					t.Errorf("the task wakes at %d with seq %d and names the wake-up row %+v", row.Wake, row.Seq, row.WakeRow)
				}
				left := f.wakeups(row)
				if len(left) != 1 || !left[0].IsBare() || left[0].Wake != row.Wake || left[0].WakeRow != row.WakeRow {
					t.Errorf("wake-up rows %+v", left)
				}
				if alone {
					return
				}
				f.wantDone(before)
				if len(f.awake) != 1 || f.awake[0].Seq != row.Seq || f.awake[0].WakeRow != row.WakeRow {
					t.Errorf("awake: %+v", f.awake)
				}
			})
		})
	}
}

func TestANearRetryLeavesTheWakeUpRowWhereItIs(t *testing.T) {
	bubble(t, func(f *fixture) {
		w, c := f.one()
		before := f.wakeups(f.row(id(c)))
		w.snooze(c, time.Second)
		row := f.wantWatched(id(c))
		if left := f.wakeups(row); len(left) != 1 || left[0].WakeRow != before[0].WakeRow || row.WakeRow != before[0].WakeRow {
			t.Errorf("wake-up rows %+v, the task row names %+v", left, row.WakeRow)
		}
		if len(f.awake) != 1 || f.awake[0].Wake != row.Wake || len(f.done) != 0 {
			t.Errorf("awake %v, done %v", f.awake, f.done)
		}
	})
}

// The wake-up row of a dispatched or running task stays where it was, however late its wake-up is.
func TestClaimsStartsAndReleasesLeaveTheWakeUpRowWhereItIs(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.fires(-1)
		w, c := f.one()
		first := f.wantWatched(id(c)).WakeRow
		w.send(&kinesinv1.WorkRequest{Drain: true, Started: []*kinesinv1.Started{{Task: c.GetTask(), Attempt: 1}}})
		f.wantState(id(c), task.Processing)
		f.wantWatched(id(c))
		w.report("released", c)
		f.wantState(id(c), task.Enqueued)
		row := f.wantWatched(id(c))
		if left := f.wakeups(row); len(left) != 1 || row.WakeRow != first || len(f.done) != 0 {
			t.Errorf("wake-up rows %+v, the task row names %+v, done %v", left, row.WakeRow, f.done)
		}
	})
}

func TestDoneIsToldOnceForABatch(t *testing.T) {
	bubble(t, func(f *fixture) {
		tasks := f.enqueueMany("mail", 4)
		w := f.work(slots(4, "mail"))
		got := w.wantClaimed(4)
		slices.SortFunc(got, func(a, b *kinesinv1.Claimed) int { return slices.Compare(a.GetTask(), b.GetTask()) })
		far := result(got[1], "snoozed")
		far.Delay = time.Hour.Microseconds()
		w.send(&kinesinv1.WorkRequest{Results: []*kinesinv1.Result{
			result(got[0], "success"), far, result(got[2], "snoozed"), result(got[3], "fatal_failure"),
		}})
		f.wantDone(tasks[0], tasks[1], tasks[3])
		if len(f.awake) != 2 {
			t.Errorf("awake %v", f.awake)
		}
	})
}

// Retries move the row there and back: each move leaves one row, which the task row names.
func TestMovesFollowEachOther(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.fires(-1)
		w, c := f.one()
		for range 3 {
			w.snooze(c, time.Hour)
			row := f.wantWatched(id(c))
			if left := f.wakeups(row); len(left) != 1 || left[0].WakeRow.At != row.Wake {
				t.Fatalf("wake-up rows %+v of a task that wakes at %d", left, row.Wake)
			}
			time.Sleep(time.Hour)
			f.heartbeat(w.id)
			time.Sleep(leaseLookEvery)
			f.send(f.change(id(c), task.Event{Kind: task.Enqueue}))
			all := w.claimed()
			c = all[len(all)-1]
		}
		if c.GetAttempt() != 4 {
			t.Errorf("attempt %d", c.GetAttempt())
		}
		w.report("success", c)
		if left := f.wakeups(f.wantState(id(c), task.Success)); len(left) != 0 {
			t.Errorf("%d wake-up rows are left", len(left))
		}
	})
}

// writesOf has results, each with the number of writes that store it.
var writesOf = map[string]struct {
	outcome string
	delay   time.Duration
	writes  int
	state   task.State
}{
	"end":          {"success", 0, 2, task.Success},
	"far":          {"snoozed", time.Hour, 3, task.Scheduled},
	"near":         {"snoozed", time.Second, 1, task.Scheduled},
	"retry at all": {"retriable_failure", 0, 1, task.RetriableFailure},
}

// The call fails after any number of its writes, with an unknown outcome. Then the worker reports again.
func TestABrokenChainNeverLosesTheWakeUpRow(t *testing.T) {
	for name, chain := range writesOf {
		for through := range chain.writes + 1 {
			bubble(t, func(f *fixture) {
				w, c := f.one()
				writes := 0
				f.store.failPart(1, func(n int) int { writes = n; return min(through, n) })
				r := result(c, chain.outcome)
				r.Delay = chain.delay.Microseconds()
				w.send(&kinesinv1.WorkRequest{Results: []*kinesinv1.Result{r}})
				w.wantAck(c, kinesinv1.Reason_REASON_UNAVAILABLE)
				if writes != chain.writes {
					t.Fatalf("%s takes %d writes, want %d", name, writes, chain.writes)
				}
				f.wantWatched(id(c))
				if len(f.done)+len(f.awake) != 0 {
					t.Errorf("%s, %d writes: the scheduler was told of what is not known: %v, %v", name, through, f.done, f.awake)
				}
				w.send(&kinesinv1.WorkRequest{Results: []*kinesinv1.Result{r}})
				w.wantAck(c, kinesinv1.Reason_REASON_UNSPECIFIED)
				f.wantState(id(c), chain.state)
				row := f.wantWatched(id(c))
				if !row.State.IsEnd() && (len(f.awake) != 1 || f.awake[0].Wake != row.Wake) {
					t.Errorf("%s, %d writes: the scheduler heard of %v", name, through, f.awake)
				}
			})
		}
	}
}

// A conflict stops the writes of a task before anything is deleted, whatever the other writer did.
func TestAConflictNeverLosesTheWakeUpRow(t *testing.T) {
	for name, chain := range writesOf {
		for change, other := range map[string]struct {
			event task.Event
			want  kinesinv1.Reason
		}{
			"started":   {task.Event{Kind: task.Start, Attempt: 1}, kinesinv1.Reason_REASON_UNSPECIFIED},
			"lost":      {task.Event{Kind: task.WorkerLost, Attempt: 1}, kinesinv1.Reason_REASON_FENCED},
			"confirmed": {task.Event{Kind: task.Unconfirmed, Attempt: 1}, kinesinv1.Reason_REASON_FENCED},
		} {
			bubble(t, func(f *fixture) {
				w, c := f.one()
				w.send(&kinesinv1.WorkRequest{Drain: true})
				first := f.row(id(c)).WakeRow
				other.event.Worker = w.id
				f.store.meanwhile = func() { f.change(id(c), other.event) }
				r := result(c, chain.outcome)
				r.Delay = chain.delay.Microseconds()
				w.send(&kinesinv1.WorkRequest{Results: []*kinesinv1.Result{r}})
				w.wantAck(c, other.want)
				row := f.wantWatched(id(c))
				if other.want == kinesinv1.Reason_REASON_FENCED {
					if row.WakeRow != first || len(f.done)+len(f.awake) != 0 {
						t.Errorf("%s, %s: the task row names %+v; done %v, awake %v", name, change, row.WakeRow, f.done, f.awake)
					}
				} else {
					f.wantState(id(c), chain.state)
				}
				f.wantLeftoversOf(row)
			})
		}
	}
}

// wantLeftoversOf checks that each wake-up row that the task row does not name shows itself to be needless,
// once the call that put it is over.
func (f *fixture) wantLeftoversOf(row task.Task) {
	f.Helper()
	for _, left := range f.wakeups(row) {
		later := f.clock.Now().Add(store.CallMax + time.Second)
		if left.WakeRow != row.WakeRow && store.Conclude(&left, &row, later) != store.Leftover {
			f.Errorf("the wake-up row %+v stays beside the task row of seq %d, which names %+v", left.WakeRow, row.Seq, row.WakeRow)
		}
	}
}

// The row that conflicts with a new wake-up row is a wake-up row, and is never taken for the task row.
func TestAMoveMeetsAnOlderRowInItsPlace(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.fires(-1)
		w, c := f.one()
		row := f.row(id(c))
		f.store.meanwhile = func() {
			at := f.clock.Now().Add(time.Hour)
			bare := task.Task{ID: row.ID, Partition: row.Partition, Seq: 1, Wake: at, WakeRow: task.WakeRow{At: at, Seq: 1}}
			newer := bare
			newer.Seq, newer.WakeRow.Seq = row.Seq+5, row.Seq+5
			f.apply(store.Op{Kind: store.PutWakeup, Task: bare}, store.Op{Kind: store.PutWakeup, Task: newer})
		}
		w.snooze(c, time.Hour)
		w.wantAck(c, kinesinv1.Reason_REASON_UNSPECIFIED)
		if now := f.wantState(row.ID, task.Scheduled); now.Seq <= row.Seq+5 || now.Wake != now.WakeRow.At {
			t.Errorf("%+v", now)
		}
	})
}
