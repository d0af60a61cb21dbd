package pebble_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/store/pebble"
	"github.com/kinesin-io/kinesin/task"
)

// TestCrashLosesNothingAcknowledged cuts the power at random moments, while several callers walk tasks
// through their lives. All acknowledged writes must be on the disk, nothing may be there that no caller
// wrote, and the indexes must match the rows.
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
	stepsOfTask = 6 // calls in a life
	// stepsPerCrash bounds how far a walker gets between two crashes.
	stepsPerCrash = 13
)

// walkers write; each one its own tasks, one call after the other. Step n of a walker is call
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
		results, err := w.d.Apply(context.Background(), stepOps(n, step))
		if err != nil || errors.Join(results...) != nil {
			t.Errorf("walker %d, step %d: %v, %v", n, step, results, err)
			return
		}
		me.acked.Add(1)
	}
}

var crashPart = task.Partition{Lambda: 3}

func crashTask(walker int, step uint64) task.Task {
	n := step / stepsOfTask
	due := task.Instant(n%50+1) * 1000
	t := task.Task{
		Partition: crashPart, State: task.Scheduled, Seq: 1, Due: due, Wake: due, WakeRow: task.WakeRow{At: due, Seq: 1},
		Payload: []byte("some payload"), PayloadSize: 12,
	}
	binary.BigEndian.PutUint64(t.ID[:], uint64(walker))
	binary.BigEndian.PutUint64(t.ID[8:], n+1)
	return t
}

// movedTo is where the wake-up row of a task goes, and comes back from.
const movedTo = task.Instant(1_000_000)

// stepOps is one call in a life: every second task has a task row from the start, the others' wake-up row is
// acquired and dispatched later.
func stepOps(walker int, step uint64) []store.Op {
	t := crashTask(walker, step)
	due := t.Due
	var ops []store.Op
	early := step/stepsOfTask%2 == 0
	switch step % stepsOfTask {
	case 0:
		if ops = store.First(t); early {
			ops = store.FirstWithRow(t)
		}
	case 1:
		if t.Seq, t.State, t.Wake = 2, task.Claimed, 5_000; early {
			ops = store.Change(t, false, false)
			break
		}
		t.State, t.Wake, t.WakeRow.Seq = task.Acquired, due, 2
		ops = []store.Op{{Kind: store.ReplaceWakeup, Task: t}}
	case 2:
		if t.Seq, t.State, t.Wake = 3, task.Processing, 6_000; early {
			ops = store.Change(t, false, false)
			break
		}
		t.State, t.WakeRow.Seq = task.Enqueued, 2
		ops = []store.Op{{Kind: store.PutTask, Task: t}}
	case 3:
		t.Seq, t.State, t.Wake, t.WakeRow.Seq = 4, task.Scheduled, movedTo, namedSeq(early)
		ops = store.Change(t, true, false)
	case 4:
		t.Seq, t.State, t.Wake, t.WakeRow = 5, task.Scheduled, due, task.WakeRow{At: movedTo, Seq: 4}
		ops = store.Change(t, true, false)
	case 5:
		t.Seq, t.State, t.Wake, t.WakeRow.Seq = 6, task.Dead, 0, 5
		t.Ended, t.ExpireAt = 7_000, 9_000
		ops = store.Change(t, false, false)
	}
	for i := range ops {
		ops[i].Patient = walker%2 == 1
	}
	return ops
}

// namedSeq is the seq of the wake-up row of a task that was not moved.
func namedSeq(early bool) uint64 {
	if early {
		return 1
	}
	return 2
}

// checkSurvivor opens what a crash left and compares it with what was acknowledged before it and
// asked for until after it.
func checkSurvivor(t *testing.T, files *vfs.MemFS, acked, asked [walkersMax]uint64) {
	t.Helper()
	checkStore(t, openOn(t, files, pebble.Config{}), acked, asked)
}

// checkStore does the same with a store that is open, and closes it.
func checkStore(t *testing.T, d *pebble.Driver, acked, asked [walkersMax]uint64) {
	t.Helper()
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
	for first := uint64(0); first < asked; first += stepsOfTask {
		must, may := min(acked-min(acked, first), stepsOfTask), min(asked-first, stepsOfTask)
		got := rowsOf(t, d, n, first)
		if states := lifeOf(t, n, first); !slices.Contains(states[must:may+1], got) {
			t.Errorf("walker %d, task %d, %d calls acknowledged, %d asked for: after %d calls\n%s", n, first/stepsOfTask, must, may,
				slices.Index(states, got), got)
		}
	}
}

