package pebble

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"

	pebbledb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/store"
)

// layoutVersion is the format of keys and of what is behind them. A program refuses every other one. In
// format 1 tasks left the schedule when they were dispatched, and there was an index of wake-ups.
const layoutVersion = 2

// The sizes that bound memory: the cache, and up to memTablesMax buffers.
const (
	cacheBytesDefault    = 32 << 20
	memTableBytesDefault = 32 << 20
	memTableBytesMin     = 1 << 20
	memTablesMax         = 3
	openFilesMax         = 500
	fileBytesFirst       = 2 << 20 // of a data file in the first level; doubles with every level
)

const filePerm = 0o700

func (d *Driver) open() error {
	if err := makeDir(d.cfg.FS, d.dir); err != nil {
		return fmt.Errorf("data directory %s cannot be made: %w", d.dir, err)
	}
	lock, err := lockDir(d.dir, d.cfg.FS)
	if err != nil {
		return err
	}
	d.lock = lock
	if err = d.tidy(); err == nil {
		err = d.openLocked()
	}
	if err != nil {
		return errors.Join(err, lock.Close())
	}
	return nil
}

// makeDir makes dir and what is missing above it, and syncs the entries.
func makeDir(files vfs.FS, dir string) error {
	if _, err := files.Stat(dir); err == nil {
		return nil
	}
	parent := files.PathDir(dir)
	if parent != dir {
		if err := makeDir(files, parent); err != nil {
			return err
		}
	}
	if err := files.MkdirAll(dir, filePerm); err != nil {
		return err
	}
	return syncEntries(files, parent)
}

func lockDir(dir string, files vfs.FS) (*pebbledb.Lock, error) {
	lock, err := pebbledb.LockDirectory(dir, files)
	switch {
	case err == nil:
		return lock, nil
	case errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) || isPathError(err):
		return nil, fmt.Errorf("data directory %s cannot be written: %w", dir, err)
	}
	return nil, fmt.Errorf("data directory %s is %w: stop the other one or choose another directory (%w)", dir, store.ErrInUse, err)
}

func (d *Driver) openLocked() error {
	if err := d.clearUnfinished(); err != nil {
		return err
	}
	found, err := pebbledb.Peek(d.dir, d.cfg.FS)
	if err != nil {
		return d.openError(err)
	}
	if found.Exists {
		err = d.checkManifest(found.ManifestFilename)
	} else {
		err = d.checkEmpty()
	}
	if err != nil {
		return err
	}
	hadTables := hasTables(d.cfg.FS, d.dir)
	marks, marked, err := d.checkLogs(found.Exists)
	if err != nil {
		return err
	}
	d.marks = newLogMarks(d.cfg.FS, d.dir, d.fail)
	if marked || !found.Exists {
		marks.New = !found.Exists
		if err := d.marks.begin(marks, marked); err != nil {
			return d.openError(err)
		}
	}
	d.space = newSpace(d.cfg.FS, d.dir, d.cfg.Logger)
	memTable := cmp.Or(d.cfg.MemTableBytes, d.space.memTableBytes())
	d.space.reserveFor(memTable)
	d.groupBytes = min(groupBytesMax, memTable/4)
	db, err := d.openDB(d.options(memTable))
	if err != nil {
		return errors.Join(d.openError(err), d.marks.end(false))
	}
	d.db = db
	err = d.checkLayout(hadTables)
	if err == nil {
		err = d.beginMarks()
	}
	if err == nil {
		err = d.loadBound()
	}
	if err != nil {
		return errors.Join(err, d.marks.end(false), db.Close())
	}
	return nil
}

// beginMarks says that there is a store with marks of its logs; it notes that in the store too, so that it is
// noticed when they are gone.
func (d *Driver) beginMarks() error {
	noted, err := d.look([]byte{metaSpace, metaMarked}, nil)
	if err == nil {
		err = d.marks.opened()
	}
	if err == nil && !noted {
		err = d.db.Set([]byte{metaSpace, metaMarked}, nil, pebbledb.Sync)
	}
	if err != nil {
		return d.openError(err)
	}
	return nil
}

