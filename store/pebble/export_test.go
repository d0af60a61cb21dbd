package pebble

import (
	"context"
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// ExpireSpaceCheck makes the next call look at the free space again.
func ExpireSpaceCheck(d *Driver) { d.space.next.Store(0) }

// WithFreshRows makes the generations of what is remembered small.
func WithFreshRows(c Config, n int) Config {
	c.freshRows, c.headRows = n, n
	return c
}

// WithPatience lets patient writes wait for d.
func WithPatience(c Config, d time.Duration) Config {
	c.patience = d
	return c
}

// Flush writes what is in memory to a data file.
func Flush(d *Driver) error { return d.db.Flush() }

// Compact merges all data files.
func Compact(ctx context.Context, d *Driver) error {
	return d.db.Compact(ctx, []byte{0}, []byte{0xff}, false)
}

// Mark writes the marks of the logs now, and not within markAfter.
func Mark(d *Driver) { d.marks.mark(func() int { return int(d.db.Metrics().WAL.Files) }) }

// Marks are the logs that a directory has to have, and how far the newest one reaches.
func Marks(files vfs.FS, dir string) (logs []uint64, through uint64, err error) {
	r, _, err := readMarks(files, dir)
	return r.Logs, r.Through, err
}

// MarkOlderLog does what the sync of a group does that was committed to the log before the newest one.
func MarkOlderLog(d *Driver) { d.marks.note(d.marks.current.Load()-1, 1<<40) }

// WithoutMarks says that the directory is a copy that has no marks of its logs.
func WithoutMarks(c Config) Config {
	c.unmarked = true
	return c
}

// Scrub checks all data files once, at its bounded rate.
func Scrub(ctx context.Context, d *Driver) { d.scrub(ctx) }

// ScrubBytesPerSecondMax is that rate.
const ScrubBytesPerSecondMax = scrubBytesPerSecondMax

// Tables are the data files of a store.
func Tables(d *Driver) ([]string, error) { return tableNames(d.db) }

// BeginMarks writes the marks of a store that is being made.
func BeginMarks(files vfs.FS, dir string) error {
	m := newLogMarks(files, dir, func(error) {})
	return errors.Join(m.begin(marksRecord{New: true}, false), m.end(false))
}
