package pebble

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// Bounds of the space on disk.
const (
	reserveBytesMax = 256 << 20
	reserveBytesMin = 16 << 20
	reservePart     = 10 // a tenth of the file system is reserved; the other parts are written like this, too
	ballastBytesMax = 32 << 20
	measureEvery    = time.Second
	memTablePart    = 64 // of a small file system
	filePart        = 128
	fileBytesMin    = 1 << 20
	fileBytesMax    = 64 << 20
)

const ballastName = "ballast"

// space decides whether the store is full: fewer bytes are free than it takes to drain what is stored. It
// measures the free space once a second, and whenever a good part of the reserve was written since.
type space struct {
	files vfs.FS
	dir   string
	log   *slog.Logger

	total   uint64 // size of the file system; 0: unknown
	reserve uint64 // below this the store is full
	ballast uint64 // size of a file that is deleted when the disk is full after all

	free    atomic.Uint64
	full    atomic.Bool
	written atomic.Int64 // bytes since the last measurement
	next    atomic.Int64 // monotonic time of the next measurement, as a time.Duration
	freeing atomic.Int64 // monotonic time of the next compaction that may free space
	mu      sync.Mutex   // locked while measuring
	dropped atomic.Bool  // there is no ballast file
}

func newSpace(files vfs.FS, dir string, log *slog.Logger) *space {
	s := &space{files: files, dir: dir, log: log}
	if usage, err := files.GetDiskUsage(dir); err == nil {
		s.total = usage.TotalBytes
		s.free.Store(usage.AvailBytes)
	}
	return s
}

// memTableBytes returns the default size of a memtable on this file system.
func (s *space) memTableBytes() int {
	if s.total == 0 {
		return memTableBytesDefault
	}
	return int(min(max(s.total/memTablePart, memTableBytesMin), memTableBytesDefault))
}

// fileBytesMax returns the size of a data file. A compaction needs room for several before it frees any.
func (s *space) fileBytesMax() int64 {
	if s.total == 0 {
		return fileBytesMax
	}
	return int64(min(max(s.total/filePart, fileBytesMin), fileBytesMax))
}

// reserveFor sets the sizes of reserve and ballast for memtables of a size. The reserve is what may have to be written before
// anything can be deleted: the log and the flush of all memtables.
func (s *space) reserveFor(memTable int) {
	tables := uint64(memTablesMax * memTable)
	s.reserve = max(min(reserveBytesMax, s.total/reservePart), reserveBytesMin+tables)
	s.ballast = min(ballastBytesMax, s.reserve/4)
	s.next.Store(0)
	s.check()
	s.layBallast()
}

// tick measures if the last measurement is too old.
func (s *space) tick() {
	if s.total != 0 && mono() >= s.next.Load() {
		s.measure()
	}
}

func mono() int64 { return int64(clock.Mono(clock.Real())) }

// wrote counts bytes on their way to the disk. Each is written at least twice.
func (s *space) wrote(n int) {
	if s.total != 0 && s.written.Add(2*int64(n)) > int64(s.reserve/8) {
		s.measure()
	}
}

func (s *space) isFull() bool { return s.full.Load() }

// check reports whether the store is full, by a measurement of the last second.
func (s *space) check() bool {
	s.tick()
	return s.isFull()
}

// measure asks the file system for its free space. The store is full below the reserve, and takes new tasks
// again when one and a half times the reserve is free.
func (s *space) measure() {
	if !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	s.next.Store(mono() + int64(measureEvery))
	s.written.Store(0)
	usage, err := s.files.GetDiskUsage(s.dir)
	if err != nil {
		return
	}
	s.free.Store(usage.AvailBytes)
	wasFull := s.full.Load()
	limit := s.reserve
	if wasFull {
		limit += s.reserve / 2
	}
	if isFull := usage.AvailBytes < limit; isFull != wasFull {
		s.full.Store(isFull)
		s.logFull(isFull, usage.AvailBytes)
	}
	if !s.full.Load() && s.dropped.Load() {
		s.layBallast()
	}
}

