package pebble

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	pebbledb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/store"
)

// snapshotDir holds the files of a snapshot. It is inside the data directory because hard links need one file
// system.
const snapshotDir = "snapshot"

// logBytesMax is how long the log may be in a snapshot. A longer one is flushed first; if all were, an idle server whose
// store is backed up every few seconds would make as many tiny data files.
const logBytesMax = 8 << 20

// takeSnapshot makes a checkpoint: hard links to the data files, which never change, and copies of manifest
// and log. The flush before it keeps the copied log short. No other call waits for it.
func (d *Driver) takeSnapshot(ctx context.Context) (store.Snapshot, error) {
	if err := d.enter(ctx); err != nil {
		return nil, err
	}
	defer d.leave()
	if !d.snapshots.TryLock() {
		return nil, store.ErrBusy
	}
	s := &snapshot{files: d.cfg.FS, dir: d.cfg.FS.PathJoin(d.dir, snapshotDir), done: sync.OnceFunc(d.snapshots.Unlock)}
	if err := s.take(d.db); err != nil {
		return nil, errors.Join(fmt.Errorf("snapshot of %s: %w", d.dir, err), s.Close())
	}
	return s, nil
}

// snapshot is a checkpoint that is being read.
type snapshot struct {
	files vfs.FS
	dir   string
	list  []store.SnapshotFile
	done  func()
}

func (s *snapshot) take(db *pebbledb.DB) error {
	if err := s.files.RemoveAll(s.dir); err != nil { // of a snapshot whose Close failed
		return err
	}
	if db.Metrics().WAL.Size > logBytesMax {
		if err := db.Flush(); err != nil {
			return err
		}
	}
	if err := db.Checkpoint(s.dir, pebbledb.WithFlushedWAL()); err != nil {
		return err
	}
	names, err := s.files.List(s.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		info, err := s.files.Stat(s.files.PathJoin(s.dir, name))
		if err != nil {
			return err
		}
		s.list = append(s.list, store.SnapshotFile{Name: name, Bytes: info.Size(), Immutable: isTable(name)})
	}
	return s.cutLog()
}

// cutLog cuts the newest log at its first gap. The last log was copied while it was written, so a page that
// was read too early is missing although a later page is there. Everything that was on disk when the copy
// began lies before the first gap.
func (s *snapshot) cutLog() error {
	var log *store.SnapshotFile
	number := uint64(0)
	for i := range s.list {
		if n, isLog := logNumber(s.list[i].Name); isLog && n >= number {
			log, number = &s.list[i], n
		}
	}
	if log == nil {
		return nil
	}
	var c logCheck
	err := readLog(s.files, s.files.PathJoin(s.dir, log.Name), number, &c)
	if c.damaged {
		log.Bytes = c.offset
	}
	return err
}

// Files implements store.Snapshot.
func (s *snapshot) Files() []store.SnapshotFile { return s.list }

// Open implements store.Snapshot.
func (s *snapshot) Open(name string) (io.ReadCloser, error) {
	for i := range s.list {
		if s.list[i].Name != name {
			continue
		}
		file, err := s.files.Open(s.files.PathJoin(s.dir, name), vfs.SequentialReadsOption)
		if err != nil {
			return nil, err
		}
		return limitedFile{io.LimitReader(file, s.list[i].Bytes), file}, nil
	}
	return nil, fmt.Errorf("%s in the snapshot %s: %w", name, s.dir, fs.ErrNotExist)
}

// Close implements store.Snapshot.
func (s *snapshot) Close() error {
	defer s.done()
	return s.files.RemoveAll(s.dir)
}

// limitedFile is the first part of a file.
type limitedFile struct {
	io.Reader
	io.Closer
}
