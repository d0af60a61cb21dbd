package pebble_test

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/pebble"
)

// Files take no space before they are written. Logs that reserve space would be nearly all of a small store.
func TestFilesTakeSpaceAsTheyGrow(t *testing.T) {
	t.Parallel()
	const slack = 64 << 10
	dir := t.TempDir()
	d, err := pebble.Open(dir, pebble.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := store.New(d, store.Config{})
	defer func() { _ = s.Close() }()
	insert(t, s, 0, 5_000)
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if took := stat.Blocks * 512; ok && took > info.Size()+slack {
			t.Errorf("%s of %d bytes takes %d", path, info.Size(), took)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