func (s *space) logFull(isFull bool, free uint64) {
	attrs := []any{slog.String("dir", s.dir), slog.Uint64("free_bytes", free), slog.Uint64("reserve_bytes", s.reserve)}
	if isFull {
		s.log.Warn("store is full: refusing new tasks, stored tasks go on", attrs...)
		return
	}
	s.log.Info("store has space again: accepting new tasks", attrs...)
}

// layBallast writes the ballast file if there is room for it beside the reserve. The store works without the file.
func (s *space) layBallast() {
	if s.total == 0 || s.full.Load() {
		return
	}
	path := s.files.PathJoin(s.dir, ballastName)
	if info, err := s.files.Stat(path); err == nil && uint64(info.Size()) == s.ballast {
		s.dropped.Store(false)
		return
	}
	if s.free.Load() < s.reserve+s.reserve/2+s.ballast {
		s.dropped.Store(true) // measure tries again
		return
	}
	err := s.writeBallast(path)
	s.dropped.Store(err != nil)
	if err != nil {
		_ = s.files.Remove(path)
	}
}

func (s *space) writeBallast(path string) error {
	file, err := s.files.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	for left := s.ballast; left > 0 && err == nil; left -= min(left, uint64(len(block))) {
		_, err = file.Write(block[:min(left, uint64(len(block)))])
	}
	return cmp.Or(err, file.Close())
}

// dropBallast deletes the ballast file. The engine calls it when the disk is full, and then repeats its
// write.
func (s *space) dropBallast() {
	s.full.Store(true)
	if s.dropped.Swap(true) {
		return
	}
	s.log.Error("disk is full: deleting the ballast file", slog.String("dir", s.dir), slog.Uint64("bytes", s.ballast))
	_ = s.files.Remove(s.files.PathJoin(s.dir, ballastName))
}

const (
	// garbagePart of the files' bytes, as a divisor, have to be deleted for a compaction to be worth it.
	garbagePart = 16
	// freeEvery is the shortest time between two tries. The sweeps of a full store follow each other quickly.
	freeEvery = time.Second
	// freeWithin bounds how long a sweep waits for the compaction, and freeAgain is the pause after one that
	// failed. A compaction writes new files before it deletes the old ones, and where it has no room for that
	// the engine would try again and again.
	freeWithin = 10 * time.Second
	freeAgain  = time.Minute
)

// mayFree reports whether the pause since the last try is over, and then begins the next one.
func (s *space) mayFree() bool {
	now, next := mono(), s.freeing.Load()
	return now >= next && s.freeing.CompareAndSwap(next, now+int64(freeEvery))
}

// freeSpace compacts the files of a full store to free the space of deleted rows. A store that refuses new
// tasks writes little, so deletes would stay in the memtable and in files that the engine sees no reason to
// compact, and the store would stay full although nearly all its rows are deleted.
func (d *Driver) freeSpace(ctx context.Context) {
	if !d.space.check() || !d.space.mayFree() || d.enter(ctx) != nil {
		return
	}
	defer d.leave()
	err := d.db.Flush()
	m := d.db.Metrics()
	if garbage := m.Table.Garbage.PointDeletionsBytesEstimate; err == nil && garbage > m.DiskSpaceUsage()/garbagePart {
		d.cfg.Logger.InfoContext(ctx, "store is full: compacting files to free deleted rows", slog.String("dir", d.dir), slog.Uint64("bytes", garbage))
		within, done := context.WithTimeout(ctx, freeWithin)
		err = d.db.Compact(within, []byte{0}, []byte{0xff}, false)
		done()
		d.space.measure()
	}
	if err != nil && ctx.Err() == nil {
		d.space.freeing.Store(mono() + int64(freeAgain))
		d.cfg.Logger.WarnContext(ctx, "freeing space of a full store failed", slog.String("dir", d.dir), slog.String("error", err.Error()))
	}
}
