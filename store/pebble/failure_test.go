package pebble_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	pebbledb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/pebble"
	"github.com/kinesin-io/kinesin/task"
)

var errDisk = errors.New("input/output error")

// logSync reports whether op makes the log durable.
func logSync(op errorfs.Op) bool {
	sync := op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
	return sync && strings.HasSuffix(op.Path, ".log")
}

// TestFailedSyncIsFatal checks that a write whose sync fails is never acknowledged, that Fatal is
// called once, and that nothing is accepted after it.
func TestFailedSyncIsFatal(t *testing.T) {
	var broken atomic.Bool
	files := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if broken.Load() && logSync(op) {
			return errDisk
		}
		return nil
	}))
	var fatal []string
	var mu sync.Mutex
	d := openOn(t, files, pebble.Config{Fatal: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		fatal = append(fatal, err.Error())
	}})
	broken.Store(true)
	results, err := d.Apply(t.Context(), []store.Op{{Kind: store.PutTask, Task: crashTask(1, 1)}})
	if err == nil {
		t.Errorf("acknowledged %v although the sync failed", results)
	}
	broken.Store(false)
	if _, err := d.Apply(t.Context(), []store.Op{{Kind: store.PutTask, Task: crashTask(2, 1)}}); err == nil {
		t.Error("a write after a failed sync was acknowledged")
	}
	if _, err := d.Tasks(t.Context(), []task.ID{{1}}); err == nil {
		t.Error("a read after a failed sync was answered")
	}
	mu.Lock()
	if len(fatal) != 1 || !strings.Contains(fatal[0], "input/output error") || strings.Contains(fatal[0], "\n") {
		t.Errorf("fatal: %q, want one line with the cause", fatal)
	}
	mu.Unlock()
	_ = d.Close()
}

// TestFatalEndsTheProcess runs the test binary again and breaks the disk under it: exit code 1, one line, no
// stack.
func TestFatalEndsTheProcess(t *testing.T) {
	const mark = "KINESIN_TEST_BREAK_DISK"
	if os.Getenv(mark) != "" {
		files := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if logSync(op) {
				return errDisk
			}
			return nil
		}))
		d, err := pebble.Open("data", pebble.Config{FS: files})
		if err == nil {
			_, err = d.Apply(t.Context(), []store.Op{{Kind: store.PutTask, Task: crashTask(1, 1)}})
		}
		fmt.Println("survived", err)
		return
	}
	endsWithOneLine(t, "TestFatalEndsTheProcess", mark)
}

// endsWithOneLine runs one test in a process of its own, which the disk has to end.
func endsWithOneLine(t *testing.T, test, mark string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), mark+"=1")
	var out, text bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &text
	err := cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("got %v, want exit code 1; %s", err, out.String())
	}
	line := strings.TrimSpace(text.String())
	if strings.Contains(line, "\n") || !strings.Contains(line, "input/output error") || out.Len() > 0 {
		t.Errorf("stderr %q, stdout %q: want one line with the cause", line, out.String())
	}
}

