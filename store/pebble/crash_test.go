package pebble_test

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/pebble"
	"github.com/kinesin-io/kinesin/task"
)

// TestCrashLosesNothingAcknowledged takes the plug out at random moments, while several callers walk
// tasks through their lives. Whatever was acknowledged before must be in what is left on
// the disk, nothing may be there that was never asked for, and the indexes must fit the rows.
func TestCrashLosesNothingAcknowledged(t *testing.T) {
	crashes := 40
	if testing.Short() {
		crashes = 10
	}
	files := vfs.NewCrashableMem()
	d := openOn(t, files, pebble.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	w := &walkers{d: d}
	var running sync.WaitGroup
	for n := range walkersMax {
		running.Go(func() { w.walk(ctx, t, n) })
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range crashes {
		w.allowed.Store(uint64(n+1) * stepsPerCrash)
		w.waitFor(uint64(n) * stepsPerCrash * walkersMax)
		acked := w.snapshot(func(w *walker) uint64 { return w.acked.Load() })
		clone := files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(3) * 50, RNG: rng})
		asked := w.snapshot(func(w *walker) uint64 { return w.asked.Load() })
		checkSurvivor(t, clone, acked, asked)
	}
	cancel()
	running.Wait()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	all := w.snapshot(func(w *walker) uint64 { return w.acked.Load() })
	checkSurvivor(t, files, all, all)
}

const (
	walkersMax  = 4
	stepsOfTask = 6 // writes in a life
	// stepsPerCrash bounds how far a walker gets between two crashes.
	stepsPerCrash = 13
)

// walkers write; each one its own tasks, one write after the other. Step n of a walker is write
// n%stepsOfTask of its task n/stepsOfTask.
type walkers struct {
	d       *pebble.Driver
	allowed atomic.Uint64 // steps of each
	walkers [walkersMax]walker
}

type walker struct {
	asked, acked atomic.Uint64 // number of steps
}

func (w *walkers) snapshot(get func(*walker) uint64) (steps [walkersMax]uint64) {
	for i := range w.walkers {
		steps[i] = get(&w.walkers[i])
	}
	return steps
}

// waitFor returns when all walkers together have taken that many steps; they are allowed more.
func (w *walkers) waitFor(total uint64) {
	for sum := uint64(0); sum < total; {
		sum = 0
		for _, n := range w.snapshot(func(w *walker) uint64 { return w.acked.Load() }) {
			sum += n
		}
		runtime.Gosched()
	}
}

func (w *walkers) walk(ctx context.Context, t *testing.T, n int) {
	t.Helper()
	me := &w.walkers[n]
	for ctx.Err() == nil {
		if me.asked.Load() >= w.allowed.Load() {
			runtime.Gosched()
			continue
		}
		step := me.asked.Add(1) - 1
		results, err := w.d.Apply(context.Background(), []store.Op{stepOp(n, step)})
		if err != nil || results[0] != nil {
			t.Errorf("walker %d, step %d: %v, %v", n, step, results, err)
			return
		}
		me.acked.Add(1)
	}
}

var crashPart = task.Partition{Lambda: 3}

func crashTask(walker int, step uint64) task.Task {
	n := step / stepsOfTask
	t := task.Task{Partition: crashPart, State: task.Scheduled, Seq: 1, Due: task.Instant(n%50+1) * 1000, Wake: 1000, Payload: []byte("some payload"), PayloadSize: 12}
	binary.BigEndian.PutUint64(t.ID[:], uint64(walker))
	binary.BigEndian.PutUint64(t.ID[8:], n+1)
	return t
}

func stepOp(walker int, step uint64) store.Op {
	t := crashTask(walker, step)
	op := store.Op{Kind: store.ReplaceTask, Task: t, Patient: walker%2 == 1}
	switch step % stepsOfTask {
	case 0:
		op.Kind = store.PutWaiting
	case 1:
		op.Kind = store.ReplaceWaiting
		op.Task.State, op.Task.Seq = task.Acquired, 2
	case 2:
		op.Kind = store.PutTask
		op.Task.State, op.Task.Wake = task.Enqueued, 5000
	case 3:
		op.Kind = store.DeleteWaiting
		op.Task.Seq = 2
	case 4:
		op.Task.State, op.Task.Seq, op.Task.Wake = task.Claimed, 2, 6000
	case 5:
		op.Task.State, op.Task.Seq, op.Task.Wake, op.Task.Ended, op.Task.ExpireAt = task.Dead, 3, 0, 7000, 9000
	}
	return op
}

