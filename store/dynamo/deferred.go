package dynamo

import (
	"errors"
	"log/slog"
	"maps"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// A lazy deletion of a wake-up row is deferred: its caller gets the result at once, or when the write that it
// follows is done, and the deletion goes with the writes of others. If it gets lost, the row is left over,
// and a full scan of the partition deletes it.
const (
	// deferredMax bounds the deferred deletions. The row of one more is left over.
	deferredMax = 8192
	// deferredAttemptsMax is how often one is sent whose outcome is unknown, or that got no connection.
	deferredAttemptsMax = 5
	// closeTimeMax is how long Close waits for them.
	closeTimeMax = 3 * time.Second
	// leftOverLogEvery is how often the log says how many rows are left over.
	leftOverLogEvery = time.Minute
)

var (
	errDeferredMax = errors.New("too many deletions are under way")
	errClosing     = errors.New("the store is closed")
)

// deferred holds the deferred deletions. batcher.mu guards it.
type deferred struct {
	pending  map[store.WakeKey]*write
	isClosed bool
	done     chan struct{} // closed with the last of them; nil until Close waits for that
	leftOver logLimit
}

// before returns the pending deletion of the row that a write is about; nil when there is none.
func (d *deferred) before(w *write) *write { return d.pending[w.wakeRow.key] }

// add reports whether there is room for a deletion, and makes it pending.
func (d *deferred) add(w *write) bool {
	if len(d.pending) >= deferredMax {
		return false
	}
	if d.pending == nil {
		d.pending = map[store.WakeKey]*write{}
	}
	d.pending[w.wakeRow.key] = w
	return true
}

// mayDeleteAgain reports whether a deferred deletion is sent once more. A second deletion does no harm: a row
// with another seq stays.
func (w *write) mayDeleteAgain(a *answer) bool {
	return w.call == nil && (a.result == unknown || a.result == unsent) && w.attempts+1 < deferredAttemptsMax
}

// finish notes the result of a deletion. A row with another seq is a newer one, and stays.
func (d *deferred) finish(c *client, w *write, result error) {
	if d.before(w) == w {
		delete(d.pending, w.wakeRow.key)
	}
	if result != nil && !errors.Is(result, store.ErrConflict) {
		if n := d.leftOver.add(c.cfg.Clock, leftOverLogEvery); n > 0 {
			c.cfg.Logger.Warn("wake-up rows left behind; the next full scan of their partitions deletes them", slog.Int("rows", n), slog.Any("latest", result))
		}
	}
	if d.done != nil && len(d.pending) == 0 {
		close(d.done)
		d.done = nil
	}
}

// deletedRows are the rows whose deletion is pending. Callers got its result, so reads leave the rows out.
type deletedRows map[store.WakeKey]*write

func (d *deferred) rows() deletedRows { return maps.Clone(d.pending) }

func (rows deletedRows) has(t *task.Task) bool {
	w := rows[store.KeyOf(t)]
	return w != nil && w.wakeRow.seq == t.WakeRow.Seq
}
