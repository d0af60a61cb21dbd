package chain_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// readsOf counts the reads of task rows.
type readsOf struct {
	store.Driver

	n atomic.Int32
}

func (r *readsOf) Tasks(ctx context.Context, ids []task.ID) ([]task.Task, error) {
	r.n.Add(1)
	return r.Driver.Tasks(ctx, ids)
}

// An end whose follow-ups cannot be read is tried once more, and not until the process ends; its wake-up row
// stays for a version that can read them.
func TestAnEndThatCannotBeReadIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, false)
		reads := &readsOf{Driver: w.mem}
		k := w.keeper(reads, map[task.ID]int{})
		ops := w.end(task.OutcomeSuccess)
		chain := *ops[0].Task.Chain
		chain.Follow = []byte{0xff}
		ops[0].Task.Chain = &chain
		if results, err := k.Apply(t.Context(), ops); err != nil || results[0] != nil {
			t.Fatal(results, err)
		}
		stop := runtest.Start(t, k.Run)
		time.Sleep(10 * time.Minute)
		stop()
		if n := reads.n.Load(); n != 1 {
			t.Errorf("%d reads in 10 minutes, want 1", n)
		}
		if _, parent := w.rows(); !parent {
			t.Error("the parent has no wake-up row")
		}
	})
}