// loadBound begins fresh with what is stored for it; an empty store has nothing.
func (d *Driver) loadBound() error {
	bound := int64(0)
	_, err := d.look([]byte{metaSpace, metaBound}, func(value []byte) error {
		if len(value) != 8 {
			return fmt.Errorf("%w: bound of ids %x", store.ErrCorrupt, value)
		}
		bound = int64(binary.BigEndian.Uint64(value))
		return nil
	})
	if err != nil {
		return d.openError(err)
	}
	d.fresh, d.heads = newFresh(bound, d.cfg.freshRows), newHeads(d.cfg.headRows)
	return nil
}

// openDB turns a panic over what is in the files into an error.
func (d *Driver) openDB(o *pebbledb.Options) (db *pebbledb.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", store.ErrCorrupt, p)
		}
	}()
	return pebbledb.Open(d.dir, o)
}

// openReadOnly changes nothing in the directory; logs are replayed in memory.
func (d *Driver) openReadOnly(files vfs.FS) (*pebbledb.DB, error) {
	return d.openDB(&pebbledb.Options{
		FS: files, Lock: d.lock, ReadOnly: true, DisableConsistencyCheck: true, FormatMajorVersion: pebbledb.FormatNewest,
		CacheSize: cacheBytesDefault, MaxOpenFiles: openFilesMax, Logger: surviving{logger{d}},
		EventListener: &pebbledb.EventListener{DataCorruption: func(pebbledb.DataCorruptionInfo) {}}, // the caller gets the error
	})
}

func (d *Driver) options(memTable int) *pebbledb.Options {
	o := &pebbledb.Options{
		FS:                          fatalLogs{vfs.OnDiskFull(unreserved{ordered{d.cfg.FS, d.dir, d.marks}}, d.space.dropBallast), d.fail},
		Lock:                        d.lock,
		FormatMajorVersion:          pebbledb.FormatNewest,
		CacheSize:                   cmp.Or(d.cfg.CacheBytes, cacheBytesDefault) + int64(2*memTable), // memtables count as cache
		MemTableSize:                uint64(memTable),
		MemTableStopWritesThreshold: memTablesMax,
		L0CompactionThreshold:       10,
		L0StopWritesThreshold:       64,
		LBaseMaxBytes:               int64(2 * memTable),
		MaxOpenFiles:                cmp.Or(d.cfg.OpenFilesMax, openFilesMax),
		CompactionConcurrencyRange:  func() (int, int) { return 1, 2 },
		Logger:                      logger{d},
		EventListener:               d.listener(),
	}
	for i := range o.Levels {
		o.TargetFileSizes[i] = min(fileBytesFirst<<i, d.space.fileBytesMax())
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		o.Levels[i].BlockSize = 8 << 10
	}
	o.ApplyCompressionSettings(func() pebbledb.DBCompressionSettings { return pebbledb.DBCompressionFastest })
	return o
}

func (d *Driver) listener() *pebbledb.EventListener {
	log := d.cfg.Logger
	return &pebbledb.EventListener{
		BackgroundError: d.backgroundError,
		DataCorruption:  func(info pebbledb.DataCorruptionInfo) { d.damage.found(info.Path, info.Details) },
		WALCreated: func(info pebbledb.WALCreateInfo) {
			if info.Err == nil {
				d.marks.created(uint64(info.FileNum))
			}
		},
		FlushEnd: func(pebbledb.FlushInfo) { d.marks.flushed() },
		WriteStallBegin: func(info pebbledb.WriteStallBeginInfo) {
			log.Warn("store writes wait for the disk", slog.String("reason", info.Reason))
			d.standstill()
		},
	}
}

// checkLayout refuses what this program did not write and what a newer or an older one did. hadTables says
// that there were data files, so that a store without a format is not a new one.
func (d *Driver) checkLayout(hadTables bool) error {
	value, closer, err := d.db.Get([]byte{metaSpace})
	if errors.Is(err, pebbledb.ErrNotFound) && hadTables {
		return d.openError(fmt.Errorf("%w: there are data files that the manifest does not know", store.ErrCorrupt))
	}
	if errors.Is(err, pebbledb.ErrNotFound) {
		return d.initLayout()
	}
	if err != nil {
		return d.openError(err)
	}
	defer func() { _ = closer.Close() }()
	switch {
	case len(value) != 1 || value[0] == 0:
		return d.openError(fmt.Errorf("%w: format %q", store.ErrCorrupt, value))
	case value[0] > layoutVersion:
		return d.newerError(fmt.Errorf("format %d, this program knows up to %d", value[0], layoutVersion))
	case value[0] < layoutVersion:
		return d.olderError(value[0])
	}
	return nil
}

