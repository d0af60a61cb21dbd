package pebble

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
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

// damage remembers data files with blocks that cannot be read. Such a file does not end the store: a call
// that needs the block fails with store.ErrCorrupt, and everything else goes on. Ending the process would
// stop all lambdas for the rows of one, and again at each start. The process does end when the engine cannot
// compact files because of the damage, because then all writes wait in the end.
type damage struct {
	log *slog.Logger

	mu     sync.Mutex
	files  map[string]bool
	failed int       // compactions that failed because of damage since began
	began  time.Time // of the minute in which they are counted
}

// compactionsFailedPerMinuteMax ends the store: the engine tries again at once and compacts nothing else
// meanwhile.
const compactionsFailedPerMinuteMax = 100

// found remembers a damaged file, and logs it the first time.
func (g *damage) found(path string, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.files[path] {
		return
	}
	if g.files == nil {
		g.files = map[string]bool{}
	}
	g.files[path] = true
	g.log.Error("data file is damaged: rows in it cannot be read", slog.String("file", path), slog.String("error", firstLine(err)),
		slog.String("hint", "stop the server and run 'kinesin data verify', then restore a backup or run 'kinesin data salvage'"))
}

// list returns the damaged files.
func (g *damage) list() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.files))
}

// compactionFailed counts failures, and reports whether there are too many.
func (g *damage) compactionFailed(now time.Time) (tooMany bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Sub(g.began) > time.Minute {
		g.began, g.failed = now, 0
	}
	g.failed++
	return g.failed >= compactionsFailedPerMinuteMax
}

// health implements store.Capabilities.Health.
func (d *Driver) health() store.Health {
	return store.Health{Damaged: d.damage.list(), ScrubbedBytes: d.scrubbed.Load(), Scrubs: d.scrubs.Load(), Waiting: d.waiting.lasts()}
}

// backgroundError handles a flush or a compaction that failed.
func (d *Driver) backgroundError(err error) {
	if !pebbledb.IsCorruptionError(err) {
		d.cfg.Logger.Error("store background error", slog.String("error", firstLine(err)))
		return
	}
	if d.damage.compactionFailed(time.Now()) {
		d.standstill()
	}
}

// standstill ends the store if files are damaged. It is called when the engine does not get on.
func (d *Driver) standstill() {
	if files := d.damage.list(); len(files) > 0 {
		d.fail(fmt.Errorf("%w: %v cannot be read, so files cannot be compacted any more; restore a backup or run 'kinesin data salvage'",
			store.ErrCorrupt, files))
	}
}
