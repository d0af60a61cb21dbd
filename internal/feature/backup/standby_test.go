package backup_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kinesin-io/kinesin/internal/blobplace"
	"github.com/kinesin-io/kinesin/internal/feature/backup"
)

// follow opens a copy in a directory, and lets the test close it.
func follow(t *testing.T, dir string) *backup.Standby {
	t.Helper()
	s, err := backup.OpenStandby(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (r *rig) wantCopy(dir string) {
	r.Helper()
	for name, want := range r.files {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || !bytes.Equal(got, want) {
			r.Errorf("%s: %d bytes, want %d, %v", name, len(got), len(want), err)
		}
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != len(r.files)+1 {
		r.Errorf("%d files and a record: there are %v, %v", len(r.files), all, err)
	}
}

// unread is a part of a place whose reads fail after some.
type unread struct {
	blobplace.Place

	left *int
}

func (u unread) Get(ctx context.Context, name string, bytesMax int64) ([]byte, error) {
	if *u.left--; *u.left < 0 {
		return nil, errors.New("away")
	}
	return u.Place.Get(ctx, name, bytesMax)
}

// TestAStandbyFetchesWhatIsNew follows a store whose log grows, whose files come and go, and which begins again with
// other content in files of the same names. Each step is also interrupted at each read, by the end of the process.
func TestAStandbyFetchesWhatIsNew(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	s := r.mustStart()
	dir := filepath.Join(t.TempDir(), "copy")
	for _, step := range []struct {
		name       string
		write      func()
		atMost     int64
		interrupts int
	}{
		{"all", func() {}, 12 * mib, 0},
		{"nothing", func() {}, 0, 0},
		{"grown", func() { r.write("000002.log", slices.Concat(r.files["000002.log"], noise(5, 100_000))) }, 101_000, 2},
		{"more", func() {
			r.write("000003.sst", noise(6, mib))
			r.write("000004.log", noise(7, 10))
			delete(r.files, "000001.sst")
		}, mib + 10, 3},
		{"other", func() {
			r.write("000003.sst", noise(8, mib-1))
			r.write("000002.log", noise(9, 3*mib))
		}, 5 * mib, 6},
	} {
		step.write()
		r.tick(s)
		for reads := range step.interrupts {
			c, p, left := follow(t, dir), r.place(), reads
			p.Wrap(func(_ string, of blobplace.Place) blobplace.Place { return unread{of, &left} })
			if _, _, err := c.Fetch(t.Context(), p); err == nil {
				t.Errorf("%s: %d reads were enough", step.name, reads)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
		}
		c := follow(t, dir)
		if _, err := backup.OpenStandby(dir); err == nil {
			t.Error("a second standby on the directory")
		}
		m, fetched, err := c.Fetch(t.Context(), r.place())
		if err != nil || fetched > step.atMost || !m.Created.Equal(c.Held()) {
			t.Errorf("%s: fetched %d bytes, want %d at most, %v", step.name, fetched, step.atMost, err)
		}
		r.wantCopy(dir)
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	c, into := follow(t, dir), t.TempDir()
	if err := c.MoveTo(into); err != nil {
		t.Fatal(err)
	}
	for name, want := range r.files {
		if got, err := os.ReadFile(filepath.Join(into, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s was not moved: %v", name, err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the copy is still there: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
