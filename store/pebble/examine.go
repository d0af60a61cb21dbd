package pebble

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
)

// syncsExamined is how many writes Examine syncs, and syncBytes the size of each.
const (
	syncsExamined = 64
	syncBytes     = 4 << 10
)

// Disk is what Examine found where a data directory is, or would be created.
type Disk struct {
	Dir          string // the data directory, or the nearest directory above it that exists
	HoldsStore   bool
	InUse        bool   // by a server or a command
	FreeBytes    uint64 // for this user
	ReserveBytes uint64 // with less than this free, a store accepts no new tasks
	// SyncMedian and SyncMax are the latencies of a small write that is synced. No task is acknowledged faster.
	SyncMedian, SyncMax time.Duration
}

// Examine looks at the place of a data directory: whether this process may write there, how much is free, and how
// long a sync takes. It writes a temporary file, removes it, and changes nothing else. A server may run on it.
func Examine(dir string) (d Disk, err error) {
	if d.Dir, err = nearestDir(dir); err != nil {
		return d, err
	}
	if d.Dir == filepath.Clean(dir) {
		if err := d.findStore(); err != nil {
			return d, err
		}
	}
	s := newSpace(vfs.Default, d.Dir, nil)
	s.reserveFor(s.memTableBytes())
	d.FreeBytes, d.ReserveBytes = s.free.Load(), s.reserve
	return d, d.measureSyncs()
}

// nearestDir returns dir, or the nearest directory above it that exists.
func nearestDir(dir string) (string, error) {
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return dir, fmt.Errorf("%s is a file: want a directory", dir)
		case err == nil || !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir):
			return dir, err
		}
	}
}

func (d *Disk) findStore() error {
	found, err := listDir(vfs.Default, d.Dir)
	if err != nil || !found.holdsStore() {
		return err
	}
	d.HoldsStore = true
	lock, err := lockDir(d.Dir, vfs.Default)
	if d.InUse = errors.Is(err, store.ErrInUse); d.InUse {
		return nil
	}
	if err != nil {
		return err
	}
	return lock.Close()
}

func (d *Disk) measureSyncs() (err error) {
	file, err := os.CreateTemp(d.Dir, ".kinesin-examine-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	took := make([]time.Duration, syncsExamined)
	block := make([]byte, syncBytes)
	for i := range took {
		began := clock.Mono(clock.Real())
		if _, err := file.Write(block); err != nil {
			return err
		}
		if err := file.Sync(); err != nil {
			return err
		}
		took[i] = clock.Mono(clock.Real()) - began
	}
	slices.Sort(took)
	d.SyncMedian, d.SyncMax = took[len(took)/2], took[len(took)-1]
	return nil
}
