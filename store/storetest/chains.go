package storetest

import (
	"errors"
	"reflect"
	"testing"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// outcomes checks the result of each op: nil, ErrConflict or ErrSkipped.
func (f *fixture) outcomes(what string, results []error, want ...error) {
	f.Helper()
	for i := range want {
		if !errors.Is(results[i], want[i]) {
			f.Errorf("%s: op %d: got %v, want %v", what, i, results[i], want[i])
		}
	}
}

// testChains checks when an op that follows another is tried.
func testChains(_ *testing.T, f *fixture) {
	one := newTask(1, partA, at(10))
	conflict, skipped := store.ErrConflict, store.ErrSkipped
	f.apply(store.FirstWithRow(one)...)
	f.outcomes("stored again", f.try(store.FirstWithRow(one)...), conflict, conflict)

	two := newTask(2, partA, at(10))
	f.apply(put(store.PutWakeup, two))
	f.outcomes("after a row in place", f.try(store.FirstWithRow(two)...), conflict, nil)
	if got := f.task(two.ID); !reflect.DeepEqual(got, two) {
		f.Errorf("what followed a row in place is %+v", got)
	}

	three := newTask(3, partA, at(10))
	f.apply(put(store.PutWakeup, bare(three, at(10), 5)))
	f.outcomes("after a newer row in place", f.try(put(store.PutWakeup, three), then(store.PutTask, three), then(store.DeleteWakeup, bare(three, at(10), 5))), conflict, nil, nil)

	f.outcomes("after a refused put", f.try(put(store.PutTask, one), then(store.DeleteWakeup, one)), conflict, skipped)
	stale := next(next(one, task.Enqueued, at(20)), task.RetriableFailure, at(30))
	f.outcomes("after a refused replacement", f.try(store.Change(stale, true, false)...), nil, conflict, skipped)
	if f.wakeup(one).ID.IsZero() || f.wakeup(named(one, at(30), 3)).ID.IsZero() {
		f.Error("a skipped delete was done, or the put before it was not")
	}
	f.outcomes("after a skipped op", f.try(put(store.PutTask, one), then(store.PutWakeup, bare(one, at(77), 9)), then(store.DeleteWakeup, one)), conflict, skipped, skipped)
	if !f.wakeup(bare(one, at(77), 9)).ID.IsZero() || f.wakeup(one).ID.IsZero() {
		f.Error("a skipped op was done")
	}
	f.outcomes("after a refused delete", f.try(put(store.DeleteWakeup, bare(one, at(99), 9)), then(store.ReplaceTask, next(one, task.Enqueued, at(20)))), conflict, skipped)
	f.outcomes("after refused ones", f.try(put(store.ReplaceWakeup, acquired(acquired(one, "p"), "p")), then(store.DeleteWakeup, one)), conflict, skipped)
	if got := f.task(one.ID); !reflect.DeepEqual(got, one) {
		f.Errorf("the task row is %+v, want it as it was put", got)
	}
}

// testChainsInOneCall checks that chains of one call are applied in order, and that one that fails does not
// affect the others.
func testChainsInOneCall(_ *testing.T, f *fixture) {
	one, two, three := newTask(1, partA, at(10)), newTask(2, partB, at(10)), newTask(3, partA, at(10))
	conflict, skipped := store.ErrConflict, store.ErrSkipped
	f.apply(store.FirstWithRow(two)...)
	ops := append(store.FirstWithRow(one), put(store.PutTask, two), then(store.DeleteWakeup, two))
	ops = append(ops, store.FirstWithRow(three)...)
	f.outcomes("beside a refused one", f.try(ops...), nil, nil, conflict, skipped, nil, nil)

	away := next(one, task.RetriableFailure, at(50))
	back := next(named(away, at(50), 2), task.RetriableFailure, at(10))
	ops = append(store.Change(away, true, false), store.Change(back, true, false)...)
	f.outcomes("there and back again", f.try(ops...), nil, nil, nil, nil, nil, nil)
	back.WakeRow = task.WakeRow{At: at(10), Seq: 3}
	if got := f.task(one.ID); !reflect.DeepEqual(got, back) || f.wakeup(one).WakeRow != back.WakeRow {
		f.Errorf("got %+v, want %+v; the wake-up row is %+v", got, back, f.wakeup(one))
	}
	over := ended(back, task.Success, at(60), at(100))
	ops = append(store.Change(over, false, true), store.Change(over, false, true)...)
	ops = append(ops, put(store.PutWakeup, one), then(store.PutTask, one), then(store.DeleteWakeup, one))
	f.outcomes("ended twice, and a late duplicate", f.try(ops...), nil, nil, conflict, skipped, nil, conflict, skipped)
	f.want("what is left", f.scan(partA, store.WakeKey{}, forever, 10), 1, 3)
	if got := f.task(one.ID); !reflect.DeepEqual(got, over) {
		f.Errorf("got %+v, want %+v", got, over)
	}
}
