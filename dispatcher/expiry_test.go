package dispatcher_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/storetest"
	"github.com/kinesin-io/kinesin/task"
)

// expired returns an order for a task that had to start before now, as a wake-up row alone.
func (w *world) expired(n uint64) task.Order {
	w.t.Helper()
	o := w.waiting(n) // the row's own StartBefore does not matter: the order has it
	o.Task.StartBefore = w.clock.Now()
	return o
}

func TestAnExpiredTaskEndsInsteadOfItsDispatch(t *testing.T) {
	for name, serves := range map[string]bool{"a worker waits": true, "no worker": false} {
		t.Run(name, func(t *testing.T) {
			inWorldWith(t, map[bool]int{true: 4}[serves], func(w *world, m *workers) {
				if !serves {
					w.Register.Remove("mail", m)
				}
				first := w.expired(1)
				kept := w.waiting(2)
				kept.Task.StartBefore = w.clock.Now().Add(time.Millisecond)
				sent := w.expired(3)
				sent.First, sent.Task.State, sent.Task.Seq = false, task.Enqueued, 2
				w.apply(store.Op{Kind: store.PutTask, Task: sent.Task})
				orders := []task.Order{first, sent, kept}
				results := w.Dispatch(w.ctx, orders)
				wantNone(t, results)
				for i := range 2 {
					if r := results[i]; !r.Done || r.Task.State != task.Expired {
						t.Errorf("order %d: %+v", i, r)
					}
					w.wantState(&orders[i], task.Expired)
				}
				if r := results[2]; !r.Done || r.Task.State.IsEnd() {
					t.Errorf("expired early: %+v", r)
				}
				if w.wakeups() != 1 {
					t.Errorf("%d wake-up rows, want that of the task that lives", w.wakeups())
				}
				if queued := w.visible(); queued != map[bool]int{false: 1}[serves] || len(m.given) != map[bool]int{true: 1}[serves] {
					t.Errorf("%d messages, %d slots; want one or the other for the task that lives", queued, len(m.given))
				}
			})
		})
	}
}

// The end of a task that is a wake-up row alone is a task row, which refuses every other dispatch, and then
// the deletion of its wake-up row.
func TestTheEndOfAnExpiredTaskFailingEitherWayIsMadeGood(t *testing.T) {
	for _, how := range []storetest.Fault{storetest.NotApplied, storetest.AppliedButErrored} {
		inWorld(t, func(w *world) {
			o := w.expired(1)
			w.driver.Fail(store.PutTask, 1, 1, how)
			wantNone(t, w.during(time.Second, func() []task.Dispatched { return w.Dispatch(w.ctx, []task.Order{o}) }))
			if w.wantState(&o, task.Expired); w.visible() != 0 || w.wakeups() != 0 {
				t.Errorf("fault %d: %d messages, %d wake-up rows", how, w.visible(), w.wakeups())
			}
		})
	}
}
