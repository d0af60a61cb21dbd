package scheduler_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/lease"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// An insert during the very first scan of a partition lies within the high-water mark that the scan is to
// reach: it is hinted.
func TestAnInsertDuringTheFirstScanIsOnTime(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		w.parts.all = []task.Partition{low}
		s := w.start()
		var inserted task.Task
		w.rows.during = func(p task.Partition) {
			inserted = w.waiting(p, 2*time.Second)
			s.Added(&inserted)
		}
		w.parts.set(low, high)
		w.advance(3 * time.Second)
		w.wantOnTime(inserted)
	})
}

// The task of a backfill has a task row from the beginning, so that it is not sent as if it had none: the
// first claim would be refused by its own row.
func TestATaskOfABackfillIsOnTime(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		s := w.start()
		w.advance(time.Second)
		filled := w.next(low, time.Second)
		filled.Wake = filled.Due
		filled.Occurrence = &task.Occurrence{Cron: "nightly", Life: 1, At: task.Firing{Revision: 1, Nominal: 1}, Backfill: true}
		ops := store.FirstWithRow(filled)
		w.apply(ops...)
		s.Added(&ops[0].Task)
		w.advance(3 * time.Second)
		w.wantOnTime(filled)
		if n := w.sent.counted(&w.sent.refused); n != 0 {
			t.Errorf("%d orders were refused by the task's own row", n)
		}
	})
}

// awayLeases is a book whose calls get no answer while it is away.
type awayLeases struct {
	*lease.Book

	away atomic.Bool
}

func (a *awayLeases) Look(ctx context.Context, worker string) (lease.Lease, error) {
	if a.away.Load() {
		return lease.Lease{}, store.ErrUnreachable
	}
	return a.Book.Look(ctx, worker)
}

// After an outage workers get the time to renew their leases, and what is taken back of those that do not
// goes by a ramp.
func TestAfterAnOutageTasksAreTakenBackAtALimitedRate(t *testing.T) {
	inWorld(t, 10_000, func(w *world) {
		leases := &awayLeases{Book: w.leases}
		w.marks = leases
		const n, perSecond = 700, 200
		lost, back := w.openLease(15*time.Second), w.openLease(15*time.Second)
		kept := w.running(low, back.Worker)
		for range n {
			w.running(high, lost.Worker)
		}
		w.start()
		w.advance(5 * time.Second)
		leases.away.Store(true)
		w.rows.setAway(true)
		w.advance(time.Minute)
		leases.away.Store(false)
		w.rows.setAway(false)
		w.advance(10 * time.Second) // less than three heartbeats
		if len(w.lost) > 0 {
			t.Errorf("%v lost before they had the time to renew their leases", w.lost)
		}
		if _, err := w.leases.Renew(w.ctx, back.Worker); err != nil {
			t.Fatal(err)
		}
		taken, most := 0, 0
		for range 30 {
			before := taken
			w.advance(time.Second)
			if taken = w.takenBack(); taken-before > most {
				most = taken - before
			}
			if _, err := w.leases.Renew(w.ctx, back.Worker); err != nil {
				t.Fatal(err)
			}
		}
		if taken != n || most > 2*perSecond {
			t.Errorf("%d of %d tasks taken back, up to %d in a second; want at most %d at first", taken, n, most, perSecond)
		}
		if row := w.read(kept.ID); row.State != task.Processing {
			t.Errorf("the task of a worker that came back is %s", row.State)
		}
	})
}

// takenBack is how many tasks were taken back from lost workers.
func (w *world) takenBack() (n int) {
	w.note(func() {
		for _, kind := range w.waked {
			if kind == task.WorkerLost {
				n++
			}
		}
	})
	return n
}

// A read of task rows that fails leaves its tasks to the next round, and not to the next read-ahead.
func TestAReadThatFailsForgetsNoTask(t *testing.T) {
	inWorld(t, depth, func(w *world) {
		keyed := w.awake(high, 2*time.Second, func(*task.Task) {})
		w.start()
		w.advance(1500 * time.Millisecond)
		w.rows.mu.Lock()
		w.rows.away = true
		w.rows.mu.Unlock()
		w.advance(time.Second)
		if _, ok := w.dispatched(keyed); ok {
			t.Fatal("dispatched without a look at its row")
		}
		w.rows.setAway(false)
		w.advance(1500 * time.Millisecond) // a second before the next read-ahead
		if at, ok := w.dispatched(keyed); !ok {
			t.Errorf("not dispatched %v after it was due (%v)", w.clock.Now().Sub(keyed.Due), at)
		}
	})
}