// TestReadsWaitForTheDisk holds a sync back: a row that is applied but not yet on disk may not be read.
func TestReadsWaitForTheDisk(t *testing.T) {
	hold, held := make(chan struct{}), make(chan struct{})
	var once sync.Once
	var holding atomic.Bool
	files := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if holding.Load() && logSync(op) {
			once.Do(func() { close(held) })
			<-hold
		}
		return nil
	}))
	d := openOn(t, files, pebble.Config{})
	holding.Store(true)
	var running sync.WaitGroup
	var released atomic.Bool
	one := crashTask(1, 1)
	setting := store.Control{Kind: "worker", Name: "w", Version: 1, Value: []byte("{}")}
	running.Go(func() {
		ops := []store.Op{{Kind: store.PutPayload, Task: one, Payload: []byte("p")}, {Kind: store.PutControl, Control: setting}}
		ops = append(ops, store.FirstWithRow(one)...)
		applyOK(t, d, append(ops, store.Op{Kind: store.DeletePayload, Task: crashTask(2, 0), Lazy: true})) // which makes the others no less durable
		if !released.Load() {
			t.Error("acknowledged before it was on disk")
		}
	})
	<-held
	look := func() int { // a scan does not wait, and shows when the rows are visible
		rows, err := d.ScanSchedule(t.Context(), crashPart, store.WakeKey{}, 1<<62, 1)
		if err != nil {
			t.Fatal(err)
		}
		return len(rows)
	}
	for look() == 0 {
		runtime.Gosched()
	}
	var begun atomic.Int32
	for name, read := range map[string]func() error{
		"task":    func() error { _, err := d.Tasks(t.Context(), []task.ID{one.ID}); return err },
		"payload": func() error { _, err := d.Payload(t.Context(), one.ID); return err },
		"control": func() error { _, err := d.Controls(t.Context(), setting.Kind, setting.Name); return err },
		"conflict": func() error {
			results, err := d.Apply(t.Context(), []store.Op{{Kind: store.PutTask, Task: one}})
			if err == nil && !errors.Is(results[0], store.ErrConflict) {
				err = fmt.Errorf("applied: %w", results[0])
			}
			return err
		},
	} {
		running.Go(func() {
			begun.Add(1)
			if err := read(); err != nil || !released.Load() {
				t.Errorf("%s: %v, released %v: it was seen before it was on disk", name, err, released.Load())
			}
		})
	}
	for begun.Load() < 4 {
		look()
	}
	for range 2000 { // time for who does not wait to come back
		look()
	}
	released.Store(true)
	close(hold)
	running.Wait()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestDirectoryInUse(t *testing.T) {
	dir := t.TempDir()
	first, err := pebble.Open(dir, pebble.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = pebble.Open(dir, pebble.Config{})
	if !errors.Is(err, store.ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("second open: %v, want ErrInUse with the directory", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := pebble.Open(dir, pebble.Config{})
	if err != nil {
		t.Fatalf("after close: %v", err)
	}
	if err := errors.Join(again.Close(), again.Close()); err != nil {
		t.Error(err)
	}
	if _, err := again.Tasks(t.Context(), []task.ID{{1}}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("read after close: %v", err)
	}
	if _, err := again.Apply(t.Context(), nil); !errors.Is(err, store.ErrClosed) {
		t.Errorf("write after close: %v", err)
	}
}

func TestUnwritableDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below"), "/proc/kinesin-data"} {
		_, err := pebble.Open(dir, pebble.Config{})
		if err == nil || errors.Is(err, store.ErrInUse) || !strings.Contains(err.Error(), dir) {
			t.Errorf("%s: got %v, want a refusal that names it", dir, err)
		}
	}
}

func TestNewerData(t *testing.T) {
	files := vfs.NewMem()
	d := openOn(t, files, pebble.Config{})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	writeRaw(t, files, []byte("m"), []byte{3})
	if _, err := pebble.Open("data", pebble.Config{FS: files}); !errors.Is(err, store.ErrVersion) || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("newer layout: %v, want ErrVersion", err)
	}
	files = vfs.NewMem()
	if err := openOn(t, files, pebble.Config{}).Close(); err != nil {
		t.Fatal(err)
	}
	writeRaw(t, files, append([]byte("t"), make([]byte, 16)...), []byte{99, 1, 2})
	d = openOn(t, files, pebble.Config{})
	if _, err := d.Tasks(t.Context(), []task.ID{{}}); !errors.Is(err, store.ErrVersion) {
		t.Errorf("newer row: %v, want ErrVersion", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	files = vfs.NewMem()
	if err := files.MkdirAll("data", 0o755); err != nil {
		t.Fatal(err)
	}
	file, err := files.Create("data/marker.format-version.000099.999", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	if _, err := pebble.Open("data", pebble.Config{FS: files}); !errors.Is(err, store.ErrVersion) {
		t.Errorf("newer engine: %v, want ErrVersion", err)
	}
}

// Data of the previous format is refused, because nothing reads or converts it. The error says so, and
// nothing is changed.
func TestOldData(t *testing.T) {
	files := vfs.NewMem()
	if err := openOn(t, files, pebble.Config{}).Close(); err != nil {
		t.Fatal(err)
	}
	writeRaw(t, files, []byte("m"), []byte{1})
	for range 2 {
		_, err := pebble.Open("data", pebble.Config{FS: files})
		if !errors.Is(err, store.ErrOldForm) {
			t.Fatalf("older layout: %v, want ErrOldForm", err)
		}
		for _, want := range []string{"data directory data", "format 1", "nothing converts it", "--data", "the older version"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("older layout: %v, want it to say %q", err, want)
			}
		}
	}
}

func TestForeignData(t *testing.T) {
	files := vfs.NewMem()
	writeRaw(t, files, []byte("somebody's key"), []byte("value"))
	if _, err := pebble.Open("data", pebble.Config{FS: files}); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("foreign data: %v, want ErrCorrupt", err)
	}
}

// writeRaw writes one pair past the driver.
func writeRaw(t *testing.T, files vfs.FS, key, value []byte) {
	t.Helper()
	db, err := pebbledb.Open("data", &pebbledb.Options{FS: files, FormatMajorVersion: pebbledb.FormatNewest, Logger: quiet{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Set(key, value, pebbledb.Sync), db.Close()); err != nil {
		t.Fatal(err)
	}
}

type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(string, ...any)             {}
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// TestDiskThatFailsAtAnyWrite breaks the disk at each operation after a start, in several ways: what was
// acknowledged before is there afterwards, nothing is acknowledged from then on, and the store says why it
// ended.
func TestDiskThatFailsAtAnyWrite(t *testing.T) {
	isSync := func(op errorfs.Op) bool {
		return op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData || op.Kind == errorfs.OpFileSyncTo
	}
	kinds := map[string]struct {
		err   error
		fails func(op errorfs.Op) bool
	}{
		"read-only": {syscall.EROFS, func(op errorfs.Op) bool {
			return op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpFileClose
		}},
		"failed sync": {syscall.EIO, isSync},
		"no space": {syscall.ENOSPC, func(op errorfs.Op) bool {
			return op.Kind == errorfs.OpFileWrite || op.Kind == errorfs.OpFileWriteAt || op.Kind == errorfs.OpCreate
		}},
	}
	const tasks = 12
	for what, kind := range kinds {
		t.Run(what, func(t *testing.T) {
			for after := range 2 * tasks {
				mem := vfs.NewCrashableMem()
				var ops atomic.Int64
				ops.Store(-1 << 40)
				files := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
					if kind.fails(op) && ops.Add(1) > int64(after) {
						return &os.PathError{Op: "write", Path: op.Path, Err: kind.err}
					}
					return nil
				}))
				var fatal atomic.Pointer[error]
				d := openOn(t, files, pebble.Config{Fatal: func(err error) { fatal.Store(&err) }})
				ops.Store(0)
				acked := 0
				for i := range tasks {
					results, err := d.Apply(t.Context(), store.FirstWithRow(markTask(i)))
					if err = errors.Join(err, errors.Join(results...)); err == nil && acked < i {
						t.Fatalf("after %d operations: task %d was acknowledged behind one that was not", after, i)
					} else if err == nil {
						acked++
					}
					if i%3 == 0 {
						pebble.Mark(d)
					}
				}
				if why := fatal.Load(); acked < tasks && (why == nil || !strings.Contains((*why).Error(), kind.err.Error())) {
					t.Errorf("after %d operations: %d of %d tasks were acknowledged, and it ended with %v", after, acked, tasks, why)
				}
				ops.Store(-1 << 40) // closing a log that cannot be written ends the process
				left := mem.CrashClone(vfs.CrashCloneCfg{})
				_ = d.Close()
				again := openOn(t, left, pebble.Config{})
				if n := stored(t, again, tasks); n < acked {
					t.Errorf("after %d operations: %d tasks were acknowledged, %d are left", after, acked, n)
				}
				if err := again.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestNoNewLogEndsTheProcess runs the test binary again, on a disk where no new log can be made: exit code 1,
// one line, no stack.
func TestNoNewLogEndsTheProcess(t *testing.T) {
	const mark = "KINESIN_TEST_NO_NEW_LOG"
	if os.Getenv(mark) != "" {
		var broken atomic.Bool
		files := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if broken.Load() && strings.HasSuffix(op.Path, ".log") && (op.Kind == errorfs.OpCreate || op.Kind == errorfs.OpReuseForWrite) {
				return errDisk
			}
			return nil
		}))
		d, err := pebble.Open("data", pebble.Config{FS: files, MemTableBytes: 64 << 10})
		broken.Store(true)
		for i := 0; err == nil && i < 1000; i++ {
			_, err = d.Apply(t.Context(), store.FirstWithRow(markTask(i)))
		}
		fmt.Println("survived", err)
		return
	}
	endsWithOneLine(t, "TestNoNewLogEndsTheProcess", mark)
}

// TestADiskThatHangs holds up the syncs of the log, of the marks beside it, and the flush of a full memtable.
// The store says for how long writes wait, and logs that once, with its end.
func TestADiskThatHangs(t *testing.T) {
	for what, hangs := range map[string]func(op errorfs.Op) bool{
		"syncs of the log":    logSync,
		"new logs":            func(op errorfs.Op) bool { return op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".log") },
		"writes of the log":   func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileWrite && strings.HasSuffix(op.Path, ".log") },
		"flushes of memory":   func(op errorfs.Op) bool { return op.Kind == errorfs.OpCreate && strings.HasSuffix(op.Path, ".sst") },
		"writes of the marks": func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileWriteAt },
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var hanging atomic.Bool
				goOn := make(chan struct{})
				files := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
					if hanging.Load() && hangs(op) {
						<-goOn
					}
					return nil
				}))
				var log bytes.Buffer
				d := openOn(t, files, pebble.Config{MemTableBytes: 64 << 10, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				waiting := func() time.Duration { return d.Capabilities().Health().Waiting }
				time.Sleep(time.Minute)
				if got := waiting(); got != 0 {
					t.Errorf("an idle store waits for %v", got)
				}
				hanging.Store(true)
				written := make(chan struct{})
				go func() {
					defer close(written)
					for i := range 100 {
						row := markTask(i)
						row.Payload, row.PayloadSize = make([]byte, 7000), 7000
						applyOK(t, d, store.FirstWithRow(row))
					}
				}()
				synctest.Wait()
				var others sync.WaitGroup
				for n := range 3 {
					before := waiting()
					time.Sleep(3 * time.Second)
					others.Go(func() { applyOK(t, d, store.FirstWithRow(markTask(1000+n))) })
					synctest.Wait()
					if got := waiting(); got != before+3*time.Second {
						t.Errorf("after %v and three more seconds: %v", before, got)
					}
				}
				hanging.Store(false)
				close(goOn)
				<-written
				others.Wait()
				lazy := store.FirstWithRow(markTask(2000))
				for i := range lazy {
					lazy[i].Lazy = true
				}
				applyOK(t, d, lazy)
				time.Sleep(2 * time.Second)
				if got := waiting(); got != 0 {
					t.Errorf("a store that goes on waits for %v", got)
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
				for _, want := range []string{"does not complete writes", "since=", "completes writes again"} {
					if n := strings.Count(log.String(), want); n != 1 {
						t.Errorf("%q is %d times in the log:\n%s", want, n, &log)
					}
				}
			})
		})
	}
}

// TestADiskThatIsSlow has each sync take a second, while so much is written that some always waits. None waits
// for long.
func TestADiskThatIsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var slow atomic.Bool
		files := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
			if slow.Load() && logSync(op) {
				time.Sleep(time.Second)
			}
			return nil
		}))
		d := openOn(t, files, pebble.Config{})
		slow.Store(true)
		var writers sync.WaitGroup
		for n := range 2 {
			writers.Go(func() {
				time.Sleep(time.Duration(n) * time.Second / 2)
				for i := range 20 {
					applyOK(t, d, store.FirstWithRow(markTask(100*n+i)))
				}
			})
		}
		for range 15 {
			time.Sleep(time.Second)
			if got := d.Capabilities().Health().Waiting; got > 2*time.Second {
				t.Errorf("writes wait for %v", got)
			}
		}
		writers.Wait()
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
}
