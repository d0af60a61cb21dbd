package hsc

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// hold has a gate hold one collection.
func (f *fixture) hold(collection string) {
	f.svc.Held = func(t *task.Task, _ task.Instant) bool { return t.Collection == collection }
}

func inCollection(name string) func(*task.Task) { return func(t *task.Task) { t.Collection = name } }

// A message that lies in its queue when its gate is set.
func TestAHeldTaskIsPutBack(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.hold("a")
		held, free := f.task("mail", inCollection("a")), f.task("mail", inCollection("b"))
		f.enqueue(held)
		f.enqueue(free)
		w := f.work(slots(10, "mail"))
		if got := w.wantClaimed(1)[0]; id(got) != free.ID {
			t.Errorf("claimed %v", id(got))
		}
		row := f.wantState(held.ID, task.Scheduled)
		if row.Wake != held.Due || row.Attempt != 0 || row.Worker != "" || row.WakeRow != held.WakeRow {
			t.Errorf("it waits as %+v", row)
		}
		if f.wantQueued(held, 0, 0); f.refused[RefusedHeld] != 1 {
			t.Errorf("refused %v", f.refused)
		}
		if len(f.putBack) != 1 || f.putBack[0].row.Seq != row.Seq || !f.putBack[0].hasRow {
			t.Errorf("the scheduler was told %+v", f.putBack)
		}
	})
}

// It is still its wake-up row, so nothing is written.
func TestAHeldTaskWithoutARowIsPutBack(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.hold("a")
		one := f.task("mail", func(t *task.Task) {
			t.State, t.Enqueues, t.Enqueued, t.Wake, t.Collection = task.Scheduled, 0, 0, t.Due, "a"
		})
		f.apply(store.First(one)...)
		f.send(one.Queued(f.clock.Now()))
		w := f.work(slots(10, "mail"))
		w.wantClaimed(0)
		if f.wantQueued(one, 0, 0); f.refused[RefusedHeld] != 1 || !f.row(one.ID).ID.IsZero() {
			t.Errorf("refused %v", f.refused)
		}
		if len(f.putBack) != 1 || f.putBack[0].row.ID != one.ID || f.putBack[0].hasRow {
			t.Errorf("the scheduler was told %+v", f.putBack)
		}
	})
}

// Somebody else has changed the row, or the store does not say what it did: the message decides nothing.
func TestAPutBackThatFails(t *testing.T) {
	bubble(t, func(f *fixture) {
		f.hold("a")
		taken, lost := f.task("mail", inCollection("a")), f.task("mail", inCollection("a"))
		f.enqueue(taken)
		cancelled, _, err := f.row(taken.ID).Apply(task.Event{Kind: task.Cancel}, f.clock.Now(), task.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		f.apply(store.Change(cancelled, false, false)...)
		w := f.work(slots(10, "mail"))
		w.wantClaimed(0)
		if f.wantState(taken.ID, task.Cancelled); f.refused[RefusedEnded] != 1 || len(f.putBack) != 0 {
			t.Errorf("refused %v, the scheduler was told %+v", f.refused, f.putBack)
		}
		f.store.failApply(1, true) // written, without an answer
		f.enqueue(lost)
		time.Sleep(time.Second)
		w.wantClaimed(0)
		if f.wantState(lost.ID, task.Scheduled); f.refused[RefusedStale] != 1 {
			t.Errorf("refused %v", f.refused)
		}
		f.wantQueued(lost, 0, 0)
	})
}

// A gate ends between the read of the payloads, which leaves out what is held, and the claim.
func TestAGateEndsDuringAClaim(t *testing.T) {
	bubble(t, func(f *fixture) {
		asked := 0
		f.svc.Held = func(*task.Task, task.Instant) bool { asked++; return asked == 1 }
		one := f.task("mail", func(t *task.Task) { t.Payload, t.PayloadSize = nil, 6 })
		f.putPayload(&one, "stored")
		f.enqueue(one)
		w := f.work(slots(1, "mail"))
		w.wantClaimed(0)
		time.Sleep(putBackDelay)
		if got := w.wantClaimed(1)[0]; string(got.GetPayload()) != "stored" {
			t.Errorf("claimed with the payload %q, want the stored one", got.GetPayload())
		}
	})
}
