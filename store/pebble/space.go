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

// How space is watched.
const (
	reserveBytesMax   = 256 << 20
	reserveBytesMin   = 16 << 20
	reservePart       = 10 // of the file system
	ballastBytesMax   = 32 << 20
	spaceCheckedAfter = time.Second
	smallDiskPart     = 64 // of a small file system is one memtable
	smallFilePart     = 128
	fileBytesMin      = 1 << 20
	fileBytesMax      = 64 << 20
)

const ballastName = "ballast"

// space decides whether the store is full: fewer bytes are free than drain what is stored. It is
// asked about at most every second, and whenever a good part of the reserve was written since.
type space struct {
	files vfs.FS
	dir   string
	log   *slog.Logger

	total   uint64 // size of the file system; 0 when it cannot tell
	reserve uint64 // below this the store is full
	ballast uint64 // size of a file that is given up when the disk is full after all

	free    atomic.Uint64
	full    atomic.Bool
	written atomic.Int64 // bytes since the last look
	next    atomic.Int64 // monotonic time of the next look, as a time.Duration
	freeing atomic.Int64 // of the next merge that is to free space
	mu      sync.Mutex   // held while looking
	dropped atomic.Bool  // the ballast is gone
}

func newSpace(files vfs.FS, dir string, log *slog.Logger) *space {
	s := &space{files: files, dir: dir, log: log}
	if usage, err := files.GetDiskUsage(dir); err == nil {
		s.total = usage.TotalBytes
		s.free.Store(usage.AvailBytes)
	}
	return s
}

// memTableBytes is the default size of a memtable on this file system.
func (s *space) memTableBytes() int {
	if s.total == 0 {
		return memTableBytesDefault
	}
	return int(min(max(s.total/smallDiskPart, memTableBytesMin), memTableBytesDefault))
}

// fileBytesMax is the size of a data file: a compaction needs room for several of them before it frees any.
func (s *space) fileBytesMax() int64 {
	if s.total == 0 {
		return fileBytesMax
	}
	return int64(min(max(s.total/smallFilePart, fileBytesMin), fileBytesMax))
}

// reserveFor sets the limits. The reserve holds what may have to be written before anything can be
// deleted: log and flush of all memtables.
func (s *space) reserveFor(memTable int) {
	tables := uint64(memTablesMax * memTable)
	s.reserve = max(min(reserveBytesMax, s.total/reservePart), reserveBytesMin+tables)
	s.ballast = min(ballastBytesMax, s.reserve/4)
	s.next.Store(0)
	s.check()
	s.layBallast()
}

// tick looks when a second has passed since the last time.
func (s *space) tick() {
	if s.total != 0 && int64(clock.Mono(clock.Real())) >= s.next.Load() {
		s.look()
	}
}

// wrote counts bytes on their way to the disk, each of which is written at least twice.
func (s *space) wrote(n int) {
	if s.total != 0 && s.written.Add(2*int64(n)) > int64(s.reserve/8) {
		s.look()
	}
}

func (s *space) isFull() bool { return s.full.Load() }

// check is isFull after a look that is at most a second old.
func (s *space) check() bool {
	s.tick()
	return s.isFull()
}

// look asks the file system. The store is full below the reserve, and takes new tasks again when
// a half more than that is free.
func (s *space) look() {
	if !s.mu.TryLock() {
		return
	}
	defer s.mu.Unlock()
	s.next.Store(int64(clock.Mono(clock.Real()) + spaceCheckedAfter))
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
		s.tell(isFull, usage.AvailBytes)
	}
	if !s.full.Load() && s.dropped.Load() {
		s.layBallast()
	}
}

func (s *space) tell(isFull bool, free uint64) {
	attrs := []any{slog.String("dir", s.dir), slog.Uint64("free_bytes", free), slog.Uint64("reserve_bytes", s.reserve)}
	if isFull {
		s.log.Warn("store is full: new tasks are refused, stored ones go on", attrs...)
		return
	}
	s.log.Info("store has space again: new tasks are accepted", attrs...)
}

// layBallast writes the ballast file, if there is room for it beside the reserve. It is a
// precaution: failing to write it changes nothing.
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
		s.dropped.Store(true) // try again when there is more
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

// dropBallast is called when a write found the disk full; the write is tried again after it.
func (s *space) dropBallast() {
	s.full.Store(true)
	if s.dropped.Swap(true) {
		return
	}
	s.log.Error("disk is full: the ballast file is given up", slog.String("dir", s.dir), slog.Uint64("bytes", s.ballast))
	_ = s.files.Remove(s.files.PathJoin(s.dir, ballastName))
}

const (
	// garbagePart of what the files hold is worth merging them for, when the store is full.
	garbagePart = 16
	// freeEvery is how often that is looked at: sweeps of a full store that drains come one after the other.
	freeEvery = time.Second
	// freeWithin bounds how long a sweep waits for the merge, and freeAgain is how long none is tried after
	// one that failed: what is merged is written anew before the old files go, and where there is no room for
	// that the engine tries again and again.
	freeWithin = 10 * time.Second
	freeAgain  = time.Minute
)

// mayFree reports whether it is time to free space again, and then counts from now.
func (s *space) mayFree() bool {
	now, next := int64(clock.Mono(clock.Real())), s.freeing.Load()
	return now >= next && s.freeing.CompareAndSwap(next, now+int64(freeEvery))
}

// freeSpace gives back what deleted rows hold, if the store is full. Otherwise deletes stay in the memtable
// until that is full, and in files that the engine sees no reason to merge: where new tasks are refused
// little is written, and the store would stay full though nearly all in it is deleted.
func (d *Driver) freeSpace(ctx context.Context) {
	if !d.space.check() || !d.space.mayFree() || d.enter(ctx) != nil {
		return
	}
	defer d.leave()
	err := d.db.Flush()
	m := d.db.Metrics()
	if garbage := m.Table.Garbage.PointDeletionsBytesEstimate; err == nil && garbage > m.DiskSpaceUsage()/garbagePart {
		d.cfg.Logger.InfoContext(ctx, "store is full: files are merged to free what is deleted", slog.String("dir", d.dir), slog.Uint64("bytes", garbage))
		within, done := context.WithTimeout(ctx, freeWithin)
		err = d.db.Compact(within, []byte{0}, []byte{0xff}, false)
		done()
		d.space.look()
	}
	if err != nil && ctx.Err() == nil {
		d.space.freeing.Store(int64(clock.Mono(clock.Real()) + freeAgain))
		d.cfg.Logger.WarnContext(ctx, "space of a full store could not be freed", slog.String("dir", d.dir), slog.String("error", err.Error()))
	}
}
