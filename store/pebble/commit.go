package pebble

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	pebbledb "github.com/cockroachdb/pebble/v2"

	"github.com/kinesin-io/kinesin/store"
)

// Bounds of the commit pipeline.
const (
	requestsQueuedMax = 1024     // requests waiting for the committer
	queuedBytesMax    = 64 << 20 // encoded bytes in them
	groupRowsMax      = 4096     // rows committed together
	groupBytesMax     = 4 << 20  // bytes of them, less with a small memtable
	groupsSyncingMax  = 16       // groups that wait for the disk
)

// group is what one batch commits. A request whose rows fall into several groups
// is answered with the last of them.
type group struct {
	batch    *pebbledb.Batch
	rows     int
	sync     bool // a row that was written must be durable before it is acknowledged
	requests []*request
	floors   []*floor           // that have entries of this group pending
	iter     *pebbledb.Iterator // sees the database before this group; nil until needed
	began    time.Time
}

// Apply implements store.Driver.
func (d *Driver) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	r := newRequest(len(ops))
	for i := range ops {
		r.add(&ops[i])
	}
	return d.submit(ctx, r)
}

// submit queues a request and waits for its answer.
func (d *Driver) submit(ctx context.Context, r *request) ([]error, error) {
	r.sort()
	r.weight = min(int64(len(r.buf)), queuedBytesMax)
	if err := d.queued.Acquire(ctx, r.weight); err != nil {
		return nil, context.Cause(ctx)
	}
	if err := d.enqueue(ctx, r); err != nil {
		d.queued.Release(r.weight)
		return nil, err
	}
	select {
	case <-r.done:
		results := r.results
		r.recycle()
		return results, d.failure()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (d *Driver) enqueue(ctx context.Context, r *request) error {
	if err := d.enter(ctx); err != nil {
		return err
	}
	defer d.leave()
	select {
	case d.requests <- r:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// answer lets the caller of a request go on.
func (d *Driver) answer(r *request) {
	d.queued.Release(r.weight)
	r.done <- struct{}{}
}

// commitLoop is the committer: the only goroutine that writes. It takes what is queued as one
// group, checks each row's condition in order, applies them as one batch and leaves the
// wait for the disk to syncLoop, so that the next group is built meanwhile.
func (d *Driver) commitLoop() {
	defer close(d.syncing)
	for first := range d.requests {
		g := d.addRequest(d.newGroup(), first)
		for more := true; more && g.rows < groupRowsMax; {
			select {
			case r, open := <-d.requests:
				if more = open; open {
					g = d.addRequest(g, r)
				}
			default:
				more = false
			}
		}
		d.commit(g)
	}
}

func (d *Driver) newGroup() *group {
	d.touched.clear()
	d.space.tick()
	g := d.spareGroup()
	g.batch = d.db.NewBatch(pebbledb.WithInitialSizeBytes(64<<10), pebbledb.WithMaxRetainedSizeBytes(2*groupBytesMax))
	d.scratchValue = appendMark(d.scratchValue[:0], d.synced.Load())
	if err := g.batch.LogData(d.scratchValue, nil); err != nil {
		d.fail(err)
	}
	return g
}

func (d *Driver) spareGroup() *group {
	select {
	case g := <-d.spare:
		return g
	default:
		return &group{}
	}
}

// addRequest evaluates the rows of a request into g, or into g and the groups after it. It
// returns the group under construction.
func (d *Driver) addRequest(g *group, r *request) *group {
	for _, i := range r.order {
		w := &r.rows[i]
		if g.rows >= groupRowsMax || g.batch.Len() >= d.groupBytes || !d.touched.add(w.print) {
			d.commit(g)
			g = d.newGroup()
			d.touched.add(w.print)
		}
		if w.kind == sweepRow {
			d.touched.add(fingerprint(w.id, payloadSpace))
		}
		g.rows++
		before := g.batch.Count()
		r.results[i] = d.evaluate(g, r, w)
		if !w.lazy && g.batch.Count() != before {
			g.sync = true
		}
	}
	g.requests = append(g.requests, r)
	return g
}

// commit makes a group visible, answers its lazy requests and passes the others on.
func (d *Driver) commit(g *group) {
	err := d.apply(g)
	if g.iter != nil {
		err = errors.Join(err, g.iter.Close())
		g.iter = nil
	}
	for _, f := range g.floors {
		f.visible()
	}
	g.floors = g.floors[:0]
	if err != nil {
		d.fail(fmt.Errorf("commit: %w", err))
	}
	d.answerLazy(g)
	d.syncing <- g
}

func (d *Driver) apply(g *group) error {
	if err := d.failure(); err != nil {
		return err
	}
	if g.batch.Count() == 0 {
		return nil
	}
	if bound, yes := d.fresh.outgrown(); yes {
		if err := g.batch.Set([]byte{metaSpace, metaBound}, binary.BigEndian.AppendUint64(nil, uint64(bound)), nil); err != nil { //nolint:gosec // not negative
			return err
		}
	}
	d.space.wrote(g.batch.Len())
	if !g.sync {
		return d.db.Apply(g.batch, pebbledb.NoSync)
	}
	g.began = time.Now()
	d.durable.begin()
	return d.db.ApplyNoSyncWait(g.batch, pebbledb.Sync)
}

func (d *Driver) answerLazy(g *group) {
	kept := g.requests[:0]
	for _, r := range g.requests {
		if r.lazy {
			d.answer(r)
		} else {
			kept = append(kept, r)
		}
	}
	clear(g.requests[len(kept):])
	g.requests = kept
}

// syncLoop waits for the disk, group by group in the order of their commits, and answers. A
// group without a synced write is answered when those before it are on disk: a
// conflict may be with a row of theirs.
func (d *Driver) syncLoop() {
	for g := range d.syncing {
		if g.sync {
			d.waitForDisk(g)
		}
		_ = g.batch.Close()
		for _, r := range g.requests {
			d.answer(r)
		}
		clear(g.requests)
		*g = group{requests: g.requests[:0], floors: g.floors[:0]}
		select {
		case d.spare <- g:
		default:
		}
	}
}

func (d *Driver) waitForDisk(g *group) {
	if err := g.batch.SyncWait(); err != nil {
		d.fail(fmt.Errorf("sync: %w", err))
	}
	d.synced.Store(uint64(g.batch.SeqNum()))
	d.durable.end()
	if d.cfg.Observer.Synced != nil {
		d.cfg.Observer.Synced(time.Since(g.began), g.rows)
	}
}
