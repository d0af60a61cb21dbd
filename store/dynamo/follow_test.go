package dynamo_test

import (
	"errors"
	"testing"
	"testing/synctest"

	"github.com/kinesin-io/kinesin/internal/awsfake"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakedynamo"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/dynamo"
	"github.com/kinesin-io/kinesin/task"
)

// bareRow returns an op that puts a wake-up row with a seq and without its task.
func bareRow(p task.Partition, seq uint64) store.Op {
	t := wakeupRow(1, p, 0).Task
	bare := task.Task{ID: t.ID, Partition: p, Seq: seq, Wake: t.WakeRow.At, WakeRow: task.WakeRow{At: t.WakeRow.At, Seq: seq}}
	return store.Op{Kind: store.PutWakeup, Task: bare}
}

// beside adds writes of other rows, so that those of a test go in a batch.
func beside(in bool, ops ...store.Op) []store.Op {
	if in {
		ops = append(ops, wakeupRow(900, cold, 0), wakeupRow(901, cold, 0))
	}
	return ops
}

// TestPutWakeupReplacesALowerOne puts a row over rows with lower, equal and higher seqs, alone and in a
// batch.
func TestPutWakeupReplacesALowerOne(t *testing.T) {
	t.Parallel()
	for _, batch := range []bool{false, true} {
		db := newFakeDB(t, fakedynamo.Config{WriteUnits: -1})
		d := openOn(t, db, dynamo.Config{})
		for _, c := range []struct{ seq, left uint64 }{{3, 3}, {3, 3}, {2, 3}, {4, 4}, {9, 9}, {1, 9}} {
			op := bareRow(hot, c.seq)
			results, err := d.Apply(t.Context(), beside(batch, op))
			if err != nil {
				t.Fatal(err)
			}
			conflict, beaten := errors.AsType[*store.ConflictError](results[0])
			rows, err := d.Wakeups(t.Context(), []store.WakeKey{store.KeyOf(&op.Task)})
			if err != nil || rows[0].WakeRow.Seq != c.left || !rows[0].IsBare() {
				t.Errorf("after seq %d: %+v, %v; want seq %d", c.seq, rows, err, c.left)
			}
			if beaten && (conflict.Task == nil || conflict.Task.WakeRow.Seq != c.left) {
				t.Errorf("seq %d: conflict with %+v, want the row", c.seq, conflict.Task)
			}
			if won := results[0] == nil; won == beaten || (won && c.left != c.seq) {
				t.Errorf("seq %d: %v, left %d", c.seq, results[0], c.left)
			}
		}
	}
}

// TestFollows makes the op before fail in every way, alone and in a batch.
func TestFollows(t *testing.T) {
	t.Parallel()
	type setting struct {
		d  *dynamo.Driver
		db *fakedynamo.DB
	}
	first := bareRow(hot, 3)
	for name, c := range map[string]struct {
		prepare func(s setting, call string)
		op      store.Op // what is followed
		want    error
	}{
		"applied":        {nil, first, nil},
		"the same row":   {func(s setting, _ string) { put(t, s.d, bareRow(hot, 3)) }, first, nil},
		"a higher row":   {func(s setting, _ string) { put(t, s.d, bareRow(hot, 4)) }, first, nil},
		"a lower row":    {func(s setting, _ string) { put(t, s.d, bareRow(hot, 2)) }, first, nil},
		"conflict":       {nil, store.Op{Kind: store.ReplaceTask, Task: step(taskRow(1, hot, epoch).Task, task.Enqueued, epoch)}, store.ErrSkipped},
		"malformed":      {nil, store.Op{Kind: 99}, store.ErrSkipped},
		"denied":         {func(s setting, call string) { s.db.Faults.Next(call, awsfake.Denied, 1) }, first, store.ErrSkipped},
		"lost, not done": {func(s setting, call string) { s.db.Faults.Next(call, awsfake.LostRequest, 1) }, first, store.ErrUnknown},
		"lost, but done": {func(s setting, call string) { s.db.Faults.Next(call, awsfake.LostAnswer, 1) }, first, store.ErrUnknown},
	} {
		for call, batch := range map[string]bool{"PutItem": false, "BatchExecuteStatement": true} {
			db := newFakeDB(t, fakedynamo.Config{WriteUnits: -1})
			d := openOn(t, db, dynamo.Config{})
			if c.prepare != nil {
				c.prepare(setting{d, db}, call)
			}
			second, third := taskRow(7, hot, epoch), wakeupRow(8, hot, 0)
			second.Follows, third.Follows = true, true
			results, err := d.Apply(t.Context(), beside(batch, c.op, second, third))
			if err != nil {
				t.Fatal(err)
			}
			for _, result := range results[1:3] {
				if !errors.Is(result, c.want) || (c.want != nil && errors.Is(result, store.ErrConflict)) {
					t.Errorf("%s, %s: got %v, want %v", name, call, result, c.want)
				}
			}
			tasks, err1 := d.Tasks(t.Context(), []task.ID{second.Task.ID})
			rows, err2 := d.Wakeups(t.Context(), []store.WakeKey{store.KeyOf(&third.Task)})
			if err := errors.Join(err1, err2); err != nil {
				t.Fatal(err)
			}
			if tasks[0].ID.IsZero() != (c.want != nil) || rows[0].ID.IsZero() != (c.want != nil) {
				t.Errorf("%s, %s: %+v and %+v are there, want %v", name, call, tasks[0], rows[0], c.want)
			}
		}
	}
}

