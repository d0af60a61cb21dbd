package sim

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// TestLimitsByKeyAreJudged has tasks of a key run, and counts how many are too many.
func TestLimitsByKeyAreJudged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{start: time.Now(), trace: newTrace(time.Now(), false)}
		w.keys.ref, w.keys.ever = 1, []limited{{most: 2, begun: w.start, set: w.start}}
		write := func(number byte, key string, state task.State, breaches int) {
			t.Helper()
			w.checkKeys(&store.Op{Kind: store.PutTask, Task: task.Task{ID: task.ID{number}, State: state, LimitKey: key, Partition: task.Partition{Lambda: 1}}})
			if len(w.breaches) != breaches {
				t.Errorf("breaches after task %d is %v: %q, want %d", number, state, w.breaches, breaches)
			}
		}
		limit := func(most int) {
			w.keys.ever = append(w.keys.ever, limited{most: most, begun: time.Now(), set: time.Now()})
		}
		write(1, "hot", task.Claimed, 0)
		write(2, "hot", task.Processing, 0)
		write(3, "cold", task.Claimed, 0)
		write(4, "hot", task.Enqueued, 0)
		write(1, "hot", task.RetriableFailure, 0)
		write(4, "hot", task.Claimed, 0)
		write(1, "hot", task.Claimed, 1)
		write(1, "hot", task.Success, 1)
		limit(1)
		time.Sleep(keyLimitInForce - time.Millisecond)
		write(2, "hot", task.Success, 1)
		write(5, "hot", task.Claimed, 1) // the limit may not be known everywhere
		write(6, "hot", task.Enqueued, 1)
		write(5, "hot", task.Success, 1)
		time.Sleep(time.Minute)
		write(6, "hot", task.Claimed, 1) // it was put on its queue before
		write(7, "hot", task.Claimed, 2)
		limit(noLimit)
		write(8, "hot", task.Claimed, 2)
	})
}

// TestALimitIsKnownLateInFaults: who reaches nobody does not hear of a limit.
func TestALimitIsKnownLateInFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{start: time.Now()}
		over := w.troubled()
		set, k := time.Now(), &w.keys
		if at := k.inForce(set); at.Before(set.Add(time.Hour)) {
			t.Errorf("in force %v after it was set, while a fault lasts", at.Sub(set))
		}
		time.Sleep(10 * time.Second)
		over()
		if want := 10*time.Second + keyLimitTrouble; !k.inForce(set).Equal(set.Add(want)) {
			t.Errorf("in force %v after it was set, want %v", k.inForce(set).Sub(set), want)
		}
		if after := time.Now().Add(time.Hour); !k.inForce(after).Equal(after.Add(keyLimitInForce)) {
			t.Errorf("in force %v after it was set without a fault, want %v", k.inForce(after).Sub(after), keyLimitInForce)
		}
	})
}
