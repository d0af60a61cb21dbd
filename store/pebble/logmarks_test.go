package pebble_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pebbledb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/pebble"
	"github.com/kinesin-io/kinesin/task"
)

// crashedStore has n tasks in its only log, each in a group of its own, and lost its power: at once, or with
// marked when the marks were on disk.
func crashedStore(t *testing.T, n int, marked bool) *vfs.MemFS {
	t.Helper()
	files := vfs.NewCrashableMem()
	d := openOn(t, files, pebble.Config{})
	for i := range n {
		applyOK(t, d, store.FirstWithRow(markTask(i)))
	}
	if marked {
		pebble.Mark(d)
	}
	survivor := files.CrashClone(vfs.CrashCloneCfg{})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	return survivor
}

func markTask(i int) task.Task {
	row := crashTask(7, uint64(i)*stepsOfTask)
	row.Payload = fmt.Appendf(nil, "payload %d %0100d", i, i)
	row.PayloadSize = uint32(len(row.Payload))
	return row
}

// logFiles returns the logs of a store, oldest first.
func logFiles(t *testing.T, files vfs.FS) (logs []string) {
	t.Helper()
	names, err := files.List("data")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".log") {
			logs = append(logs, name)
		}
	}
	slices.Sort(logs)
	return logs
}

// stored counts which of the first n tasks are there: they have to be the first ones.
func stored(t *testing.T, d *pebble.Driver, n int) int {
	t.Helper()
	ids := make([]task.ID, n)
	for i := range ids {
		ids[i] = markTask(i).ID
	}
	rows, err := d.Tasks(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for i := range rows {
		if !rows[i].ID.IsZero() {
			if i != count {
				t.Errorf("task %d is there and task %d is not", i, count)
			}
			count++
		}
	}
	return count
}

// refused opens a store with a loss twice, and checks that the error names the file and that nothing was
// changed.
func refused(t *testing.T, files *vfs.MemFS, file string) {
	t.Helper()
	before := files.String()
	for range 2 {
		d, err := pebble.Open("data", pebble.Config{FS: files})
		if err == nil {
			_ = d.Close()
			t.Fatalf("started, although %s is not as it was", file)
		}
		if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "--accept-loss") {
			t.Errorf("%v: want ErrCorrupt, %s and what can be done", err, file)
		}
	}
	if after := files.String(); after != before {
		t.Errorf("the refusal changed the directory from\n%s\nto\n%s", before, after)
	}
}

