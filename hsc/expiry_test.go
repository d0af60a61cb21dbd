package hsc

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// startSoon makes an enqueued task that has to start within a second.
func (f *fixture) startSoon() task.Task {
	f.Helper()
	return f.task("mail", func(t *task.Task) { t.StartBefore = t.Due.Add(time.Second) })
}

// The scheduler ends the task; here its message goes, once and for all.
func TestAnExpiredTaskIsNotClaimed(t *testing.T) {
	bubble(t, func(f *fixture) {
		late, inTime := f.startSoon(), f.startSoon()
		f.enqueue(late)
		time.Sleep(time.Second)
		inTime.StartBefore = f.clock.Now().Add(time.Second)
		f.enqueue(inTime)
		w := f.work(slots(10, "mail"))
		if got := w.wantClaimed(1)[0]; id(got) != inTime.ID {
			t.Errorf("claimed %v", id(got))
		}
		f.wantState(late.ID, task.Enqueued)
		if f.wantQueued(late, 0, 0); f.refused[RefusedExpired] != 1 {
			t.Errorf("refused %v", f.refused)
		}
	})
}

func TestAnExpiredTaskWithoutARowIsNotClaimed(t *testing.T) {
	bubble(t, func(f *fixture) {
		one := f.task("mail", func(t *task.Task) {
			t.State, t.Enqueues, t.Enqueued, t.Wake, t.StartBefore = task.Scheduled, 0, 0, t.Due, t.Due.Add(time.Second)
		})
		f.apply(store.First(one)...)
		f.send(one.Queued(f.clock.Now()))
		time.Sleep(time.Second)
		w := f.work(slots(10, "mail"))
		w.wantClaimed(0)
		if f.wantQueued(one, 0, 0); f.refused[RefusedExpired] != 1 || !f.row(one.ID).ID.IsZero() {
			t.Errorf("refused %v", f.refused)
		}
	})
}

// A claim that reaches no worker in time ends where it is given back.
func TestATaskThatComesBackTooLateExpires(t *testing.T) {
	bubble(t, func(f *fixture) {
		var told []task.ID
		f.svc.Ended = func(ids []task.ID) { told = append(told, ids...) }
		one := f.startSoon()
		f.enqueue(one)
		w := f.work(slots(1, "mail"))
		got := w.wantClaimed(1)[0]
		time.Sleep(time.Second)
		w.report("released", got)
		if row := f.wantState(one.ID, task.Expired); row.Attempt != 1 || len(f.wakeups(row)) != 0 {
			t.Errorf("%+v", row)
		}
		f.wantQueued(one, 0, 0)
		if len(told) != 1 || told[0] != one.ID {
			t.Errorf("told of the ends of %v", told)
		}
	})
}
