package pebble_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/store/pebble"
	"github.com/kinesin-io/kinesin/task"
)

// TestAChainIsOneCommit checks that the writes of a new task with a task row, of a move and of an end share
// one commit, and one sync.
func TestAChainIsOneCommit(t *testing.T) {
	var mu sync.Mutex
	var groups []int // rows of each
	d := openOn(t, vfs.NewMem(), pebble.Config{Observer: pebble.Observer{Synced: func(_ time.Duration, rows int) {
		mu.Lock()
		defer mu.Unlock()
		groups = append(groups, rows)
	}}})
	one := crashTask(1, 0)
	moved, ended := one, one
	moved.Seq, moved.State, moved.Wake = 2, task.RetriableFailure, movedTo
	ended.Seq, ended.State, ended.Wake, ended.Ended, ended.ExpireAt = 3, task.Dead, 0, 7_000, 9_000
	ended.WakeRow = task.WakeRow{At: movedTo, Seq: 2}
	for _, ops := range [][]store.Op{store.FirstWithRow(one), store.Change(moved, true, false), store.Change(ended, false, false)} {
		applyOK(t, d, ops)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if want := []int{2, 3, 2}; !slices.Equal(groups, want) {
		t.Errorf("groups of %v rows, want %v", groups, want)
	}
}

// crashCopies keeps what a crash could leave on the disk at each write to the log.
type crashCopies struct {
	files *vfs.MemFS
	mu    sync.Mutex
	taken []*vfs.MemFS
}

// open opens the store. It takes a new log: of one that is used again no writes are seen.
func (c *crashCopies) open(t *testing.T) *pebble.Driver {
	t.Helper()
	return openOn(t, errorfs.Wrap(c.files, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".log") {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.taken = append(c.taken, c.copy())
		}
		return nil
	})), pebble.Config{})
}

func (c *crashCopies) copy() *vfs.MemFS {
	return c.files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(7, 8))})
}

// take returns the copies since it was last called, and what is on the disk now.
func (c *crashCopies) take() []*vfs.MemFS {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.taken
	c.taken = nil
	return append(all, c.copy())
}

// TestChainsAcrossGroups writes calls that are larger than a group, so that chains are cut. After a crash at
// any moment no live task may be without its wake-up row; and some of the crashes must be in between.
func TestChainsAcrossGroups(t *testing.T) {
	const tasks = 40
	copies := &crashCopies{files: vfs.NewCrashableMem()}
	row := func(n int) task.Task {
		one := crashTask(1, uint64(n)*stepsOfTask)
		one.Payload = make([]byte, 30<<10) // a group takes 256 KiB
		one.PayloadSize = uint32(len(one.Payload))
		return one
	}
	var first, moves, ends []store.Op
	for n := range tasks {
		one := row(n)
		first = append(first, store.FirstWithRow(one)...)
		one.Seq, one.State, one.Wake = 2, task.RetriableFailure, movedTo
		moves = append(moves, store.Change(one, true, false)...)
		one.Seq, one.State, one.Wake, one.Ended, one.ExpireAt = 3, task.Dead, 0, 7_000, 9_000
		one.WakeRow = task.WakeRow{At: movedTo, Seq: 2}
		ends = append(ends, store.Change(one, false, false)...)
	}
	for _, call := range []struct {
		what string
		ops  []store.Op
	}{{"first", first}, {"move", moves}, {"end", ends}} {
		d := copies.open(t)
		copies.take()
		applyOK(t, d, call.ops)
		between := 0
		taken := copies.take()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		for _, files := range taken {
			between += checkChains(t, call.what, files, tasks)
		}
		if between == 0 {
			t.Errorf("%s: of %d crashes none was between the writes of a chain", call.what, len(taken))
		}
	}
}

// checkChains returns how many tasks have a wake-up row more than they need.
func checkChains(t *testing.T, what string, files *vfs.MemFS, tasks int) (spare int) {
	t.Helper()
	d := openOn(t, files, pebble.Config{})
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	for n := range tasks {
		one := crashTask(1, uint64(n)*stepsOfTask)
		rows, err := d.Tasks(t.Context(), []task.ID{one.ID})
		if err != nil {
			t.Fatal(err)
		}
		named := rows[0]
		if named.ID.IsZero() {
			named = one
		}
		wakeups, err := d.Wakeups(t.Context(), []store.WakeKey{
			store.KeyOf(&named), {Partition: crashPart, Wake: one.Due, ID: one.ID}, {Partition: crashPart, Wake: movedTo, ID: one.ID},
		})
		if err != nil {
			t.Fatal(err)
		}
		live := !rows[0].ID.IsZero() && !rows[0].State.IsEnd()
		if live && wakeups[0].WakeRow != rows[0].WakeRow {
			t.Errorf("%s: task %d is %s at %+v, its wake-up row %+v", what, n, rows[0].State, rows[0].WakeRow, wakeups[0].WakeRow)
		}
		for _, w := range wakeups[1:] {
			if !w.ID.IsZero() {
				spare++
			}
		}
		if live {
			spare--
		}
	}
	return spare
}

