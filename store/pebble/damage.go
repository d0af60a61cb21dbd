package pebble

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/kinesin-io/kinesin/store"
)

// damage remembers data files with blocks that cannot be read. Such a file does not end the store: what is in
// the block is refused with store.ErrCorrupt wherever it is met, never answered without, and everything else
// goes on. To end the process instead would stop all lambdas for the rows of one, and again at each start. It
// ends when the engine cannot merge files because of it and comes to a standstill: then all writes wait.
type damage struct {
	log *slog.Logger

	mu     sync.Mutex
	files  map[string]bool
	failed int       // merges that failed because of damage since began
	began  time.Time // of the minute in which they are counted
}

// mergesFailedPerMinuteMax ends the store: the engine tries again at once, and nothing else is merged
// meanwhile.
const mergesFailedPerMinuteMax = 100

// found notes a damaged file, and logs the first time.
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

// list is the damaged files.
func (g *damage) list() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Sorted(maps.Keys(g.files))
}

// mergeFailed counts, and reports whether it is too often.
func (g *damage) mergeFailed(now time.Time) (tooOften bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now.Sub(g.began) > time.Minute {
		g.began, g.failed = now, 0
	}
	g.failed++
	return g.failed >= mergesFailedPerMinuteMax
}

// health is store.Capabilities.Health.
func (d *Driver) health() store.Health {
	return store.Health{Damaged: d.damage.list(), ScrubbedBytes: d.scrubbed.Load(), Scrubs: d.scrubs.Load()}
}

// backgroundError is told of a flush or a merge that failed.
func (d *Driver) backgroundError(err error) {
	if !pebbledb.IsCorruptionError(err) {
		d.cfg.Logger.Error("store background error", slog.String("error", firstLine(err)))
		return
	}
	if d.damage.mergeFailed(time.Now()) {
		d.standstill()
	}
}

// standstill ends the store when files are damaged, and does nothing otherwise.
func (d *Driver) standstill() {
	if files := d.damage.list(); len(files) > 0 {
		d.fail(fmt.Errorf("%w: %v cannot be read, so that files cannot be merged any more; restore a backup or run 'kinesin data salvage'",
			store.ErrCorrupt, files))
	}
}
