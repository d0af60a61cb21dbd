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

// How data files are read to see whether they can be: a bit that flips in a block that nobody reads would be
// noticed when its task falls due, which may be in years, when no backup has it any more.
const (
	scrubBytesPerSecondMax = 1 << 20
	scrubEvery             = 24 * time.Hour   // from the start of one pass to that of the next; longer when a pass takes longer
	scrubAfterStart        = 10 * time.Second // a start has enough to read
	scrubStepBytes         = 64 << 10         // read at a time
)

// scrubLoop reads all data files once a day.
func (d *Driver) scrubLoop() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-d.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	for after := scrubAfterStart; clock.Sleep(ctx, clock.Real(), after) == nil; {
		began := time.Now()
		d.scrub(ctx)
		after = max(scrubEvery-time.Since(began), scrubAfterStart)
	}
}

// scrub checks the data files of now. One that was merged into others meanwhile is passed over.
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
		case errors.Is(err, fs.ErrNotExist) && !d.lists(name):
		case err != nil:
			d.damage.found(path, err)
		}
	}
	d.scrubs.Add(1)
}

// lists reports whether a data file is still one of the store.
func (d *Driver) lists(name string) bool {
	names, err := tableNames(d.db)
	if err != nil {
		return false
	}
	return slices.Contains(names, name)
}
