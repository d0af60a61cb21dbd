package dispatcher_test

import (
	"testing"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

func drop(o task.Order) task.Order {
	o.Event = task.Event{Kind: task.Drop, Error: "gate 7"}
	return o
}

// A task that a gate drops ends without a message and without a slot.
func TestADroppedTaskEnds(t *testing.T) {
	inWorldWith(t, 4, func(w *world, m *workers) {
		managed, delivers := drop(w.waiting(1)), drop(w.waiting(2))
		delivers.Delivers = true
		for _, o := range []task.Order{managed, delivers} {
			results := w.Dispatch(w.ctx, []task.Order{o})
			if wantNone(t, results); !results[0].Done || results[0].Task.State != task.Dropped || len(results[0].Task.History) != 1 {
				t.Errorf("%+v", results[0])
			}
			w.wantState(&o, task.Dropped)
		}
		if w.visible() != 0 || w.wakeups() != 0 || len(m.given) != 0 {
			t.Errorf("%d messages, %d wake-up rows, %d slots", w.visible(), w.wakeups(), len(m.given))
		}
	})
}

// Deliverers do not read task rows: one that has acquired the wake-up row sends the task, which is not
// dropped then.
func TestATaskThatWasAcquiredIsNotDropped(t *testing.T) {
	inWorldWith(t, 0, func(w *world, _ *workers) {
		o := drop(w.waiting(1))
		o.Delivers = true
		taken, _, err := o.Task.Apply(task.Event{Kind: task.Acquire, Worker: "p2"}, w.clock.Now(), task.Policy{})
		if err != nil {
			t.Fatal(err)
		}
		w.apply(store.Acquire(taken, true))
		if r := w.Dispatch(w.ctx, []task.Order{o})[0]; r.Done {
			t.Errorf("%+v", r)
		}
		if w.wakeups() != 1 {
			t.Error("the wake-up row that another process has acquired is gone")
		}
	})
}
