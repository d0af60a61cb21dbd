package pebble

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
)

// The checksums of all data files are checked in the background. Otherwise a flipped bit in a block that
// nobody reads would be noticed when its task falls due, perhaps years later, when no backup has the block
// any more.
const (
	scrubBytesPerSecondMax = 1 << 20
	scrubEvery             = 24 * time.Hour   // from start to start of a pass; a longer pass delays the next
	scrubAfterStart        = 10 * time.Second // a start has enough to read
	scrubStepBytes         = 64 << 10         // read between two pauses
)

// scrubLoop checks all data files once a day.
func (d *Driver) scrubLoop(ctx context.Context) {
	for after := scrubAfterStart; clock.Sleep(ctx, clock.Real(), after) == nil; {
		began := time.Now()
		d.scrub(ctx)
		after = max(scrubEvery-time.Since(began), scrubAfterStart)
	}
}

// scrub checks the data files that are there now. It ignores one that is compacted away meanwhile.
func (d *Driver) scrub(ctx context.Context) {
	names, err := tableNames(d.db)
	if err != nil {
		d.cfg.Logger.ErrorContext(ctx, "listing data files to check failed", slog.String("error", firstLine(err)))
		return
	}
	debt := 0
	read := func(n int) error {
		d.scrubbed.Add(uint64(n))
		if debt += n; debt < scrubStepBytes {
			return ctx.Err()
		}
		wait := time.Duration(debt) * time.Second / scrubBytesPerSecondMax
		debt = 0
		return clock.Sleep(ctx, clock.Real(), wait)
	}
	for _, name := range names {
		path := d.cfg.FS.PathJoin(d.dir, name)
		err := checkTable(d.cfg.FS, path, read)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, fs.ErrNotExist) && !d.hasTable(name):
		case err != nil:
			d.damage.found(path, err)
		}
	}
	d.scrubs.Add(1)
}

func (d *Driver) hasTable(name string) bool {
	names, err := tableNames(d.db)
	return err == nil && slices.Contains(names, name)
}
