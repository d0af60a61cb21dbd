package inbound_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// set returns the tasks that an expression selects.
func (f *fixture) set(expression string) (rows []inbound.Row) {
	f.t.Helper()
	of, err := inbound.Select(expression, f.clock.Now(), access.All())
	if err != nil {
		f.t.Fatal(err)
	}
	var position []byte
	for more := true; more; {
		page, err := f.Page(f.ctx, &of, position, 100)
		if err != nil {
			f.t.Fatal(err)
		}
		rows = append(rows, page.Rows...)
		position, more = page.Next, len(page.Next) > 0
	}
	return rows
}

// outcomes counts what became of tasks; refusals by their reason.
func outcomes(all []inbound.Changed) map[string]int {
	n := map[string]int{}
	for _, c := range all {
		if c.Err != nil {
			n[c.Err.Error()]++
			continue
		}
		n[c.Outcome]++
	}
	return n
}

func (f *fixture) wantOutcomes(what string, all []inbound.Changed, want string) {
	f.t.Helper()
	if got := fmt.Sprint(outcomes(all)); got != want {
		f.t.Errorf("%s: %s, want %s", what, got, want)
	}
}

func TestASetIsCancelledInOneWrite(t *testing.T) {
	run(t, func(f *fixture) {
		for i := range 300 {
			item := named("mail", fmt.Sprintf("k%03d", i), time.Hour)
			if i%2 == 0 {
				item.Key = ""
			}
			f.schedule(item)
		}
		rows := f.set("state=scheduled")
		writes := 0
		f.rows.set(func([]store.Op) { writes++ }, nil, nil)
		f.wantOutcomes("first", f.CancelRows(f.ctx, rows), "map[cancelled:300]")
		f.rows.set(nil, nil, nil)
		if writes != 1 {
			t.Errorf("%d writes", writes)
		}
		if left := f.set("state=scheduled"); len(left) > 0 || len(f.done) != 300 {
			t.Errorf("%d tasks are left, the scheduler was told of %d", len(left), len(f.done))
		}
		f.wantOutcomes("the same again", f.CancelRows(f.ctx, rows), "map[cancelled:300]")
		f.wantOutcomes("as they are", f.CancelRows(f.ctx, f.set("state=cancelled")), "map[cancelled:300]")
	})
}

// One that moves between the read and the write is looked at again, alone.
func TestTasksOfASetThatMove(t *testing.T) {
	run(t, func(f *fixture) {
		var ids []string
		for range 4 {
			ids = append(ids, f.accept(in(time.Hour)))
		}
		rows := f.set("")
		once := false
		f.rows.set(func([]store.Op) {
			if once {
				return
			}
			once = true
			f.cancelled(ids[0])
		}, nil, nil)
		f.wantOutcomes("cancel", f.CancelRows(f.ctx, rows), "map[cancelled:4]")
		f.rows.set(nil, nil, nil)

		ids = []string{f.accept(in(time.Hour)), f.accept(in(time.Hour)), f.accept(in(time.Hour))}
		rows, once = f.set("state=scheduled"), false
		f.rows.set(func([]store.Op) {
			if once {
				return
			}
			once = true
			f.cancelled(ids[1])
		}, nil, nil)
		got := outcomes(f.ExpireRows(f.ctx, rows))
		if got["expired"] != 2 || got["the task has ended: cancelled"] != 1 {
			t.Errorf("expire: %v", got)
		}
		for i, want := range []string{"expired", "cancelled", "expired"} {
			if got := f.get(ids[i]).Task.GetState(); got != want {
				t.Errorf("task %d is %s", i, got)
			}
		}
	})
}

func TestASetIsMovedInOneWrite(t *testing.T) {
	run(t, func(f *fixture) {
		for i := range 300 {
			item := named("mail", fmt.Sprintf("k%03d", i), time.Hour)
			if i%2 == 0 {
				item.Key = ""
			}
			f.schedule(item)
		}
		rows, due := f.set("state=scheduled"), f.clock.Now().Add(2*time.Hour)
		writes := 0
		f.rows.set(func([]store.Op) { writes++ }, nil, nil)
		to := func(*task.Task) (task.Instant, error) { return due, nil }
		f.wantOutcomes("first", f.RescheduleRows(f.ctx, rows, to), "map[rescheduled:300]")
		f.rows.set(nil, nil, nil)
		if writes != 1 {
			t.Errorf("%d writes", writes)
		}
		f.wantOutcomes("the same again", f.RescheduleRows(f.ctx, rows, to), "map[rescheduled:300]")
		f.wantOutcomes("as they are", f.RescheduleRows(f.ctx, f.set("state=scheduled"), to), "map[unchanged:300]")
		if n := len(f.set("due<=+2h and due>+119m")); n != 300 {
			t.Errorf("%d tasks were moved", n)
		}
	})
}

