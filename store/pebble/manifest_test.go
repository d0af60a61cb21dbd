package pebble_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/pebble"
	"github.com/kinesin-io/kinesin/task"
)

// closedStore returns a store with all rows in data files and an empty log, so that everything depends on the
// manifest.
func closedStore(t *testing.T) (files *vfs.MemFS, manifest string) {
	t.Helper()
	files = vfs.NewMem()
	for range 2 {
		d := openOn(t, files, pebble.Config{})
		row := crashTask(1, 1)
		if results, err := d.Apply(t.Context(), []store.Op{{Kind: store.PutTask, Task: row}}); err != nil {
			t.Fatal(results, err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	names, err := files.List("data")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "MANIFEST") && len(readFile(t, files, name)) > 0 {
			manifest = max(manifest, name)
		}
	}
	return files, manifest
}

// rewritten returns a copy of the files in which one has other content.
func rewritten(t *testing.T, files *vfs.MemFS, name string, content []byte) *vfs.MemFS {
	t.Helper()
	clone := vfs.NewMem()
	if ok, err := vfs.Clone(files, clone, "data", "data"); !ok || err != nil {
		t.Fatal(ok, err)
	}
	file, err := clone.Create("data/"+name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.Write(content)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	return clone
}

// The engine alone would open a damaged manifest as a store without data files.
func TestNoByteOfTheManifestIsDispensable(t *testing.T) {
	files, name := closedStore(t)
	content := readFile(t, files, name)
	for i := range content {
		damaged := append([]byte(nil), content...)
		damaged[i] ^= 0xff
		d, err := pebble.Open("data", pebble.Config{FS: rewritten(t, files, name, damaged), Fatal: func(error) {}})
		if err == nil {
			_ = d.Close()
		}
		if !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("byte %d of %d of %s damaged: %v, want ErrCorrupt", i, len(content), name, err)
		}
	}
}

// A crash may leave a part of the last write, or a file that is longer than its writes.
func TestATornManifestIsNoDamage(t *testing.T) {
	files, name := closedStore(t)
	content := readFile(t, files, name)
	chunk := content[:7+int(content[4])] // any whole chunk will do as the beginning of another one
	for what, torn := range map[string][]byte{
		"a part of a header": append(append([]byte(nil), content...), 1, 2, 3),
		"a part of a chunk":  append(append([]byte(nil), content...), chunk[:len(chunk)-1]...),
		"zeros":              append(append([]byte(nil), content...), make([]byte, 4096)...),
	} {
		d, err := pebble.Open("data", pebble.Config{FS: rewritten(t, files, name, torn)})
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		if rows, err := d.Tasks(t.Context(), []task.ID{crashTask(1, 1).ID}); err != nil || rows[0].ID != crashTask(1, 1).ID {
			t.Errorf("%s: read %v, %v", what, rows, err)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
