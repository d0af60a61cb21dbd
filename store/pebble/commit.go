package pebble

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"sync"
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

// group holds the rows that one batch commits. A request whose rows fall into several groups is answered with
// the last of them.
type group struct {
	batch    *pebbledb.Batch
	rows     int
	durable  bool   // it wrote a row that is not lazy
	sync     bool   // and it is synced itself, not with a later group
	covers   uint64 // the commits up to this one are on disk when its sync is done
	log      uint64 // the number of the log with its rows, if it is synced; 0 when a new one began at that time
	requests []*request
	floors   []*floor           // those with pending entries of this group
	iter     *pebbledb.Iterator // sees the database before this group; nil until needed
	began    time.Time
}

// Apply implements store.Driver.
func (d *Driver) Apply(ctx context.Context, ops []store.Op) ([]error, error) {
	r := d.newRequest(len(ops))
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
		d.recycle(r)
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

// answer wakes the caller of a request.
func (d *Driver) answer(r *request) {
	d.queued.Release(r.weight)
	r.done <- struct{}{}
}

// commitLoop is the committer, the only goroutine that writes. It takes the queued requests as one group,
// checks each row's condition in order, and applies them as one batch. syncLoop waits for the disk, so that
// the next group can be built meanwhile.
func (d *Driver) commitLoop() {
	defer close(d.syncing)
	defer d.patience.Stop()
	for {
		select {
		case r, open := <-d.requests:
			if !open {
				d.syncPatient()
				return
			}
			d.commitQueued(r)
		case <-d.patience.C:
			d.syncPatient()
		case <-d.durable.hastens:
			d.syncPatient()
		}
	}
}

// commitQueued commits a request together with what is queued behind it.
func (d *Driver) commitQueued(first *request) {
	g := d.addRequest(d.newGroup(), first)
	for g.rows < groupRowsMax {
		select {
		case r, open := <-d.requests:
			if !open {
				d.commit(g)
				return
			}
			g = d.addRequest(g, r)
			continue
		default:
		}
		break
	}
	d.commit(g)
}

func (d *Driver) newGroup() *group {
	d.touched.clear()
	d.seen.begun.Store(d.headers.generation)
	d.space.tick()
	g := &group{batch: d.db.NewBatch(pebbledb.WithInitialSizeBytes(64<<10), pebbledb.WithMaxRetainedSizeBytes(2*groupBytesMax))}
	d.scratchValue = appendMark(d.scratchValue[:0], d.synced.Load())
	if err := g.batch.LogData(d.scratchValue, nil); err != nil {
		d.fail(err)
	}
	return g
}

// addRequest evaluates the rows of a request into g, or into g and the groups after it. It returns the group
// that is being built.
func (d *Driver) addRequest(g *group, r *request) *group {
	for _, i := range r.order {
		w := &r.rows[i]
		if !r.tries(i) {
			r.results[i] = store.ErrSkipped
			continue
		}
		if g.rows >= groupRowsMax || g.batch.Len() >= d.groupBytes || !d.touched.add(w.hash) {
			d.commit(g)
			g = d.newGroup()
			d.touched.add(w.hash)
		}
		g.rows++
		g.sync = g.sync || !r.patient
		before := g.batch.Count()
		r.results[i] = d.evaluate(g, r, w)
		if !w.lazy && g.batch.Count() != before {
			g.durable = true
		}
	}
	g.requests = append(g.requests, r)
	return g
}

// commit makes a group visible, answers its lazy requests and passes the others to syncLoop. If all of these
// are patient, they wait for the next group that is synced, or until they have waited long enough.
func (d *Driver) commit(g *group) {
	d.waiting.begin()
	g.sync = g.sync && (g.durable || d.unsynced)
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
	d.keepPatient(g)
	if g.sync && g.log == 0 && d.failure() == nil {
		d.commitBehind(g)
		return
	}
	d.syncing <- g
}

// commitBehind answers the requests of a group with an empty one behind it. The group began a new log, or
// another goroutine did meanwhile, and which of the two logs has the group cannot be told: the engine writes a
// large group to the old one. So the end of the new log would not be known until the next write.
func (d *Driver) commitBehind(g *group) {
	behind := d.newGroup()
	behind.sync, d.unsynced = true, true
	behind.requests, g.requests = g.requests, behind.requests
	d.syncing <- g
	d.commit(behind)
}

func (d *Driver) apply(g *group) error {
	if err := d.failure(); err != nil {
		return err
	}
	if g.batch.Count() == 0 && !g.sync {
		return nil
	}
	if bound, yes := d.fresh.outgrown(); yes {
		if err := g.batch.Set([]byte{metaSpace, metaBound}, binary.BigEndian.AppendUint64(nil, uint64(bound)), nil); err != nil {
			return err
		}
	}
	d.space.wrote(g.batch.Len())
	if g.durable {
		d.last, d.unsynced = d.durable.begin(), true
	}
	if !g.sync {
		return d.db.Apply(g.batch, pebbledb.NoSync)
	}
	g.began, g.covers, d.unsynced = time.Now(), d.last, false
	log := d.marks.current.Load()
	err := d.db.ApplyNoSyncWait(g.batch, pebbledb.Sync)
	if log == d.marks.current.Load() {
		g.log = log
	}
	return err
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

// keepPatient removes the patient requests from a group that is not synced, and adds those that waited to one
// that is.
func (d *Driver) keepPatient(g *group) {
	if g.sync {
		g.requests, g.rows = append(g.requests, d.patient...), g.rows+d.patientRows
		clear(d.patient)
		d.patient, d.patientRows = d.patient[:0], 0
		return
	}
	if !d.unsynced {
		return // they wait only for the groups before
	}
	if len(d.patient) == 0 {
		d.patience.Reset(d.cfg.patience)
	}
	d.patient, d.patientRows = append(d.patient, g.requests...), d.patientRows+g.rows
	clear(g.requests)
	g.requests = g.requests[:0]
	if d.patientRows >= groupRowsMax {
		d.patience.Reset(0)
	}
}

// syncPatient syncs so that the patient requests can be answered.
func (d *Driver) syncPatient() {
	if !d.unsynced {
		return
	}
	g := d.newGroup()
	g.sync = true
	d.commit(g)
}

// syncLoop waits for the disk, group by group in the order of their commits, and answers their requests. It
// answers a group that is not synced when the groups before it are on disk, because a conflict may be with a
// row of theirs.
func (d *Driver) syncLoop() {
	for g := range d.syncing {
		if g.sync {
			d.waitForDisk(g)
		}
		_ = g.batch.Close()
		for _, r := range g.requests {
			d.answer(r)
		}
		d.waiting.end()
	}
}

func (d *Driver) waitForDisk(g *group) {
	if err := g.batch.SyncWait(); err != nil {
		d.fail(fmt.Errorf("sync: %w", err))
	}
	if d.failure() != nil {
		g.covers = math.MaxUint64 // no reader needs to wait any more
	} else if g.log != 0 {
		d.marks.note(g.log, uint64(g.batch.SeqNum())+uint64(g.batch.Count()))
	}
	d.synced.Store(uint64(g.batch.SeqNum()))
	d.durable.end(g.covers)
	if d.cfg.Observer.Synced != nil {
		d.cfg.Observer.Synced(time.Since(g.began), g.rows)
	}
}

// durable numbers the commits with writes that are not lazy, so that a read of single rows can wait until
// what it saw is on disk. Otherwise a caller could act on a row that is gone after a crash. Scans do not
// wait: their callers follow up with conditional writes, which the log has behind the rows that they depend
// on.
type durable struct {
	mu      sync.Mutex
	moved   sync.Cond     // on mu: ended grew
	begun   uint64        // the last commit that may be visible
	ended   uint64        // the last commit that is on disk
	hastens chan struct{} // asks the committer to sync patient writes now
}

// begin numbers a commit that is about to become visible.
func (d *durable) begin() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.begun++
	return d.begun
}

// commits returns how many have begun.
func (d *durable) commits() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.begun
}

// end notes that the commits up to n are on disk.
func (d *durable) end(n uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = max(d.ended, n)
	d.moved.Broadcast()
}

// wait returns when everything that is visible now is on disk: after two syncs at most.
func (d *durable) wait() {
	d.mu.Lock()
	defer d.mu.Unlock()
	target := d.begun
	if d.ended >= target {
		return
	}
	select {
	case d.hastens <- struct{}{}:
	default:
	}
	for d.ended < target {
		d.moved.Wait()
	}
}
