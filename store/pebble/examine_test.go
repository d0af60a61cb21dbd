package pebble

import (
	"os"
	"path/filepath"
	"testing"
)

func TestExamineSaysWhoUsesADirectoryAndLeavesItAsItWas(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir := filepath.Join(parent, "a", "data")
	look := func() Disk {
		t.Helper()
		d, err := Examine(dir)
		if err != nil || d.FreeBytes == 0 || d.ReserveBytes == 0 || d.SyncMedian <= 0 || d.SyncMax < d.SyncMedian {
			t.Fatalf("%+v, %v", d, err)
		}
		return d
	}
	if d := look(); d.Dir != parent || d.HoldsStore || d.InUse {
		t.Errorf("before there is one: %+v", d)
	}
	s, err := Open(dir, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if d := look(); d.Dir != dir || !d.HoldsStore || !d.InUse {
		t.Errorf("while it is open: %+v", d)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := look(); !d.HoldsStore || d.InUse {
		t.Errorf("after it was closed: %+v", d)
	}
	if after, err := os.ReadDir(dir); err != nil || len(after) != len(before) {
		t.Errorf("%d files, %d before; %v", len(after), len(before), err)
	}
	if _, err := Examine(filepath.Join(dir, before[0].Name(), "x")); err == nil {
		t.Error("a file is taken for a directory")
	}
}