func put(t *testing.T, d *dynamo.Driver, ops ...store.Op) {
	t.Helper()
	results, err := d.Apply(t.Context(), ops)
	if err := errors.Join(append(results, err)...); err != nil {
		t.Fatal(err)
	}
}

// TestTheFirstOpFollowsNothing marks the first op of a call as one that follows.
func TestTheFirstOpFollowsNothing(t *testing.T) {
	t.Parallel()
	d := openOn(t, newFakeDB(t, fakedynamo.Config{}), dynamo.Config{})
	op := wakeupRow(1, hot, 0)
	op.Follows = true
	if results, err := d.Apply(t.Context(), []store.Op{op}); err != nil || !errors.Is(results[0], store.ErrSkipped) {
		t.Errorf("%v, %v; want that it was skipped", results, err)
	}
}

// TestWhatFollowsIsSentAfterTheAnswer delays the answers one by one.
func TestWhatFollowsIsSentAfterTheAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGate(t)
		d := openOn(t, g, dynamo.Config{})
		done := make(chan error, 1)
		go func() {
			live := taskRow(1, hot, epoch).Task
			results, err := d.Apply(t.Context(), store.FirstWithRow(live))
			done <- errors.Join(append(results, err)...)
		}()
		for range 2 {
			synctest.Wait()
			if n := len(g.arrived); n != 1 {
				t.Fatalf("%d requests are under way, want one after the other", n)
			}
			<-g.arrived
			g.pass <- struct{}{}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestOpsOnOneKeyThatFollow mixes ops on one key with ops that follow in one call.
func TestOpsOnOneKeyThatFollow(t *testing.T) {
	t.Parallel()
	d := openOn(t, newFakeDB(t, fakedynamo.Config{}), dynamo.Config{})
	row := taskRow(1, hot, epoch)
	second := store.Op{Kind: store.ReplaceTask, Task: step(row.Task, task.Enqueued, epoch), Follows: true}
	again := row // conflicts
	third := store.Op{Kind: store.ReplaceTask, Task: step(second.Task, task.Claimed, epoch), Follows: true}
	fourth := store.Op{Kind: store.ReplaceTask, Task: step(second.Task, task.Claimed, epoch)}
	results, err := d.Apply(t.Context(), []store.Op{row, second, again, third, fourth})
	if err != nil || results[0] != nil || results[1] != nil || !errors.Is(results[2], store.ErrConflict) || !errors.Is(results[3], store.ErrSkipped) || results[4] != nil {
		t.Errorf("%v, %v", results, err)
	}
	if rows, err := d.Tasks(t.Context(), []task.ID{row.Task.ID}); err != nil || rows[0].Seq != 3 {
		t.Errorf("%+v, %v", rows, err)
	}
}