// accepted opens a store with a loss and AcceptLoss, and returns how many of n tasks are left. The next start
// works without AcceptLoss.
func accepted(t *testing.T, files *vfs.MemFS, n int) int {
	t.Helper()
	left := 0
	for _, accept := range []bool{true, false} {
		d := openOn(t, files, pebble.Config{AcceptLoss: accept})
		left = stored(t, d, n)
		applyOK(t, d, store.FirstWithRow(crashTask(9, uint64(left)+stepsOfTask*b2u(accept))))
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return left
}

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

func TestAMissingLogIsNoticed(t *testing.T) {
	const tasks = 3
	for _, marked := range []bool{false, true} {
		files := crashedStore(t, tasks, marked)
		logs := logFiles(t, files)
		for _, name := range logs {
			if err := files.Remove("data/" + name); err != nil {
				t.Fatal(err)
			}
		}
		refused(t, files, logs[len(logs)-1])
		if left := accepted(t, files, tasks); left != 0 {
			t.Errorf("%d tasks are left without any log", left)
		}
	}
}

// The last group of an idle store is damaged, zeroed or cut off. Nothing behind it in the log proves that it
// was there.
func TestADamagedTailIsNoticed(t *testing.T) {
	const tasks = 5
	harm := map[string]func(log []byte) []byte{
		"cut":     func(log []byte) []byte { return log[:len(log)-20] },
		"zeroed":  func(log []byte) []byte { return append(log[:len(log)-200:len(log)-200], make([]byte, 200)...) },
		"flipped": func(log []byte) []byte { log[len(log)-30] ^= 1; return log },
		"emptied": func([]byte) []byte { return nil },
	}
	for what, change := range harm {
		t.Run(what, func(t *testing.T) {
			files := crashedStore(t, tasks, true)
			logs := logFiles(t, files)
			newest := logs[len(logs)-1]
			log := bytes.TrimRight(readFile(t, files, newest), "\x00")
			files = rewritten(t, files, newest, change(log))
			refused(t, files, newest)
			left := accepted(t, files, tasks)
			if want := tasks - 1; what != "emptied" && left != want {
				t.Errorf("%d tasks are left, want %d", left, want)
			}
			if _, err := files.Stat("data/" + newest + ".lost"); err != nil {
				t.Errorf("the damaged log is not kept: %v", err)
			}
		})
	}
}

// The store starts without an error when a crash cut off writes, because they were not acknowledged.
func TestATornTailIsNoLoss(t *testing.T) {
	const tasks = 5
	files := crashedStore(t, tasks, false)
	logs := logFiles(t, files)
	newest := logs[len(logs)-1]
	log := bytes.TrimRight(readFile(t, files, newest), "\x00")
	d := openOn(t, rewritten(t, files, newest, log[:len(log)-20]), pebble.Config{})
	if left := stored(t, d, tasks); left != tasks-1 {
		t.Errorf("%d tasks, want %d", left, tasks-1)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// Marks with one torn slot are valid. Without a valid slot, or without the file, the store is refused.
func TestDamagedMarks(t *testing.T) {
	const tasks, name = 3, "acknowledged"
	files := crashedStore(t, tasks, true)
	content := readFile(t, files, name)
	const slotBytes, slots = 4096, 3
	if len(content) != slotBytes*slots {
		t.Fatalf("%d bytes", len(content))
	}
	for slot := range slots {
		torn := bytes.Clone(content)
		clear(torn[slot*slotBytes:][:100])
		d := openOn(t, rewritten(t, files, name, torn), pebble.Config{})
		if left := stored(t, d, tasks); left != tasks {
			t.Errorf("slot %d torn: %d tasks, want %d", slot, left, tasks)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	broken := rewritten(t, files, name, make([]byte, len(content)))
	refused(t, broken, name)
	if left := accepted(t, broken, tasks); left != tasks {
		t.Errorf("damaged: %d tasks are left, want %d", left, tasks)
	}
	if err := files.Remove("data/" + name); err != nil {
		t.Fatal(err)
	}
	refused(t, files, name)
	if left := accepted(t, files, tasks); left != tasks {
		t.Errorf("missing: %d tasks are left, want %d", left, tasks)
	}
}

// A store of the version before this one has no marks. It starts as it did then, and has them from then on.
func TestAStoreWithoutMarksGetsThem(t *testing.T) {
	files := vfs.NewMem()
	d := openOn(t, files, pebble.Config{})
	applyOK(t, d, store.FirstWithRow(markTask(0)))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	db, err := pebbledb.Open("data", &pebbledb.Options{FS: files, FormatMajorVersion: pebbledb.FormatNewest, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Delete([]byte("ml"), pebbledb.Sync), db.Close(), files.Remove("data/acknowledged")); err != nil {
		t.Fatal(err)
	}
	d = openOn(t, files, pebble.Config{})
	if left := stored(t, d, 1); left != 1 {
		t.Error("the task is gone")
	}
	if logs, _, err := pebble.Marks(files, "data"); len(logs) != 1 || err != nil {
		t.Errorf("marks of logs %v, %v, want one", logs, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// After a clean stop all writes are in data files, so a missing log is no loss.
func TestACleanStopNeedsNoLog(t *testing.T) {
	files := vfs.NewMem()
	d := openOn(t, files, pebble.Config{})
	applyOK(t, d, store.FirstWithRow(markTask(0)))
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range logFiles(t, files) {
		if err := files.Remove("data/" + name); err != nil {
			t.Fatal(err)
		}
	}
	d = openOn(t, files, pebble.Config{})
	if left := stored(t, d, 1); left != 1 {
		t.Error("the task is gone")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// The marks are written by themselves soon after the last write, and logs whose writes are in data files are
// taken off.
func TestMarksFollow(t *testing.T) {
	files := vfs.NewMem()
	d := openOn(t, files, pebble.Config{})
	applyOK(t, d, store.FirstWithRow(markTask(0)))
	if err := pebble.Flush(d); err != nil {
		t.Fatal(err)
	}
	applyOK(t, d, store.FirstWithRow(markTask(1)))
	const soon = 10 * time.Second
	for deadline := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		logs, through, err := pebble.Marks(files, "data")
		if err != nil {
			t.Fatal(err)
		}
		if len(logs) == 1 && through > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %s the marks are of the logs %v through %d", soon, logs, through)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// A store that starts again does not write the marks over those of before: a crash meanwhile would leave older ones.
func TestAStartKeepsTheMarksOfBefore(t *testing.T) {
	files := vfs.NewCrashableMem()
	var mu sync.Mutex
	var slots []int64 // where marks were written, in order
	noting := func(files vfs.FS) vfs.FS {
		return errorfs.Wrap(files, errorfs.InjectorFunc(func(op errorfs.Op) error {
			if op.Kind == errorfs.OpFileWriteAt && strings.HasSuffix(op.Path, "/acknowledged") {
				mu.Lock()
				defer mu.Unlock()
				slots = append(slots, op.Offset)
			}
			return nil
		}))
	}
	d := openOn(t, noting(files), pebble.Config{})
	applyOK(t, d, store.FirstWithRow(markTask(0)))
	pebble.Mark(d)
	mu.Lock()
	newest := slots[len(slots)-1]
	slots = nil
	mu.Unlock()
	survivor := files.CrashClone(vfs.CrashCloneCfg{})
	again := openOn(t, noting(survivor), pebble.Config{})
	mu.Lock()
	if len(slots) == 0 || slots[0] == newest {
		t.Errorf("the newest marks were at %d, and those of the next start are at %v", newest, slots)
	}
	mu.Unlock()
	if err := errors.Join(again.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestCrashAtEveryFileOperation crashes before each file operation of a store that is created, writes to
// several logs and starts again. After every crash all acknowledged writes are there, and no start is
// refused.
func TestCrashAtEveryFileOperation(t *testing.T) {
	const tasks = 60
	rng := rand.New(rand.NewPCG(7, 8))
	files := vfs.NewCrashableMem()
	type crash struct {
		left         *vfs.MemFS
		op           string
		acked, asked int
	}
	var mu sync.Mutex
	var crashes []crash
	acked, asked, every := 0, 0, 1
	if testing.Short() {
		every = 5
	}
	ops := 0
	crashing := errorfs.Wrap(files, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			mu.Lock()
			defer mu.Unlock()
			if ops++; ops%every == 0 {
				left := files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(3) * 50, RNG: rng})
				crashes = append(crashes, crash{left, fmt.Sprint(op.Kind, " ", op.Path), acked, asked})
			}
		}
		return nil
	}))
	config := pebble.Config{MemTableBytes: 64 << 10}
	for round := range 2 {
		d := openOn(t, crashing, config)
		for i := round * tasks / 2; i < (round+1)*tasks/2; i++ {
			row := markTask(i)
			row.Payload = bytes.Repeat([]byte{byte(i)}, 4<<10)
			row.PayloadSize = uint32(len(row.Payload))
			mu.Lock()
			asked = i + 1
			mu.Unlock()
			applyOK(t, d, store.FirstWithRow(row))
			mu.Lock()
			acked = i + 1
			mu.Unlock()
			if i%7 == 0 {
				pebble.Mark(d)
			}
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range crashes {
		d, err := pebble.Open("data", pebble.Config{FS: c.left, MemTableBytes: config.MemTableBytes, Fatal: func(err error) { t.Error(err) }})
		if err != nil {
			t.Fatalf("crash before %s, %d tasks acknowledged: %v", c.op, c.acked, err)
		}
		if left := stored(t, d, tasks); left < c.acked || left > c.asked {
			t.Errorf("crash before %s: %d tasks are left, %d acknowledged, %d asked for", c.op, left, c.acked, c.asked)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d crashes at %d operations", len(crashes), ops)
	if len(crashes) < 50 {
		t.Errorf("only %d crashes", len(crashes))
	}
}

// A sync that ends when the next log has begun says nothing of how far that one reaches.
func TestASyncOfAnOlderLogMarksNothing(t *testing.T) {
	files := vfs.NewCrashableMem()
	d := openOn(t, files, pebble.Config{})
	applyOK(t, d, store.FirstWithRow(markTask(0)))
	pebble.MarkOlderLog(d)
	pebble.Mark(d)
	survivor := files.CrashClone(vfs.CrashCloneCfg{})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = openOn(t, survivor, pebble.Config{})
	if left := stored(t, d, 1); left != 1 {
		t.Error("the task is gone")
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// A checkpoint of the engine has no marks, and opens only where that is expected.
func TestACopyOfTheEngineHasNoMarks(t *testing.T) {
	files := crashedStore(t, 2, true)
	if err := files.Remove("data/acknowledged"); err != nil {
		t.Fatal(err)
	}
	d := openOn(t, files, pebble.WithoutMarks(pebble.Config{}))
	if left := stored(t, d, 2); left != 2 {
		t.Errorf("%d tasks of 2", left)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// When an older one of several logs is lost, the store returns to the moment before it and has no hole. The
// newer logs are set aside.
func TestALossInAnOlderLogGoesBackToBeforeIt(t *testing.T) {
	const tasks = 60
	var holding atomic.Bool
	hold := make(chan struct{})
	files := vfs.NewCrashableMem()
	holdingFlushes := errorfs.Wrap(files, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if holding.Load() && op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") {
			<-hold
		}
		return nil
	}))
	d := openOn(t, holdingFlushes, pebble.Config{MemTableBytes: 128 << 10})
	holding.Store(true)
	written := 0
	for len(logFiles(t, files)) < 3 && written < tasks {
		row := markTask(written)
		row.Payload = bytes.Repeat([]byte{byte(written)}, 8<<10)
		row.PayloadSize = uint32(len(row.Payload))
		applyOK(t, d, store.FirstWithRow(row))
		written++
	}
	pebble.Mark(d)
	survivor := files.CrashClone(vfs.CrashCloneCfg{})
	close(hold)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	logs := logFiles(t, survivor)
	if needed, _, err := pebble.Marks(survivor, "data"); err != nil || len(needed) != 3 || len(logs) != 3 {
		t.Fatalf("logs %v, of which %v are needed, %v; want three", logs, needed, err)
	}
	older := logs[1]
	log := readFile(t, survivor, older)
	survivor = rewritten(t, survivor, older, log[:len(log)*2/3])
	refused(t, survivor, older)
	left := accepted(t, survivor, written)
	if left == 0 || left >= written {
		t.Errorf("%d of %d tasks are left, want those before the loss", left, written)
	}
	for _, name := range logs[1:] {
		if _, err := survivor.Stat("data/" + name + ".lost"); err != nil {
			t.Errorf("%s is not kept: %v", name, err)
		}
	}
}

// A store whose creation was interrupted is created again. But if somebody has put a store there since, that
// one is opened.
func TestAnUnfinishedStoreIsMadeAgain(t *testing.T) {
	unfinished := vfs.NewMem()
	if err := unfinished.MkdirAll("data", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := pebble.BeginMarks(unfinished, "data"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"marker.manifest.000001.MANIFEST-000001", "OPTIONS-000003"} {
		add(t, unfinished, name, []byte("x"))
	}
	again := openOn(t, unfinished, pebble.Config{})
	applyOK(t, again, store.FirstWithRow(markTask(0)))
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}

	files := crashedStore(t, 50, true)
	if err := errors.Join(files.Remove("data/acknowledged"), pebble.BeginMarks(files, "data")); err != nil {
		t.Fatal(err)
	}
	refused(t, files, "acknowledged") // it had marks, and these are not its own
	if left := accepted(t, files, 50); left != 50 {
		t.Errorf("%d tasks of 50 are left", left)
	}
}

// add makes one more file.
func add(t *testing.T, files *vfs.MemFS, name string, content []byte) {
	t.Helper()
	file, err := files.Create("data/"+name, vfs.WriteCategoryUnspecified)
	if err == nil {
		_, err = file.Write(content)
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// After a crash while a loss is accepted, it can be accepted again, and files that were set aside are still
// there.
func TestCrashWhileALossIsAccepted(t *testing.T) {
	const tasks = 5
	files := crashedStore(t, tasks, true)
	logs := logFiles(t, files)
	newest := logs[len(logs)-1]
	log := bytes.TrimRight(readFile(t, files, newest), "\x00")
	damaged := vfs.NewCrashableMem()
	if ok, err := vfs.Clone(rewritten(t, files, newest, log[:len(log)-20]), damaged, "data", "data", vfs.CloneSync); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if root, err := damaged.OpenDir("/"); err != nil || errors.Join(root.Sync(), root.Close()) != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(9, 10))
	var crashes []*vfs.MemFS
	var mu sync.Mutex
	d := openOn(t, errorfs.Wrap(damaged, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			mu.Lock()
			defer mu.Unlock()
			crashes = append(crashes, damaged.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(3) * 50, RNG: rng}))
		}
		return nil
	})), pebble.Config{AcceptLoss: true})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for i, left := range crashes {
		d, err := pebble.Open("data", pebble.Config{FS: left, MemTableBytes: 1 << 20, AcceptLoss: true})
		if err != nil {
			t.Fatalf("crash %d of %d: %v", i, len(crashes), err)
		}
		if n := stored(t, d, tasks); n != tasks-1 {
			t.Errorf("crash %d of %d: %d tasks are left, want %d", i, len(crashes), n, tasks-1)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestABatchHeaderThatIsSplitIsNoLoss ends a log with a batch whose first chunk is too short for the header
// of the batch, because a block of the log ends there.
func TestABatchHeaderThatIsSplitIsNoLoss(t *testing.T) {
	const blockBytes = 32 << 10
	size := func(files vfs.FS) int {
		info, err := files.Stat("data/" + logFiles(t, files)[0])
		if err != nil {
			t.Fatal(err)
		}
		return int(info.Size())
	}
	write := func(d *pebble.Driver, i, payloadBytes int) {
		row := markTask(i)
		row.Payload, row.PayloadSize = bytes.Repeat([]byte("x"), payloadBytes), uint32(payloadBytes)
		applyOK(t, d, store.First(row))
	}
	probe := vfs.NewMem()
	d := openOn(t, probe, pebble.Config{})
	write(d, 0, 30_000)
	before := size(probe)
	write(d, 1, 1000)
	each := size(probe) - before - 1000
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	split := 0
	for left := range 40 {
		files := vfs.NewCrashableMem()
		d := openOn(t, files, pebble.Config{})
		write(d, 0, 30_000)
		write(d, 1, blockBytes-left-before-each)
		if rest := blockBytes - size(files); rest > 11 && rest < 11+12 {
			split++
		}
		write(d, 2, 100)
		pebble.Mark(d)
		survivor := files.CrashClone(vfs.CrashCloneCfg{})
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		d, err := pebble.Open("data", pebble.Config{FS: survivor})
		if err != nil {
			t.Fatalf("%d bytes before the end of a block: %v", left, err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if split < 5 {
		t.Errorf("%d batches had a split header, want 5 at least", split)
	}
}

// endings are writes after which a store is killed, each with what of it was acknowledged as durable. Some
// begin the newest log, others end one that has more.
var endings = map[string]func(t *testing.T, w *ending){
	"one write":      func(_ *testing.T, w *ending) { w.write(1, 100, nil) },
	"several writes": func(_ *testing.T, w *ending) { w.write(1, 100, nil); w.write(1, 5000, nil); w.write(1, 100, nil) },
	"after idleness": func(_ *testing.T, w *ending) { w.write(2, 100, nil); pebble.Mark(w.d); w.write(1, 100, nil) },
	"a batch":        func(_ *testing.T, w *ending) { w.write(300, 100, nil) },
	"a patient write": func(_ *testing.T, w *ending) {
		w.write(1, 100, func(op *store.Op) { op.Patient = true })
	},
	"a lazy write": func(_ *testing.T, w *ending) {
		w.write(1, 100, nil)
		w.write(1, 100, func(op *store.Op) { op.Lazy = true })
	},
	"a durable write behind a lazy one": func(_ *testing.T, w *ending) {
		w.write(1, 100, func(op *store.Op) { op.Lazy = true })
		w.acked++ // with the next one
		w.write(1, 100, nil)
	},
	"the first write of a log": func(t *testing.T, w *ending) {
		t.Helper()
		w.untilNewLog(t, 1, 7000, nil)
	},
	"a batch that begins a log": func(t *testing.T, w *ending) {
		t.Helper()
		w.untilNewLog(t, 40, 300, nil)
	},
	"a patient write that begins a log": func(t *testing.T, w *ending) {
		t.Helper()
		w.untilNewLog(t, 1, 7000, func(op *store.Op) { op.Patient = true })
	},
	"a lazy write that begins a log, and one more": func(t *testing.T, w *ending) {
		t.Helper()
		w.untilNewLog(t, 1, 7000, func(op *store.Op) { op.Lazy = true })
		w.acked = w.n
		w.write(1, 100, nil)
	},
	"a write too large for a memtable": func(_ *testing.T, w *ending) { w.write(3, 100, nil); w.write(1, 60_000, nil) },
	"the first write after a flush": func(t *testing.T, w *ending) {
		t.Helper()
		w.write(3, 100, nil)
		if err := pebble.Flush(w.d); err != nil {
			t.Fatal(err)
		}
		w.write(1, 100, nil)
	},
}

// ending writes tasks in order.
type ending struct {
	d        *pebble.Driver
	files    *vfs.MemFS
	n, acked int // tasks written, and the first ones of them that were acknowledged as durable
	err      error
}

// write writes count tasks in one call.
func (w *ending) write(count, payloadBytes int, change func(*store.Op)) {
	var ops []store.Op
	for range count {
		row := markTask(w.n)
		row.Payload, row.PayloadSize = bytes.Repeat([]byte{byte(w.n)}, payloadBytes), uint32(payloadBytes)
		w.n++
		ops = append(ops, store.FirstWithRow(row)...)
	}
	isLazy := false
	for i := range ops {
		if change != nil {
			change(&ops[i])
		}
		isLazy = isLazy || ops[i].Lazy
	}
	results, err := w.d.Apply(context.Background(), ops)
	w.err = errors.Join(w.err, err, errors.Join(results...))
	if !isLazy {
		w.acked = w.n
	}
}

// untilNewLog writes until one of the writes begins a log.
func (w *ending) untilNewLog(t *testing.T, count, payloadBytes int, change func(*store.Op)) {
	t.Helper()
	const writesMax = 1000
	before := logFiles(t, w.files)
	for range writesMax {
		w.write(count, payloadBytes, change)
		if now := logFiles(t, w.files); now[len(now)-1] != before[len(before)-1] {
			return
		}
	}
	t.Fatal("no write began a log")
}

// TestDamageToTheNewestLogIsNoticed kills stores right after their last write was acknowledged, and then cuts
// the newest log off or flips a bit in it, anywhere. The store is refused, or all that was acknowledged is
// there. Undamaged it is there as well, also when the power fails.
func TestDamageToTheNewestLogIsNoticed(t *testing.T) {
	t.Parallel()
	for what, end := range endings {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			files := vfs.NewCrashableMem()
			w := &ending{files: files}
			w.d = openOn(t, files, pebble.Config{MemTableBytes: 64 << 10})
			end(t, w)
			rng := rand.New(rand.NewPCG(3, 4))
			killed := files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
			unpowered := files.CrashClone(vfs.CrashCloneCfg{})
			if err := errors.Join(w.err, w.d.Close()); err != nil {
				t.Fatal(err)
			}
			logs := logFiles(t, killed)
			newest := logs[len(logs)-1]
			log := bytes.TrimRight(readFile(t, killed, newest), "\x00")
			w.allThere(t, "killed", rewritten(t, killed, newest, log))
			w.allThere(t, "without power", unpowered)
			noticed, places := 0, damagePlaces(len(log))
			for _, at := range places {
				flipped := bytes.Clone(log)
				flipped[at] ^= 1 << (at % 8)
				noticed += w.noticed(t, fmt.Sprintf("a bit flipped at %d", at), newest, rewritten(t, killed, newest, flipped))
				noticed += w.noticed(t, fmt.Sprintf("cut off at %d", at), newest, rewritten(t, killed, newest, log[:at]))
			}
			if noticed == 0 {
				t.Errorf("none of %d damages was noticed", 2*len(places))
			}
		})
	}
}

// damagePlaces are offsets in a log: all of its first and last bytes, and some between.
func damagePlaces(bytes int) (places []int) {
	const edge, between = 16, 24
	for at := 0; at < bytes; {
		places = append(places, at)
		step := 1
		if at >= edge && at < bytes-edge {
			step = min(1+bytes/between, bytes-edge-at)
		}
		at += step
	}
	return places
}

// allThere opens a store that was not damaged.
func (w *ending) allThere(t *testing.T, what string, files *vfs.MemFS) {
	t.Helper()
	d, err := pebble.Open("data", pebble.Config{FS: files, MemTableBytes: 64 << 10})
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if left := stored(t, d, w.n); left < w.acked {
		t.Errorf("%s: %d tasks are left, %d were acknowledged", what, left, w.acked)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// noticed returns 1 if a damaged store is refused, and 0 if all that was acknowledged is there.
func (w *ending) noticed(t *testing.T, what, log string, files *vfs.MemFS) int {
	t.Helper()
	d, err := pebble.Open("data", pebble.Config{FS: files, MemTableBytes: 64 << 10})
	if err != nil {
		if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), log) {
			t.Errorf("%s: %v: want ErrCorrupt and %s", what, err, log)
		}
		return 1
	}
	if left := stored(t, d, w.n); left < w.acked {
		t.Errorf("%s: started with %d tasks of %d", what, left, w.acked)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	return 0
}