// TestLazyChainsAreAnsweredWhole sends more chains of lazy writes than fit a group: all are visible with the
// answer.
func TestLazyChainsAreAnsweredWhole(t *testing.T) {
	const tasks = 40
	d := openMem(t)
	var ops []store.Op
	for n := range tasks {
		one := crashTask(1, uint64(n)*stepsOfTask)
		one.Payload = make([]byte, 30<<10)
		one.PayloadSize = uint32(len(one.Payload))
		ops = append(ops, store.FirstWithRow(one)...)
	}
	for i := range ops {
		ops[i].Lazy = true
	}
	applyOK(t, d, ops)
	rows, err := d.ScanSchedule(t.Context(), crashPart, store.WakeKey{}, 1<<62, 2*tasks)
	if err != nil || len(rows) != tasks {
		t.Errorf("%d wake-up rows, %v", len(rows), err)
	}
	for i := range rows {
		if found, err := d.Tasks(t.Context(), []task.ID{rows[i].ID}); err != nil || found[0].ID.IsZero() {
			t.Errorf("the last row of a chain is not there: %v", err)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestSkippedAcrossGroups cuts chains some of which fail in their first write: what follows those is not
// done.
func TestSkippedAcrossGroups(t *testing.T) {
	const tasks = 40
	d := openMem(t)
	var ops, want []store.Op
	for n := range tasks {
		one := crashTask(1, uint64(n)*stepsOfTask)
		one.Payload = make([]byte, 30<<10)
		one.PayloadSize = uint32(len(one.Payload))
		if n%3 == 0 {
			applyOK(t, d, store.First(one))
		}
		want = append(want, store.Op{Kind: store.PutTask, Task: one})
		ops = append(ops, store.Op{Kind: store.ReplaceWakeup, Task: one}, store.Op{Kind: store.PutTask, Task: one, Follows: true})
		ops[len(ops)-2].Task.Seq, ops[len(ops)-2].Task.WakeRow.Seq = 2, 2
	}
	results, err := d.Apply(t.Context(), ops)
	if err != nil {
		t.Fatal(err)
	}
	for n := range tasks {
		rows, err := d.Tasks(t.Context(), []task.ID{want[n].Task.ID})
		if err != nil {
			t.Fatal(err)
		}
		holds := n%3 == 0
		if done := !rows[0].ID.IsZero(); done != holds || (results[2*n] == nil) != holds || errors.Is(results[2*n+1], store.ErrSkipped) == holds {
			t.Errorf("task %d: %v, then %v, there is a row: %v", n, results[2*n], results[2*n+1], done)
		}
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestDeletedWakeupsStayDeleted puts, replaces and deletes a few wake-up rows, while data files are written
// and merged: a tombstone for one Set in the wrong place would bring back an older row.
func TestDeletedWakeupsStayDeleted(t *testing.T) {
	ctx := t.Context()
	rapid.Check(t, func(rt *rapid.T) {
		model, d := mem.New(), openMem(t)
		defer func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}()
		both := func(ops ...store.Op) {
			want, _ := model.Apply(ctx, ops)
			got, err := d.Apply(ctx, ops)
			if err != nil || fmt.Sprint(want) != fmt.Sprint(got) {
				rt.Fatalf("%+v: got %v, %v, want %v", ops, got, err, want)
			}
		}
		draw := func(rt *rapid.T) task.Task {
			one := crashTask(rapid.IntRange(1, 2).Draw(rt, "id"), 0)
			one.WakeRow = task.WakeRow{At: 1_000, Seq: uint64(rapid.IntRange(1, 4).Draw(rt, "seq"))}
			one.Seq = one.WakeRow.Seq
			return one
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put":     func(rt *rapid.T) { both(store.Op{Kind: store.PutWakeup, Task: draw(rt)}) },
			"replace": func(rt *rapid.T) { both(store.Op{Kind: store.ReplaceWakeup, Task: draw(rt)}) },
			"delete": func(rt *rapid.T) {
				one := draw(rt)
				if rapid.Bool().Draw(rt, "whatever it is") {
					one.WakeRow.Seq = 0
				}
				both(store.Op{Kind: store.DeleteWakeup, Task: one})
			},
			"sweep": func(rt *rapid.T) {
				one := draw(rt)
				one.State, one.Wake, one.Ended, one.ExpireAt = task.Success, 0, 2_000, 3_000
				both(store.Op{Kind: store.PutTask, Task: one})
				want, _ := model.Sweep(ctx, 3_000, 10)
				if got, err := d.Sweep(ctx, 3_000, 10); err != nil || got != want {
					rt.Fatalf("swept %d, %v, want %d", got, err, want)
				}
			},
			"flush": func(rt *rapid.T) {
				if err := pebble.Flush(d); err != nil {
					rt.Fatal(err)
				}
			},
			"compact": func(rt *rapid.T) {
				if err := pebble.Compact(ctx, d); err != nil {
					rt.Fatal(err)
				}
			},
			"": func(rt *rapid.T) {
				want, _ := model.ScanSchedule(ctx, crashPart, store.WakeKey{}, 1<<62, 10)
				got, err := d.ScanSchedule(ctx, crashPart, store.WakeKey{}, 1<<62, 10)
				if err != nil || !slices.EqualFunc(want, got, func(a, b task.Task) bool { return a.ID == b.ID && a.WakeRow == b.WakeRow }) {
					rt.Fatalf("got %+v, %v, want %+v", got, err, want)
				}
			},
		})
	})
}
