package sim

import (
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/pebble"
	"github.com/kinesin-io/kinesin/test/checker"
)

// disk is the file system of a server with an embedded store: in memory, and without what was not synced once
// the process is killed or the machine loses its power.
type disk struct {
	w *world

	mu     sync.Mutex // guards all below
	files  *vfs.MemFS
	random *rand.Rand
	fuse   int    // so many file operations until the power is gone; 0: it stays
	blow   func() // then
}

// dataDir is where the store lies.
const dataDir = "data"

const (
	diskBytes     = 256 << 20 // small, since a part of it becomes the ballast file
	memTableBytes = 1 << 20
)

func (w *world) newDisk() *disk {
	return &disk{w: w, files: vfs.NewCrashableMem(), random: rand.New(rand.NewPCG(w.seed, 3))}
}

// open opens the store for a process.
func (d *disk) open(p *process) (store.Driver, error) {
	d.mu.Lock()
	files := d.files
	d.mu.Unlock()
	faulty := errorfs.Wrap(files, errorfs.InjectorFunc(func(op errorfs.Op) error {
		d.operation(p)
		return d.failure(p, op)
	}))
	opened, err := pebble.Open(dataDir, pebble.Config{
		FS: sized{faulty, d.w}, MemTableBytes: memTableBytes, CacheBytes: memTableBytes, Logger: newLog(p),
		Fatal: func(err error) {
			d.w.saw("the store ended its process")
			d.w.trace.note(p.name, "the store ends the process: %v", err)
			go d.w.gone(p)
		},
	})
	if err != nil {
		return nil, err // not opened, which is not nil as a store.Driver
	}
	return &rows{p: p, base: opened}, nil
}

// operation is called before every operation on a file.
func (d *disk) operation(p *process) {
	d.mu.Lock()
	blow := d.blow
	switch {
	case d.fuse == 0 || p.isDead():
		blow = nil
	case d.fuse > 1:
		d.fuse--
		blow = nil
	default:
		d.fuse, d.blow = 0, nil
		d.cutLocked(p)
	}
	d.mu.Unlock()
	if blow != nil {
		blow()
	}
}

// failure is how an operation on a data file fails. Those on logs and on the list of files do not: the engine
// ends its process by a panic then, which would end all processes here. Sweeps in store/pebble let them fail.
func (d *disk) failure(p *process, op errorfs.Op) error {
	if !strings.HasSuffix(op.Path, ".sst") {
		return nil
	}
	kind, err := DiskWriteFails, syscall.EIO
	switch op.Kind {
	case errorfs.OpFileRead, errorfs.OpFileReadAt:
		kind = DiskReadFails
	case errorfs.OpOpen, errorfs.OpCreate, errorfs.OpReuseForWrite:
		kind, err = DescriptorsOut, syscall.EMFILE
	case errorfs.OpFileWrite, errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo:
	default:
		return nil
	}
	if !d.w.strikes(kind, p.name) {
		return nil
	}
	return &os.PathError{Op: "simulated", Path: op.Path, Err: err}
}

// cut is a power cut: the process ends, and of what it did not sync some part is gone.
func (d *disk) cut(p *process) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cutLocked(p)
}

func (d *disk) cutLocked(p *process) {
	p.kill()
	d.files = d.files.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: d.random.IntN(3) * 50, RNG: d.random})
}

// light lays a fuse: after so many more file operations the power is gone.
func (d *disk) light(operations int, blow func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fuse, d.blow = operations, blow
}

// sized is a file system that knows how much room it has.
type sized struct {
	vfs.FS

	w *world
}

// GetDiskUsage implements vfs.FS.
func (s sized) GetDiskUsage(string) (vfs.DiskUsage, error) {
	free := uint64(diskBytes / 2)
	if s.w.away(DiskFilling) {
		s.w.saw(string(DiskFilling))
		free = 1 << 10
	}
	return vfs.DiskUsage{AvailBytes: free, TotalBytes: diskBytes, UsedBytes: diskBytes - free}, nil
}

// gone has a server process that ended by itself started again.
func (w *world) gone(p *process) {
	p.kill()
	slot := -1
	w.mu.Lock()
	for i, s := range w.servers {
		if s != nil && s.process == p {
			slot = i
		}
	}
	w.mu.Unlock()
	if slot < 0 {
		return // on its way up or down
	}
	s := w.take(slot)
	w.event(checker.Event{Kind: checker.ServerDown})
	s.stop()
	<-s.over
	w.serve(slot)
	w.event(checker.Event{Kind: checker.ServerUp})
}