// Calls with several ids write together, and answer for each as before.
func TestAChangeOfSeveralIsOneWrite(t *testing.T) {
	run(t, func(f *fixture) {
		var ids []string
		for i := range 300 {
			item := named("mail", fmt.Sprintf("k%03d", i), time.Hour)
			if i%2 == 0 {
				item.Key = ""
			}
			ids = append(ids, f.accept(item))
		}
		for _, id := range ids[200:] {
			f.cancelled(id)
		}
		for _, c := range []struct {
			name, states string
			call         func() (*kinesinv1.ChangeResponse, error)
		}{
			{"reschedule", "map[REASON_TOO_LATE:100 REASON_UNSPECIFIED:200]", func() (*kinesinv1.ChangeResponse, error) {
				return f.Reschedule(f.ctx, &kinesinv1.RescheduleRequest{Ids: ids, Delay: time.Minute.Microseconds()})
			}},
			{"redrive", "map[REASON_TOO_LATE:200 REASON_UNSPECIFIED:100]", func() (*kinesinv1.ChangeResponse, error) {
				return f.Redrive(f.ctx, &kinesinv1.RedriveRequest{Ids: ids, RequestId: uuid7(1)})
			}},
		} {
			writes := 0
			f.rows.set(func([]store.Op) { writes++ }, nil, nil)
			r, err := c.call()
			f.rows.set(nil, nil, nil)
			reasons := map[string]int{}
			for i, one := range r.GetResults() {
				if one.Id != ids[i] {
					t.Fatalf("%s: result %d is of another task", c.name, i)
				}
				reasons[one.Problem.GetReason().String()]++
			}
			if got := fmt.Sprint(reasons); err != nil || got != c.states || writes != 1 {
				t.Errorf("%s: %s, %v, in %d writes; want %s in one", c.name, got, err, writes, c.states)
			}
		}
		if n := len(f.set("state=scheduled and due<=+1m")); n != 300 {
			t.Errorf("%d tasks are due within a minute", n)
		}
	})
}

func TestACancelOfSeveralAnswersForEach(t *testing.T) {
	run(t, func(f *fixture) {
		ids := []string{f.accept(in(time.Hour)), f.accept(in(time.Hour)), f.accept(named("mail", "k", time.Hour))}
		f.cancelled(ids[1])
		r, err := f.Cancel(f.ctx, &kinesinv1.CancelRequest{Ids: []string{ids[0], ids[1], "nonsense", ids[2], ids[0]}})
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, one := range r.Results {
			got += one.Outcome + " " + one.State + " " + strings.TrimPrefix(one.Problem.GetReason().String(), "REASON_") + ";"
		}
		if want := "cancelled scheduled UNSPECIFIED; cancelled TOO_LATE;  NOT_FOUND;cancelled scheduled UNSPECIFIED; cancelled TOO_LATE;"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}

// The wake-up row of the first due time may be left when a task was moved to an earlier one.
func TestARowOfATaskThatWasMovedIsNeededUntilItsFirstTime(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(in(100 * time.Hour))
		f.reschedule(id, time.Minute, 0)
		f.cancelled(id)
		f.time.Advance(time.Minute + task.EndedMin)
		f.wantOutcomes("too soon to be swept", f.DeleteRows(f.ctx, f.set("state=cancelled")), "map[deleted:1]")
		if row := f.row(id); row.ExpireAt < start.Add(100*time.Hour+task.EndedMin) {
			t.Errorf("it expires at %d", row.ExpireAt)
		}
	})
}

