package pebble_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/pebble"
	"github.com/kinesin-io/kinesin/task"
)

// TestSnapshotHoldsWhatWasAcknowledged takes snapshots of a store on a real disk while callers walk tasks
// through their lives. Every write that was acknowledged before must be in each, every life must be at one of
// its points, and a store must open on it.
func TestSnapshotHoldsWhatWasAcknowledged(t *testing.T) {
	const stepsEach = 60 // of a walker for each snapshot; the last two thirds while it is taken, if it takes that long
	snapshots := 8
	if testing.Short() {
		snapshots = 3
	}
	dir := filepath.Join(t.TempDir(), "data")
	d := openIn(t, dir, vfs.Default, pebble.Config{})
	ctx, cancel := context.WithCancel(t.Context())
	w := &walkers{d: d}
	var running sync.WaitGroup
	for n := range walkersMax {
		running.Go(func() { w.walk(ctx, t, n) })
	}
	for n := range snapshots {
		w.allowed.Store(uint64(n+1) * stepsEach)
		w.waitFor((uint64(n)*stepsEach + stepsEach/3) * walkersMax)
		acked := w.snapshot(func(w *walker) uint64 { return w.acked.Load() })
		snapshot, err := d.Capabilities().Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		asked := w.snapshot(func(w *walker) uint64 { return w.asked.Load() })
		restored := restoreOf(t, snapshot)
		if err := snapshot.Close(); err != nil {
			t.Fatal(err)
		}
		checkStore(t, openIn(t, restored, vfs.Default, pebble.Config{}), acked, asked)
	}
	cancel()
	running.Wait()
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "snapshot")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the snapshot is still there: %v", err)
	}
}

// restoreOf restores a snapshot in a new directory.
func restoreOf(t *testing.T, s store.Snapshot) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "restored")
	err := pebble.Restore(t.Context(), dir, pebble.Config{}, func(into string) error { return copyFiles(s, into) }, noLook)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func noLook(context.Context, *pebble.Driver) error { return nil }

func copyFiles(s store.Snapshot, into string) error {
	for _, f := range s.Files() {
		r, err := s.Open(f.Name)
		if err != nil {
			return err
		}
		content, err := io.ReadAll(r)
		if err := errors.Join(err, r.Close(), os.WriteFile(filepath.Join(into, f.Name), content, 0o600)); err != nil {
			return err
		}
		if int64(len(content)) != f.Bytes {
			return io.ErrUnexpectedEOF
		}
	}
	return nil
}

// gappy is a file system on which the copy of the log in a snapshot has a gap, as when the log is written
// while it is copied: one page was read before it was written, and a later page after that.
type gappy struct {
	vfs.FS

	begins func() // the checkpoint's directory is made
	gapAt  int64  // in the log; 0: there is none
}

func (g *gappy) MkdirAll(dir string, perm os.FileMode) error {
	if filepath.Base(dir) == "snapshot" && g.begins != nil {
		g.begins()
	}
	return g.FS.MkdirAll(dir, perm)
}

func (g *gappy) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	file, err := g.FS.Open(name, opts...)
	if err != nil || filepath.Ext(name) != ".log" || filepath.Base(filepath.Dir(name)) != "data" || g.gapAt == 0 {
		return file, err
	}
	return &gappyFile{File: file, gapAt: g.gapAt}, nil
}

type gappyFile struct {
	vfs.File

	at, gapAt int64
}

const gapLen = 100

func (f *gappyFile) Read(p []byte) (int, error) {
	n, err := f.File.Read(p)
	for i := range p[:n] {
		if at := f.at + int64(i); at >= f.gapAt && at < f.gapAt+gapLen {
			p[i] = 0
		}
	}
	f.at += int64(n)
	return n, err
}

