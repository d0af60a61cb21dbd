package dynamo

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// A lazy deletion of a wake-up row is deferred: its caller has the answer at once, or as soon as what it
// follows holds, and the deletion goes in a batch that has room for it. One that is lost leaves a row that a
// pass over the partition finds and deletes.
const (
	// deferredShare is how many of a batch are deferred deletions at least, when a batch of them waits. It is
	// their share among the writes of a task, so that they do not fall behind when all batches are full.
	deferredShare = batchMax / 5
	// deferredMax bounds the deletions that are deferred; one more is not sent.
	deferredMax = 8192
	// deferTriesMax is how often one is sent whose outcome is unknown, or that found no connection.
	deferTriesMax = 5
	// closeMax is how long Close waits for them.
	closeMax = 3 * time.Second
	// leftBehindEvery is how often the log says how many were not deleted.
	leftBehindEvery = time.Minute
)

var (
	errDeferredMax = errors.New("too many deletions are under way")
	errClosing     = errors.New("the store is closed")
)

// deferral is the deferred deletions. It is guarded by writes.mu.
type deferral struct {
	pending map[store.WakeKey]*write
	ready   []*write // of these, in order of arrival
	closing bool
	done    chan struct{} // closed with the last of them; nil until Close waits for it
	left    seldom        // rows that were not deleted
}

// start begins a write whose turn has come in its call. One that meets a deferred deletion of its row waits
// for that, so that it comes after it as its caller expects. The caller holds mu.
func (d *Driver) start(w *write) {
	before := d.writes.deferral.pending[w.wakeRow.key]
	switch {
	case w.skipped != nil:
		d.settle(w, w.skipped)
	case before != nil && w.deferred && w.wakeRow == before.wakeRow: // it is being deleted
		d.settle(w, nil)
	case before != nil:
		before.next = append(before.next, w)
	case w.deferred:
		d.deferred(w)
	default:
		d.admit(w)
	}
}

// deferred answers a deletion, and sends it after that.
func (d *Driver) deferred(w *write) {
	d.answer(w, nil)
	w.call = nil
	f := &d.writes.deferral
	if len(f.pending) >= deferredMax {
		d.settle(w, errDeferredMax)
		return
	}
	if f.pending == nil {
		f.pending = map[store.WakeKey]*write{}
	}
	f.pending[w.wakeRow.key] = w
	d.admit(w)
}

// mayDeleteAgain reports whether a deferred deletion is sent once more. It does no harm: what has another seq
// stays.
func (w *write) mayDeleteAgain(o *outcome) bool {
	return w.call == nil && (o.verdict == unknown || o.verdict == unsent) && w.tries+1 < deferTriesMax
}

// undefer notes what became of a deferred deletion. A row that has another seq is a newer one, and stays.
func (d *Driver) undefer(w *write, result error) {
	f := &d.writes.deferral
	if f.pending[w.wakeRow.key] == w {
		delete(f.pending, w.wakeRow.key)
	}
	if result != nil && !errors.Is(result, store.ErrConflict) {
		d.leftBehind(result)
	}
	if f.done != nil && len(f.pending) == 0 {
		close(f.done)
		f.done = nil
	}
}

// leftBehind tells of rows that were not deleted.
func (d *Driver) leftBehind(err error) {
	if n := d.writes.deferral.left.note(d.cfg.Clock, leftBehindEvery); n > 0 {
		d.cfg.Logger.Warn("wake-up rows left behind; the next pass over their partitions deletes them", slog.Int("rows", n), slog.Any("latest", err))
	}
}

// drain sends the deferred deletions and waits for them. Those that were put off for want of capacity it does
// not send.
func (d *Driver) drain() {
	q := &d.writes
	q.mu.Lock()
	q.deferral.closing = true
	for _, k := range q.throttled {
		held := k.held
		k.held = nil
		for _, w := range held {
			d.settle(w, errClosing)
		}
	}
	d.pump()
	if len(q.deferral.pending) == 0 {
		q.mu.Unlock()
		return
	}
	done := make(chan struct{})
	q.deferral.done = done
	q.mu.Unlock()
	ctx, cancel := clock.Within(context.Background(), d.cfg.Clock, closeMax)
	defer cancel()
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// nextAt is when deferred deletions go by themselves. They leave half of the requests that are less than full
// to writes that somebody waits for.
func (f *deferral) nextAt(requests int, c *Config) (at task.Instant, ok bool) {
	switch {
	case len(f.ready) == 0 || requests >= max(1, c.SharedMax/2):
		return 0, false
	case len(f.ready) >= batchMax:
		return 0, true
	}
	return f.ready[0].queued.Add(lazyLinger), true
}

// fill adds deferred deletions to a batch that has room for them.
func (f *deferral) fill(batch []*write) []*write {
	var rest []*write
	looked := 0
	for _, w := range f.ready {
		if len(batch) == batchMax || len(rest) == batchLooks {
			break
		}
		if looked++; slices.ContainsFunc(batch, w.sameKey) {
			rest = append(rest, w)
			continue
		}
		batch = append(batch, w)
	}
	f.ready = without(f.ready, looked, rest)
	return batch
}

// deferredRows are the rows whose deletion is deferred: for whoever was told that it is done, they are gone.
type deferredRows map[store.WakeKey]*write

// deferredRows is taken before a read, since a deletion may be done before its answer comes.
func (d *Driver) deferredRows() deferredRows {
	d.writes.mu.Lock()
	defer d.writes.mu.Unlock()
	return maps.Clone(d.writes.deferral.pending)
}

// has reports whether a row that was read is gone.
func (gone deferredRows) has(t *task.Task) bool {
	w := gone[store.KeyOf(t)]
	return w != nil && w.wakeRow.seq == t.WakeRow.Seq
}