// Two servers that have the same job for a moment redrive a task once, also one that ended again in between.
func TestASetIsRedrivenOnce(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.ended(task.OutcomeSuccess)
		rows := f.set("state=success")
		f.wantOutcomes("first", f.RedriveRows(f.ctx, rows, true), "map[redriven:1]")
		f.time.Advance(time.Second)
		f.move(id, task.Event{Kind: task.Match, Worker: "w", Lease: time.Minute})
		f.finish(id, task.OutcomeSuccess)
		again := f.RedriveRows(f.ctx, rows, true)
		if row := f.row(id); again[0].Err == nil || row.State != task.Success {
			t.Errorf("again: %v; the task is %s", again, row.State)
		}
	})
}

// A deleted task is gone for readers at once. Its row stays while it may have to refuse a second start.
func TestRowsAreDeletedWhenNothingNeedsThem(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(named("mail", "k", time.Minute))
		f.cancelled(id)
		f.schedule(named("mail", "live", 100*time.Hour))
		rows := f.set("")
		got := outcomes(f.DeleteRows(f.ctx, rows))
		if len(got) != 2 || got["the task lives: scheduled"] != 1 || got["deleted"] != 1 {
			t.Errorf("at once: %v", got)
		}
		if left := f.set(""); len(left) != 1 || left[0].State != task.Scheduled {
			t.Errorf("%d tasks are left", len(left))
		}
		if r := f.get(id); r.Problem.GetReason() != kinesinv1.Reason_REASON_NOT_FOUND {
			t.Error(r)
		}
		f.time.Advance(time.Minute)
		if n, err := f.store.Sweep(f.ctx, f.clock.Now(), 10); n != 0 || err != nil {
			t.Errorf("%d rows were swept while they were needed, %v", n, err)
		}
		f.time.Advance(task.EndedMin)
		if n, err := f.store.Sweep(f.ctx, f.clock.Now(), 10); n != 1 || err != nil {
			t.Errorf("%d rows were swept, %v", n, err)
		}
		if again := f.schedule(named("mail", "k", time.Minute))[0]; again.Problem != nil || again.Duplicate {
			t.Errorf("the key is not free: %v", again)
		}
	})
}

// A task of a deliver lambda without a row would be shown as delivered, so one that was cancelled is kept.
func TestTheRowOfADeliverTaskIsNotHidden(t *testing.T) {
	runOutgoing(t, nil, func(f *outgoing) {
		id := f.accept(named("invoices", "k", time.Hour))
		f.cancelled(id)
		got := outcomes(f.DeleteRows(f.ctx, f.set("state=cancelled")))
		if len(got) != 1 || got["deleted"] != 0 {
			t.Error(got)
		}
		if r := f.get(id); r.GetTask().GetState() != "cancelled" {
			t.Error(r)
		}
	})
}

// The key of a task that did its work is free when the task is deleted.
func TestTheKeyOfADeletedTaskIsFree(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(named("mail", "k", 0))
		f.claim(id)
		f.finish(id, task.OutcomeSuccess)
		f.wantOutcomes("delete", f.DeleteRows(f.ctx, f.set("state=success")), "map[deleted:1]")
		if again := f.schedule(named("mail", "k", time.Minute))[0]; again.Problem != nil || again.Duplicate {
			t.Errorf("the key is not free: %v", again)
		}
	})
}

func TestWhatAWorkerHasDoesNotExpire(t *testing.T) {
	run(t, func(f *fixture) {
		id := f.accept(in(time.Hour))
		row := f.waitingRows()[0]
		row.State, row.Seq = task.Claimed, row.Seq+1
		row.Attempt, row.Worker, row.Wake = 1, "w", row.Due
		if _, err := f.store.Apply(f.ctx, []store.Op{{Kind: store.PutTask, Task: row}}); err != nil {
			t.Fatal(err)
		}
		got := outcomes(f.ExpireRows(f.ctx, f.set("")))
		if len(got) != 1 || got["a worker has the task, or it may be on the queue of its lambda: only what waits can expire"] != 1 {
			t.Error(got)
		}
		f.wantOutcomes("cancel", f.CancelRows(f.ctx, f.set("")), "map[cancelling:1]")
		stopped := len(f.stopped)
		f.wantOutcomes("again", f.CancelRows(f.ctx, f.set("")), "map[cancelling:1]")
		if len(f.stopped) != stopped || stopped != 1 {
			t.Errorf("the worker of %s was told %d times", id, len(f.stopped))
		}
	})
}