func (d *Driver) initLayout() error {
	it, err := d.db.NewIter(nil)
	if err != nil {
		return d.openError(err)
	}
	foreign := it.First()
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		return d.openError(err)
	}
	if foreign {
		return d.openError(fmt.Errorf("%w: it holds data but not its format, so another program wrote it", store.ErrCorrupt))
	}
	if err := d.db.Set([]byte{metaSpace}, []byte{layoutVersion}, pebbledb.Sync); err != nil {
		return d.openError(err)
	}
	return nil
}

// openError says of an error of opening which sentinel it is and what to do.
func (d *Driver) openError(err error) error {
	switch {
	case strings.Contains(err.Error(), "unknown format major version"):
		return d.newerError(err)
	case isCorrupt(err) || strings.Contains(err.Error(), "object size mismatch"):
		return fmt.Errorf("data directory %s: %w; nothing was changed: restore it from a backup, "+
			"or move it away to start empty", d.dir, corrupt(err))
	}
	return fmt.Errorf("open data directory %s: %w", d.dir, err)
}

func (d *Driver) newerError(err error) error {
	return fmt.Errorf("data directory %s: %w: %w; nothing was changed: run the newer version again", d.dir, store.ErrVersion, err)
}

func (d *Driver) olderError(format byte) error {
	return fmt.Errorf("data directory %s: %w: it has format %d, the program reads %d, and nothing converts it; nothing was changed: "+
		"start with another --data, and run the older version on this one until its tasks are done",
		d.dir, store.ErrOldForm, format, layoutVersion)
}

// readError is an error of reading, with the damaged file if one is known.
func (d *Driver) readError(err error) error {
	if !isCorrupt(err) {
		return fmt.Errorf("read store in %s: %w", d.dir, err)
	}
	file := d.dir
	if info := pebbledb.ExtractDataCorruptionInfo(err); info != nil {
		file = info.Path
	}
	if !errors.Is(err, store.ErrCorrupt) {
		err = fmt.Errorf("%w: %s", store.ErrCorrupt, firstLine(err)) // the rest is for those who mend the engine
	}
	return fmt.Errorf("read %s: %w; stop, and restore a backup or run 'kinesin data salvage'", file, err)
}

// isCorrupt also takes a missing file for damage: every file in the manifest must be there.
func isCorrupt(err error) bool {
	return pebbledb.IsCorruptionError(err) || errors.Is(err, store.ErrCorrupt) || errors.Is(err, fs.ErrNotExist)
}

// corrupt adds the sentinel, unless it is there.
func corrupt(err error) error {
	if errors.Is(err, store.ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w: %w", store.ErrCorrupt, err)
}

func isPathError(err error) bool {
	var pathErr *os.PathError
	return errors.As(err, &pathErr)
}

// logger passes on what the storage engine says.
type logger struct{ d *Driver }

func (l logger) Infof(format string, args ...any) {
	if log := l.d.cfg.Logger; log.Enabled(context.Background(), slog.LevelDebug) {
		log.Debug("store engine", slog.String("text", oneLine(format, args)))
	}
}

func (l logger) Errorf(format string, args ...any) {
	l.d.cfg.Logger.Error("store engine", slog.String("text", oneLine(format, args)))
}

// Fatalf is called when the engine cannot go on: a failed write or sync of its log or manifest.
func (l logger) Fatalf(format string, args ...any) {
	l.d.fail(errors.New(oneLine(format, args)))
}

// surviving is the logger of who only reads: a file that is missing is a finding, and ends nothing.
type surviving struct{ logger }

func (s surviving) Fatalf(format string, args ...any) { s.Infof(format, args...) }

// firstLine of an error of the engine is what it says; stack traces and other details follow.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func oneLine(format string, args []any) string {
	return string(bytes.Join(bytes.Fields(fmt.Appendf(nil, format, args...)), []byte{' '}))
}
