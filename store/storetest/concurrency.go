package storetest

import (
	"errors"
	"maps"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// testOneRacerWins lets several callers write the same row. Exactly one succeeds in each round.
func testOneRacerWins(_ *testing.T, f *fixture) {
	const racers, rounds = 4, 100
	one := newTask(1, partA, at(1))
	step := func(round, racer int) []store.Op {
		row := one
		row.Seq, row.Attempt, row.Wake = uint64(round+1), uint32(racer), at(round+1)
		kind := store.ReplaceTask
		if round == 0 {
			kind = store.PutTask
		}
		// The rows differ, so that a caller whose answer was lost recognises its own row when it reads it
		// back.
		mine := []byte{byte('a' + racer)}
		c := store.Control{Kind: "lease", Name: "n", Version: uint64(round + 1), Value: mine}
		wakeup := newTask(1000+round, partA, at(1))
		wakeup.Payload, wakeup.PayloadSize = mine, 1
		taken := newTask(998, partA, at(1))
		taken.Seq, taken.State, taken.Worker = uint64(round+2), task.Acquired, string(rune('a'+racer))
		taken.WakeRow.Seq = taken.Seq
		return []store.Op{
			put(kind, row),
			{Kind: store.PutControl, Control: c},
			put(store.PutWakeup, wakeup),
			put(store.DeleteWakeup, newTask(999+round, partA, at(1))), put(store.ReplaceWakeup, taken),
		}
	}
	f.apply(put(store.PutWakeup, newTask(998, partA, at(1))))
	f.apply(put(store.PutWakeup, newTask(999, partA, at(1))))
	for round := range rounds {
		var wins [5]atomic.Int32
		var wg sync.WaitGroup
		for racer := range racers {
			wg.Go(func() {
				results, err := f.d.Apply(f.Context(), step(round, racer))
				if err != nil {
					f.Errorf("apply: %v", err)
					return
				}
				for i, err := range results {
					switch {
					case err == nil:
						wins[i].Add(1)
					case !errors.Is(err, store.ErrConflict):
						f.Errorf("op %d: %v", i, err)
					}
				}
			})
		}
		wg.Wait()
		for i := range wins {
			if n := wins[i].Load(); n != 1 {
				f.Fatalf("round %d: %d callers won op %d", round, n, i)
			}
		}
	}
}

// testConcurrentQueue inserts and drains one partition at the same time. Every row is scanned and deleted
// once.
func testConcurrentQueue(_ *testing.T, f *fixture) {
	const writers, each = 4, 300
	var inserted, writing atomic.Int64
	writing.Store(writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			defer writing.Add(-1)
			for i := range each {
				n := w*each + i
				row := newTask(n, partA, at(1+(n*7919)%1000)) // anywhere, before the head too
				if results, err := f.d.Apply(f.Context(), []store.Op{put(store.PutWakeup, row)}); err != nil || results[0] != nil {
					f.Errorf("insert: %v, %v", results, err)
				}
				inserted.Add(1)
			}
		})
	}
	seen := map[task.ID]int{}
	for {
		quiet := writing.Load() == 0 // before the scan, so that an empty one then is the end
		rows := f.scan(partA, store.WakeKey{}, forever, 16)
		if len(rows) == 0 && quiet {
			break
		}
		for i := range rows {
			seen[rows[i].ID]++
			f.apply(store.Op{Kind: store.DeleteWakeup, Task: rows[i], Lazy: i%2 == 0})
		}
		runtime.Gosched()
	}
	wg.Wait()
	if len(seen) != writers*each {
		f.Errorf("%d of %d rows were scanned", len(seen), inserted.Load())
	}
	for id, n := range seen {
		if n != 1 {
			f.Errorf("%s was scanned %d times", id, n)
		}
	}
}

func testDepths(t *testing.T, f *fixture) {
	t.Helper()
	depths := f.d.Capabilities().Depths
	if depths == nil {
		t.Skip("driver keeps no counts")
	}
	expect := func(what string, want map[task.Partition]store.Depth) {
		t.Helper()
		got, ready := depths()
		for !ready {
			runtime.Gosched()
			got, ready = depths()
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", what, got, want)
		}
	}
	expect("empty", map[task.Partition]store.Depth{})
	one, two, keyed := newTask(1, partA, at(1)), newTask(2, partA, at(2)), newTask(3, partB, at(1))
	f.apply(put(store.PutWakeup, one), put(store.PutWakeup, two))
	f.apply(store.FirstWithRow(keyed)...)
	f.refuse(put(store.PutWakeup, one))
	expect("three tasks", map[task.Partition]store.Depth{partA: {task.Scheduled: 2}, partB: {task.Scheduled: 1}})
	enqueued := next(one, task.Enqueued, at(9))
	f.apply(put(store.PutTask, enqueued))
	f.refuse(put(store.PutTask, enqueued))
	expect("dispatched", map[task.Partition]store.Depth{partA: {task.Scheduled: 1, task.Enqueued: 1}, partB: {task.Scheduled: 1}})
	claimed := next(enqueued, task.Claimed, at(12))
	f.apply(put(store.ReplaceTask, claimed))
	expect("claimed", map[task.Partition]store.Depth{partA: {task.Scheduled: 1, task.Claimed: 1}, partB: {task.Scheduled: 1}})
	running := next(claimed, task.Processing, claimed.Wake) // the wake-up stays where it is
	f.apply(put(store.ReplaceTask, running))
	f.refuse(put(store.ReplaceTask, running))
	expect("started", map[task.Partition]store.Depth{partA: {task.Scheduled: 1, task.Processing: 1}, partB: {task.Scheduled: 1}})
	failed := next(running, task.RetriableFailure, at(40))
	f.apply(store.Change(failed, true, false)...)
	failed = f.task(failed.ID)
	expect("moved", map[task.Partition]store.Depth{partA: {task.Scheduled: 1, task.RetriableFailure: 1}, partB: {task.Scheduled: 1}})
	f.apply(append(store.Change(ended(failed, task.Success, at(13), at(50)), false, false), put(store.DeleteWakeup, two))...)
	expect("ended", map[task.Partition]store.Depth{partB: {task.Scheduled: 1}})
	f.sweep(forever, 10)
	expect("swept", map[task.Partition]store.Depth{partB: {task.Scheduled: 1}})
	four := newTask(4, partA, at(1))
	f.apply(put(store.PutWakeup, four), put(store.ReplaceWakeup, acquired(four, "p1")))
	f.refuse(put(store.ReplaceWakeup, acquired(four, "p2")))
	expect("acquired", map[task.Partition]store.Depth{partA: {task.Acquired: 1}, partB: {task.Scheduled: 1}})
	f.apply(put(store.DeleteWakeup, acquired(four, "p1")))
	expect("delivered", map[task.Partition]store.Depth{partB: {task.Scheduled: 1}})
	near := next(newTask(5, partA, at(1)), task.Claimed, at(9))
	f.apply(store.FirstWithRow(near)...)
	expect("claimed at once", map[task.Partition]store.Depth{partA: {task.Claimed: 1}, partB: {task.Scheduled: 1}})
	f.apply(put(store.ReplaceTask, ended(near, task.Success, at(13), at(50)))) // the wake-up row was left behind
	f.sweep(forever, 10)
	expect("swept with its wake-up row", map[task.Partition]store.Depth{partB: {task.Scheduled: 1}})
}
