package pebble_test

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/kinesin-io/kinesin/store/pebble"
)

func TestADirectoryIsClosedToOthers(t *testing.T) {
	t.Parallel()
	for mode, mended := range map[os.FileMode]bool{0o700: false, 0o750: true, 0o755: true, 0o777: true, 0o2770: true, 0o701: true} {
		dir := filepath.Join(t.TempDir(), "data")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
		var log strings.Builder
		d, err := pebble.Open(dir, pebble.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(dir)
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%04o became %v, %v", mode, info.Mode(), err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if told := strings.Contains(log.String(), "others could use the data directory or files in it"); told != mended {
			t.Errorf("%04o: the log says %s", mode, log.String())
		}
	}
}

// wantPrivate fails unless all files below a directory are for their owner alone.
func wantPrivate(t *testing.T, dir string) (files int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		want := os.FileMode(0o600)
		if entry.IsDir() {
			want = 0o700
		} else {
			files++
		}
		if err == nil && info.Mode().Perm() != want {
			t.Errorf("%s has mode %04o", path, info.Mode().Perm())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	return files
}

// All that a store makes is for its user alone, and so is what was there when it is opened.
func TestFilesAreForTheirUser(t *testing.T) {
	before := syscall.Umask(0) // of the whole process; no other test depends on it
	t.Cleanup(func() { syscall.Umask(before) })
	dir := filepath.Join(t.TempDir(), "data")
	open := func() *pebble.Driver {
		t.Helper()
		d, err := pebble.Open(dir, pebble.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for range 2 { // the second opens what the first has left, with all rights for all
		d := open()
		s, err := d.Capabilities().Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := wantPrivate(t, dir); n < 8 {
			t.Errorf("%d files", n)
		}
		if err := errors.Join(s.Close(), d.Close()); err != nil {
			t.Fatal(err)
		}
		err = filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error { return errors.Join(err, os.Chmod(path, 0o777)) })
		if err != nil {
			t.Fatal(err)
		}
	}
	restored := t.TempDir() // made with 0777 here
	fill := func(into string) error { return os.CopyFS(into, os.DirFS(dir)) }
	if err := pebble.Restore(t.Context(), restored, pebble.Config{}, fill, func(context.Context, *pebble.Driver) error { return nil }); err != nil {
		t.Fatal(err)
	}
	wantPrivate(t, restored)
}

func TestADirectoryThatStaysOpenIsRefused(t *testing.T) {
	t.Parallel()
	const dir = "/proc/self" // whose mode nobody can change
	if _, err := pebble.Open(dir, pebble.Config{}); err == nil || !strings.Contains(err.Error(), "others may use it (mode 0555), and that cannot be changed") {
		t.Error(err)
	}
}
