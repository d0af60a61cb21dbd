package pebble_test

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/pebble"
	"github.com/kinesin-io/kinesin/task"
)

// TestSeenHeadersAreNeverWrong has several callers read the same rows, all at a time, and replace some of
// them. Of those who replace the same seq one wins, also when what the committer remembers is small.
func TestSeenHeadersAreNeverWrong(t *testing.T) {
	for _, generation := range []int{1, 4, 16, 200} {
		d := openOn(t, vfs.NewMem(), pebble.WithFreshRows(pebble.Config{}, generation))
		const tasks, callers, rounds = 40, 6, 60
		ids := make([]task.ID, tasks)
		ops := make([]store.Op, tasks)
		for i := range ids {
			row := markTask(i)
			row.Seq = 1
			ids[i], ops[i] = row.ID, store.Op{Kind: store.PutTask, Task: row}
		}
		if _, err := d.Apply(t.Context(), ops); err != nil {
			t.Fatal(err)
		}
		var wins [tasks]atomic.Uint64
		var group sync.WaitGroup
		for range callers {
			group.Go(func() {
				for range rounds {
					replaceSome(t, d, ids, &wins)
				}
			})
		}
		group.Wait()
		rows, err := d.Tasks(t.Context(), ids)
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			if rows[i].Seq != 1+wins[i].Load() {
				t.Errorf("generations of %d: row %d is at seq %d after %d replacements", generation, i, rows[i].Seq, wins[i].Load())
			}
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}

func replaceSome(t *testing.T, d *pebble.Driver, ids []task.ID, wins *[40]atomic.Uint64) {
	t.Helper()
	rows, err := d.Tasks(t.Context(), ids)
	if err != nil {
		t.Error(err)
		return
	}
	var ops []store.Op
	var of []int
	for i := range rows {
		if rand.IntN(3) == 0 {
			next := rows[i]
			next.Seq++
			ops, of = append(ops, store.Op{Kind: store.ReplaceTask, Task: next}), append(of, i)
		}
	}
	results, err := d.Apply(t.Context(), ops)
	if err != nil {
		t.Error(err)
		return
	}
	for k, err := range results {
		switch {
		case err == nil:
			wins[of[k]].Add(1)
		case !errors.Is(err, store.ErrConflict):
			t.Error(err)
		}
	}
}
