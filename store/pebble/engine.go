package pebble

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"

	pebbledb "github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/kinesin-io/kinesin/store"
)

// Sizes that bound memory: the cache, and up to memTablesMax memtables. Memtables of 32 MiB took 600 bytes of memory and 440
// of disk for each of 200,000 waiting tasks, these 350 and 245, for a sixth of the CPU of a drain.
const (
	cacheBytesDefault    = 32 << 20
	memTableBytesDefault = 8 << 20
	memTableBytesMin     = 1 << 20
	memTablesMax         = 3
	openFilesMax         = 500
	fileBytesFirst       = 2 << 20 // of a data file in the first level; doubles with every level
)

// openDB opens the engine. It returns a panic over what is in the files as an error.
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
		CacheSize: cacheBytesDefault, MaxOpenFiles: openFilesMax, Logger: readOnlyLogger{logger{d}},
		EventListener: &pebbledb.EventListener{DataCorruption: func(pebbledb.DataCorruptionInfo) {}}, // the caller gets the error
	})
}

func (d *Driver) options(memTable int) *pebbledb.Options {
	o := &pebbledb.Options{
		FS:                          engineFS{vfs.OnDiskFull(d.cfg.FS, d.space.dropBallast), d},
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
			d.cfg.Logger.Warn("store writes wait for the disk", slog.String("reason", info.Reason))
			d.standstill()
		},
	}
}

// refusedError is an error of opening that already says what to do.
type refusedError struct{ error }

func (r refusedError) Unwrap() error { return r.error }

// refuse returns the error of a store that is left alone, with a hint what to do.
func (d *Driver) refuse(err error, hint string) error {
	return refusedError{fmt.Errorf("data directory %s: %w; nothing was changed: %s", d.dir, err, hint)}
}

// openError adds to an error of opening which sentinel it is and what to do.
func (d *Driver) openError(err error) error {
	var refused refusedError
	switch {
	case errors.As(err, &refused):
		return err
	case strings.Contains(err.Error(), "unknown format major version"):
		return d.newerError(err)
	case isCorrupt(err) || strings.Contains(err.Error(), "object size mismatch"):
		if !errors.Is(err, store.ErrCorrupt) {
			err = fmt.Errorf("%w: %w", store.ErrCorrupt, err)
		}
		return d.refuse(err, "restore it from a backup, or move it away to start empty")
	}
	return fmt.Errorf("open data directory %s: %w", d.dir, err)
}

func (d *Driver) newerError(err error) error {
	return d.refuse(fmt.Errorf("%w: %w", store.ErrVersion, err), "run the newer version again")
}

// readError adds to an error of reading which file is damaged, if that is known.
func (d *Driver) readError(err error) error {
	if err == nil {
		return nil
	}
	if !isCorrupt(err) {
		return fmt.Errorf("read store in %s: %w", d.dir, err)
	}
	file := d.dir
	if info := pebbledb.ExtractDataCorruptionInfo(err); info != nil {
		file = info.Path
	}
	if !errors.Is(err, store.ErrCorrupt) {
		err = fmt.Errorf("%w: %s", store.ErrCorrupt, firstLine(err)) // the other lines are for developers of the engine
	}
	return fmt.Errorf("read %s: %w; stop, and restore a backup or run 'kinesin data salvage'", file, err)
}

// isCorrupt also counts a missing file as damage: every file that the manifest names must be there.
func isCorrupt(err error) bool {
	return pebbledb.IsCorruptionError(err) || errors.Is(err, store.ErrCorrupt) || errors.Is(err, fs.ErrNotExist)
}

// logger passes on the messages of the engine.
type logger struct{ d *Driver }

// Infof implements pebble.Logger.
func (l logger) Infof(format string, args ...any) {
	if log := l.d.cfg.Logger; log.Enabled(context.Background(), slog.LevelDebug) {
		log.Debug("store engine", slog.String("text", oneLine(format, args)))
	}
}

// Errorf implements pebble.Logger.
func (l logger) Errorf(format string, args ...any) {
	l.d.cfg.Logger.Error("store engine", slog.String("text", oneLine(format, args)))
}

// Fatalf ends the store: the engine failed to write or sync its log or manifest.
func (l logger) Fatalf(format string, args ...any) {
	l.d.fail(errors.New(oneLine(format, args)))
}

// readOnlyLogger is a logger for reading only: a missing file is a finding and ends nothing.
type readOnlyLogger struct{ logger }

// Fatalf implements pebble.Logger.
func (l readOnlyLogger) Fatalf(format string, args ...any) { l.Infof(format, args...) }

// firstLine returns the message of an error of the engine, without the stack traces that follow.
func firstLine(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

func oneLine(format string, args []any) string {
	return string(bytes.Join(bytes.Fields(fmt.Appendf(nil, format, args...)), []byte{' '}))
}
