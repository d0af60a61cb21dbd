package hsc

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// sentFirst stores a delayed task without a task row, and sends its message.
func (f *fixture) sentFirst() task.Task {
	f.Helper()
	t := f.task("mail", func(t *task.Task) {
		t.State, t.Enqueues, t.Enqueued, t.Wake = task.Scheduled, 0, 0, t.Due
	})
	f.apply(store.First(t)...)
	t = t.Queued(f.clock.Now())
	f.send(t)
	return t
}

func TestAClaimWritesTheFirstRow(t *testing.T) {
	bubble(t, func(f *fixture) {
		one := f.sentFirst()
		w := f.work(slots(10, "mail"))
		if got := w.wantClaimed(1)[0]; got.GetAttempt() != 1 {
			t.Errorf("attempt %d", got.GetAttempt())
		}
		f.wantWatched(one.ID)
		if row := f.wantState(one.ID, task.Claimed); row.Seq != one.Seq+1 || row.Worker != w.id {
			t.Errorf("%+v", row)
		}
		w.report("success", w.claimed()...)
		f.wantState(one.ID, task.Success)
		f.send(one) // a twin, much later
		w.wantClaimed(1)
		f.wantQueued(one, 0, 0)
		if f.refused[RefusedEnded] != 1 {
			t.Errorf("refused %v", f.refused)
		}
	})
}

// The row that would refuse the message of a task that has ended may be gone.
func TestAnOldMessageOfATaskWithoutARowIsRefused(t *testing.T) {
	bubble(t, func(f *fixture) {
		one := f.sentFirst()
		time.Sleep(task.UndispatchedMax)
		w := f.work(slots(10, "mail"))
		w.wantClaimed(0)
		if f.wantQueued(one, 0, 0); f.refused[RefusedStale] != 1 || !f.row(one.ID).ID.IsZero() {
			t.Errorf("refused %v", f.refused)
		}
		young := f.sentFirst()
		w.wantClaimed(1)
		f.wantState(young.ID, task.Claimed)
	})
}

func TestAFirstRowThatIsThereRefuses(t *testing.T) {
	bubble(t, func(f *fixture) {
		one := f.sentFirst()
		cancelled := one.Undispatched()
		cancelled, _, err := cancelled.Apply(task.Event{Kind: task.Cancel}, f.clock.Now(), task.Policy{Retention: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		f.apply(store.Op{Kind: store.PutTask, Task: cancelled})
		w := f.work(slots(10, "mail"))
		w.wantClaimed(0)
		if f.wantState(one.ID, task.Cancelled); f.refused[RefusedEnded] != 1 {
			t.Errorf("refused %v", f.refused)
		}
	})
}

func TestAFirstClaimThatFailedEitherWayIsNotLost(t *testing.T) {
	for _, applied := range []bool{false, true} {
		bubble(t, func(f *fixture) {
			f.store.failApply(2, applied)
			f.store.reads = 2
			one := f.sentFirst()
			w := f.work(slots(10, "mail"))
			time.Sleep(5 * time.Second)
			w.wantClaimed(1)
			if row := f.wantState(one.ID, task.Claimed); row.Attempt != 1 || row.Worker != w.id {
				t.Errorf("applied %v: %+v", applied, row)
			}
			f.wantQueued(one, 0, 0)
		})
	}
}

// Both messages come in one batch: the old one must not stand for the new one.
func TestAnOldMessageDoesNotTakeTheNewOneWithIt(t *testing.T) {
	bubble(t, func(f *fixture) {
		one := f.sentFirst()
		time.Sleep(task.UndispatchedMax)
		f.send(one.Undispatched().Queued(f.clock.Now()))
		w := f.work(slots(10, "mail"))
		w.wantClaimed(1)
		f.wantState(one.ID, task.Claimed)
		if f.wantQueued(one, 0, 0); f.refused[RefusedStale] != 1 {
			t.Errorf("refused %v", f.refused)
		}
	})
}

// The scheduler has looked for a row by then, and looks again only when the message has expired.
func TestALateFirstClaimTellsTheScheduler(t *testing.T) {
	for wait, told := range map[time.Duration]int{0: 0, time.Minute: 1} {
		bubble(t, func(f *fixture) {
			one := f.sentFirst()
			time.Sleep(wait)
			f.work(slots(10, "mail")).wantClaimed(1)
			f.mu.Lock()
			defer f.mu.Unlock()
			if len(f.awake) != told {
				t.Errorf("claimed after %v: told %d times, want %d", wait, len(f.awake), told)
			}
			if row := f.row(one.ID); row.Enqueued != one.Enqueued {
				t.Errorf("enqueued at %v, want the time of its message, %v", row.Enqueued, one.Enqueued)
			}
		})
	}
}
