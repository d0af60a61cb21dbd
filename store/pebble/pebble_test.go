package pebble_test

import (
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/store/pebble"
	"github.com/kinesin-io/kinesin/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openMem opens a store on a file system in memory.
func openMem(t *testing.T) *pebble.Driver {
	t.Helper()
	return openOn(t, vfs.NewMem(), pebble.Config{})
}

func openOn(t *testing.T, files vfs.FS, c pebble.Config) *pebble.Driver {
	t.Helper()
	return openIn(t, "data", files, c)
}

// openIn does the same in a directory of another name.
func openIn(t *testing.T, dir string, files vfs.FS, c pebble.Config) *pebble.Driver {
	t.Helper()
	c.FS = files
	if c.MemTableBytes == 0 {
		c.MemTableBytes = 1 << 20
	}
	if c.Fatal == nil {
		c.Fatal = func(err error) { t.Errorf("fatal: %v", err) }
	}
	d, err := pebble.Open(dir, c)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Driver {
		t.Helper()
		return openMem(t)
	})
}

// TestConformanceOnDisk runs the suite with real files and syncs.
func TestConformanceOnDisk(t *testing.T) {
	storetest.Run(t, func(t *testing.T) store.Driver {
		t.Helper()
		d, err := pebble.Open(t.TempDir(), pebble.Config{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	})
}

// TestDifferential compares with the memory driver over random operations and restarts.
func TestDifferential(t *testing.T) {
	var files *vfs.MemFS
	storetest.Differential(t,
		func() store.Driver { return mem.New() },
		func() store.Driver {
			files = vfs.NewMem()
			return openOn(t, files, pebble.WithFreshRows(pebble.Config{}, 4))
		},
		func(d store.Driver) store.Driver {
			if err := d.Close(); err != nil {
				t.Fatal(err)
			}
			return openOn(t, files, pebble.WithFreshRows(pebble.Config{}, 4))
		},
	)
}