// lifeOf returns the rows of a task after each number of calls: chains are complete or absent.
func lifeOf(t *testing.T, walker int, first uint64) (states []string) {
	t.Helper()
	model := mem.New()
	for step := range uint64(stepsOfTask) {
		states = append(states, rowsOf(t, model, walker, first))
		if results, err := model.Apply(t.Context(), stepOps(walker, first+step)); err != nil || errors.Join(results...) != nil {
			t.Fatal(results, err)
		}
	}
	return append(states, rowsOf(t, model, walker, first))
}

// rowsOf has all rows of a task.
func rowsOf(t *testing.T, d store.Driver, walker int, step uint64) string {
	t.Helper()
	one := crashTask(walker, step)
	rows, err := d.Tasks(t.Context(), []task.ID{one.ID})
	if err != nil {
		t.Fatal(err)
	}
	wakeups, err := d.Wakeups(t.Context(), []store.WakeKey{
		store.KeyOf(&one), {Partition: crashPart, Wake: movedTo, ID: one.ID},
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%+v\n%+v", rows, wakeups)
}

// checkIndexes compares the list of dead letters and the schedule with the rows: a task that is not
// dead has exactly one wake-up row, and a dead one has none.
func checkIndexes(t *testing.T, d *pebble.Driver) {
	t.Helper()
	var cursor []byte
	for {
		rows, more, err := d.ScanEnded(t.Context(), &crashPart, task.Dead, cursor, 100)
		if err != nil {
			t.Fatal(err)
		}
		for i := range rows {
			if rows[i].State != task.Dead || rows[i].Seq != stepsOfTask {
				t.Errorf("dead letter %+v", rows[i])
			}
		}
		if cursor = more; len(cursor) == 0 {
			break
		}
	}
	rows, err := d.ScanSchedule(t.Context(), crashPart, store.WakeKey{}, 1<<62, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) > walkersMax {
		t.Errorf("%d wake-up rows, want at most one of each walker", len(rows))
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

// TestAGroupIsSyncedWhateverItsFirstRow acknowledges one durable write behind rows that need no sync: lazy
// ones, and some that are refused. They share a group, and the durable one has to be there after a crash.
func TestAGroupIsSyncedWhateverItsFirstRow(t *testing.T) {
	there, durable := crashTask(1, 0), crashTask(9, 0)
	refused, lazy := store.Op{Kind: store.PutTask, Task: there}, store.Op{Kind: store.PutTask, Task: crashTask(2, 0), Lazy: true}
	result := store.Op{Kind: store.PutTask, Task: durable}
	patient := result
	patient.Patient = true
	for name, ops := range map[string][]store.Op{
		"alone": {result}, "behind a refused one": {refused, result}, "before a refused one": {result, refused},
		"behind a lazy one": {lazy, result}, "before a lazy one": {result, lazy}, "patient, before a lazy one": {patient, lazy},
		"patient, behind a refused one": {refused, patient},
	} {
		t.Run(name, func(t *testing.T) {
			files := vfs.NewCrashableMem()
			d := openOn(t, files, pebble.Config{})
			applyOK(t, d, []store.Op{{Kind: store.PutTask, Task: there}})
			results, err := d.Apply(t.Context(), ops)
			if err != nil {
				t.Fatal(err)
			}
			for i := range ops {
				if isRefused := ops[i].Task.ID == there.ID; errors.Is(results[i], store.ErrConflict) != isRefused {
					t.Errorf("write %d: %v", i, results[i])
				}
			}
			survivor := openOn(t, files.CrashClone(vfs.CrashCloneCfg{}), pebble.Config{})
			rows, err := survivor.Tasks(t.Context(), []task.ID{there.ID, durable.ID})
			if err != nil || rows[0].ID.IsZero() || rows[1].ID.IsZero() {
				t.Errorf("%+v, %v: an acknowledged write is gone", rows, err)
			}
			if err := errors.Join(d.Close(), survivor.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestANewDirectorySurvivesACrash checks that the entry of the directory itself is on disk before anything is
// acknowledged.
func TestANewDirectorySurvivesACrash(t *testing.T) {
	files := vfs.NewCrashableMem()
	c := pebble.Config{FS: files, MemTableBytes: 1 << 20}
	d, err := pebble.Open("a/new/data", c)
	if err != nil {
		t.Fatal(err)
	}
	applyOK(t, d, []store.Op{{Kind: store.PutTask, Task: crashTask(1, 0)}})
	c.FS = files.CrashClone(vfs.CrashCloneCfg{})
	survivor, err := pebble.Open("a/new/data", c)
	if err != nil {
		t.Fatal(err)
	}
	if rows, err := survivor.Tasks(t.Context(), []task.ID{crashTask(1, 0).ID}); err != nil || rows[0].ID.IsZero() {
		t.Errorf("%+v, %v: the store is empty", rows, err)
	}
	if err := errors.Join(d.Close(), survivor.Close()); err != nil {
		t.Error(err)
	}
}