// checkSurvivor opens what a crash left and compares it with what was acknowledged before it and
// asked for until after it.
func checkSurvivor(t *testing.T, files *vfs.MemFS, acked, asked [walkersMax]uint64) {
	t.Helper()
	d := openOn(t, files, pebble.Config{})
	defer func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}()
	for n := range walkersMax {
		checkWalker(t, d, n, acked[n], asked[n])
	}
	checkIndexes(t, d)
}

func checkWalker(t *testing.T, d *pebble.Driver, n int, acked, asked uint64) {
	t.Helper()
	var ids []task.ID
	var keys []store.WaitingKey
	for first := uint64(0); first < asked; first += stepsOfTask {
		row := crashTask(n, first)
		ids, keys = append(ids, row.ID), append(keys, store.KeyOf(&row))
	}
	rows, err := d.Tasks(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	waiting, err := d.Waiting(t.Context(), keys)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		first := uint64(i) * stepsOfTask
		done := stepsDone(&waiting[i], &rows[i])
		if must := min(acked-min(acked, first), stepsOfTask); done < must {
			t.Errorf("walker %d, task %d: %d writes are left of %d acknowledged", n, i, done, must)
		}
		if may := min(asked-first, stepsOfTask); done > may {
			t.Errorf("walker %d, task %d: %d writes of %d asked for", n, i, done, may)
		}
	}
}

// stepsDone tells from the rows of a task how far it is.
func stepsDone(waiting, row *task.Task) uint64 {
	switch {
	case row.State == task.Dead:
		return 6
	case row.State == task.Claimed:
		return 5
	case row.State == task.Enqueued && waiting.ID.IsZero():
		return 4
	case row.State == task.Enqueued:
		return 3
	case waiting.State == task.Acquired:
		return 2
	case !waiting.ID.IsZero():
		return 1
	}
	return 0
}

// checkIndexes compares the list of dead letters and the wake-ups with each other by way of the rows: a
// row is in exactly one of the two.
func checkIndexes(t *testing.T, d *pebble.Driver) {
	t.Helper()
	var cursor []byte
	for {
		rows, more, err := d.ScanEnded(t.Context(), &crashPart, task.Dead, cursor, 100)
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			if rows[i].State != task.Dead || rows[i].Seq != 3 {
				t.Errorf("dead letter %+v", rows[i])
			}
		}
		if cursor = more; len(cursor) == 0 {
			break
		}
	}
	rows, err := d.ScanWakeups(t.Context(), crashPart, store.WakeKey{}, 1<<62, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) > walkersMax {
		t.Errorf("%d tasks have a wake-up, want at most one of each walker", len(rows))
	}
}

// TestLazyWritesSurviveInOrder checks that after a crash a lazy write is lost only with all
// writes after it: the log is one.
func TestLazyWritesSurviveInOrder(t *testing.T) {
	files := vfs.NewCrashableMem()
	d := openOn(t, files, pebble.Config{})
	first, second := crashTask(1, 0), crashTask(2, 0)
	for _, op := range []store.Op{{Kind: store.PutTask, Task: first, Lazy: true}, {Kind: store.PutTask, Task: second}} {
		if results, err := d.Apply(t.Context(), []store.Op{op}); err != nil || results[0] != nil {
			t.Fatal(results, err)
		}
	}
	survivor := openOn(t, files.CrashClone(vfs.CrashCloneCfg{}), pebble.Config{})
	rows, err := survivor.Tasks(t.Context(), []task.ID{first.ID, second.ID})
	if err != nil || rows[0].ID.IsZero() || rows[1].ID.IsZero() {
		t.Errorf("%v, %v: a synced write survives with the lazy one before it", rows, err)
	}
	for _, d := range []*pebble.Driver{d, survivor} {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