// TestSnapshotEndsAtTheFirstGapOfItsLog copies a log while it is written.
func TestSnapshotEndsAtTheFirstGapOfItsLog(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	files := &gappy{FS: vfs.Default}
	d := openIn(t, dir, files, pebble.Config{})
	put := func(n int) {
		t.Helper()
		if results, err := d.Apply(t.Context(), []store.Op{{Kind: store.PutTask, Task: crashTask(n, 0)}}); err != nil || results[0] != nil {
			t.Fatal(results, err)
		}
	}
	put(1)
	files.begins = func() {
		put(2)
		files.gapAt = writtenBytes(t, dir)
		put(3)
		put(4)
	}
	snapshot, err := d.Capabilities().Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	survivor := openIn(t, restoreOf(t, snapshot), vfs.Default, pebble.Config{})
	rows, err := survivor.Tasks(t.Context(), []task.ID{crashTask(1, 0).ID, crashTask(2, 0).ID, crashTask(3, 0).ID, crashTask(4, 0).ID})
	if err != nil || rows[0].ID.IsZero() || rows[1].ID.IsZero() || !rows[2].ID.IsZero() || !rows[3].ID.IsZero() {
		t.Errorf("%v, %v: want what is before the gap, and nothing behind it", rows, err)
	}
	for _, c := range []io.Closer{snapshot, survivor, d} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestASnapshotFlushesALongLog takes snapshots of a short log, which stays as it is, and of a long one.
func TestASnapshotFlushesALongLog(t *testing.T) {
	d := openOn(t, vfs.NewMem(), pebble.Config{})
	tables := func() int {
		t.Helper()
		snapshot, err := d.Capabilities().Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, f := range snapshot.Files() {
			if f.Immutable {
				n++
			}
		}
		if err := snapshot.Close(); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before, writes := tables(), d.Capabilities().Writes()
	for n := range 40 {
		large := crashTask(n, 0)
		large.Payload = bytes.Repeat([]byte{byte(n)}, 250<<10)
		if results, err := d.Apply(t.Context(), []store.Op{{Kind: store.PutTask, Task: large}}); err != nil || results[0] != nil {
			t.Fatal(results, err)
		}
		if n == 0 && tables() != before {
			t.Error("a short log was flushed")
		}
	}
	if n := tables(); n <= before {
		t.Errorf("%d data files after 10 MB, %d before", n, before)
	}
	if d.Capabilities().Writes() <= writes {
		t.Error("no write was counted")
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestAStandbyIsNoStore refuses to open a store where a standby keeps its copy, leaves that alone, and then makes a store
// of it.
func TestAStandbyIsNoStore(t *testing.T) {
	d := openIn(t, filepath.Join(t.TempDir(), "data"), vfs.Default, pebble.Config{})
	snapshot, err := d.Capabilities().Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	copied := filepath.Join(dir, pebble.StandbyDir)
	if err := errors.Join(os.Mkdir(copied, 0o700), copyFiles(snapshot, copied)); err != nil {
		t.Fatal(err)
	}
	fill := func(into string) error { return errors.Join(copyFiles(snapshot, into), os.RemoveAll(copied)) }
	if _, err := pebble.Open(dir, pebble.Config{}); !errors.Is(err, pebble.ErrStandby) {
		t.Errorf("it opens: %v", err)
	}
	if err := pebble.Restore(t.Context(), dir, pebble.Config{}, fill, noLook); !errors.Is(err, pebble.ErrNotEmpty) {
		t.Errorf("a restore on it: %v", err)
	}
	if err := pebble.Promote(t.Context(), dir, pebble.Config{}, fill, noLook); err != nil {
		t.Fatal(err)
	}
	promoted := openIn(t, dir, vfs.Default, pebble.Config{})
	for _, c := range []io.Closer{snapshot, promoted, d} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// writtenBytes is how much of the newest log is written; a log may be longer than that.
func writtenBytes(t *testing.T, dir string) int64 {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(all) == 0 {
		t.Fatal(all, err)
	}
	content, err := os.ReadFile(slices.Max(all))
	if err != nil {
		t.Fatal(err)
	}
	return int64(len(bytes.TrimRight(content, "\x00")))
}

// TestOneSnapshotAtATime refuses a second one until the first is closed.
func TestOneSnapshotAtATime(t *testing.T) {
	d := openOn(t, vfs.NewMem(), pebble.Config{})
	take := d.Capabilities().Snapshot
	first, err := take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := take(t.Context()); !errors.Is(err, store.ErrBusy) {
		t.Errorf("a second snapshot: %v, want ErrBusy", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []io.Closer{second, d} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestWhatASnapshotLeftIsRemoved opens a store whose process ended while a snapshot was read.
func TestWhatASnapshotLeftIsRemoved(t *testing.T) {
	files := vfs.NewMem()
	d := openOn(t, files, pebble.Config{})
	if _, err := d.Capabilities().Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = openOn(t, files, pebble.Config{})
	if _, err := files.Stat("data/snapshot"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// TestRestoreLeavesNothingHalf lets a restore fail at each of its steps.
func TestRestoreLeavesNothingHalf(t *testing.T) {
	d := openIn(t, filepath.Join(t.TempDir(), "data"), vfs.Default, pebble.Config{})
	if err := pebble.Flush(d); err != nil { // for a table
		t.Fatal(err)
	}
	snapshot, err := d.Capabilities().Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	good := func(into string) error { return copyFiles(snapshot, into) }
	bad := errors.New("made up")
	for name, c := range map[string]struct {
		fill func(string) error
		look func(context.Context, *pebble.Driver) error
		want error
	}{
		"content": {func(into string) error { return errors.Join(good(into), bad) }, noLook, bad},
		"nothing": {func(string) error { return nil }, noLook, store.ErrCorrupt},
		"damage":  {func(into string) error { return errors.Join(good(into), damageTable(into)) }, noLook, store.ErrCorrupt},
		"look":    {good, func(context.Context, *pebble.Driver) error { return bad }, bad},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			err := pebble.Restore(t.Context(), dir, pebble.Config{Fatal: func(error) {}}, c.fill, c.look)
			left, readErr := os.ReadDir(dir)
			if !errors.Is(err, c.want) || readErr != nil || len(left) != 0 {
				t.Errorf("%v, want %v, and %v left", err, c.want, left)
			}
		})
	}
	t.Run("interrupted", func(t *testing.T) {
		dir := t.TempDir()
		stopped := func() {
			defer func() { _ = recover() }()
			_ = pebble.Restore(t.Context(), dir, pebble.Config{}, func(into string) error { _ = good(into); panic("killed") }, noLook)
		}
		stopped()
		if _, err := pebble.Open(dir, pebble.Config{}); !errors.Is(err, store.ErrUnfinished) {
			t.Errorf("open after an interrupted restore: %v", err)
		}
		if err := pebble.Restore(t.Context(), dir, pebble.Config{}, good, noLook); !errors.Is(err, pebble.ErrNotEmpty) {
			t.Errorf("restore again: %v", err)
		}
	})
	for _, c := range []io.Closer{snapshot, d} {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func damageTable(dir string) error {
	all, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(all) == 0 {
		return errors.Join(errors.New("no table"), err)
	}
	return os.Truncate(all[0], 100)
}
