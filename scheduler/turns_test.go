package scheduler_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// TestALowerPriorityIsNotHandedOutFirst has tasks of two priorities due at one instant. Until that of the higher one
// is dispatched, that of the lower one is not to take a worker that waits.
func TestALowerPriorityIsNotHandedOutFirst(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		first := w.waiting(high, 2*time.Second)
		same, before, after := w.waiting(low, 2*time.Second), w.waiting(low, 1999*time.Millisecond), w.waiting(low, 4*time.Second)
		w.sent.refuse = func(t *task.Task) error {
			if t.ID == first.ID && w.clock.Now() < first.Due.Add(time.Second) {
				return store.ErrUnreachable
			}
			return nil
		}
		w.start()
		w.advance(10 * time.Second)
		for _, c := range []struct {
			name string
			task task.Task
			want bool
		}{{"of the higher priority", first, false}, {"due at the same instant", same, true}, {"due before", before, false}, {"due when that has gone", after, false}} {
			found := false
			for _, f := range w.sent.fired() {
				if f.id == c.task.ID {
					if found = true; f.inTurn != c.want {
						t.Errorf("the task %s: in turn is %v", c.name, f.inTurn)
					}
				}
			}
			if !found {
				t.Errorf("the task %s was not dispatched", c.name)
			}
		}
	})
}

// A task of a higher priority does not wait for its turn, though a lower one that is due before has not gone.
func TestAHigherPriorityDoesNotWaitForALower(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		lower, higher := w.waiting(low, 2*time.Second), w.waiting(high, 2500*time.Millisecond)
		w.sent.refuse = func(t *task.Task) error {
			if t.ID == lower.ID && w.clock.Now() < higher.Due.Add(time.Second) {
				return store.ErrUnreachable
			}
			return nil
		}
		w.start()
		w.advance(10 * time.Second)
		fired := w.sent.fired()
		if len(fired) != 2 || fired[0].id != higher.ID || fired[0].inTurn {
			t.Errorf("dispatched %+v, want the higher priority first, and not in turn", fired)
		}
	})
}
