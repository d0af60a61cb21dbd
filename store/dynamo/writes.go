package dynamo

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Bounds of a batch.
const (
	batchMax      = 25      // statements, DynamoDB's limit
	batchBytesMax = 1 << 20 // so that no write waits long for another's payload
	// batchLooks is how many writes more than batchMax are looked at for a batch.
	batchLooks = 64
)

// lingerMax is how long a patient write waits for company; the rest of store.PatientMax is for timers that are late.
const lingerMax = store.PatientMax * 3 / 4

// sharedEvery is the time from one request that is less than full to the next, unless nothing is under way. Most of
// what a write costs in CPU is its request.
const sharedEvery = 2 * time.Millisecond

// stalledAfter is when requests that are not answered count no more against SharedMax: one such connection after the
// other must not hold up all writes.
const stalledAfter = 50 * time.Millisecond

// writes are the writes of all calls that are not answered. A write is sent at once when nothing is
// under way. Else writes wait for a full batch, for a moment, or, when SharedMax requests are under way, for the
// answer to one, though not for long: the busier it is the fuller the batches are.
type writes struct {
	mu       sync.Mutex // guards everything below, and what it is said to guard elsewhere
	ready    []*write   // in order of arrival
	alone    []*write   // likewise; of these, each is a request
	deferral deferral
	hurried  int          // writes in ready that are not patient
	requests int          // under way
	lingers  bool         // a timer is set for the patient ones
	shared   task.Instant // when the last request began that was less than full
	wake     task.Instant // when a timer looks for the next; zero when none is set
	groups   map[groupKey]*group
	limit    limit
	loads    map[task.Partition]store.KeyLoad // of the schedule, since they were taken last
}

// begin sends the heads of a call.
func (d *Driver) begin(c *call, heads []*write) {
	q := &d.writes
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range heads {
		d.start(w)
	}
	c.answered()
	d.pump()
}

// answered counts an answer, and wakes the caller with the last one. The caller of it holds writes.mu.
func (c *call) answered() {
	if c.left--; c.left == 0 {
		close(c.done)
	}
}

// abandon makes the writes of a call that were not sent end unsent.
func (d *Driver) abandon(c *call) {
	d.writes.mu.Lock()
	defer d.writes.mu.Unlock()
	c.gone = true
}

// admit makes a write ready, or holds it back with its throttled group. The caller holds mu.
func (d *Driver) admit(w *write) {
	if g := d.writes.groups[w.group]; g != nil && w.paced == nil {
		w.since = d.cfg.Clock.Now()
		g.held = append(g.held, w)
		d.release(g)
		return
	}
	d.enqueue(w)
}

func (d *Driver) enqueue(w *write) {
	q := &d.writes
	switch {
	case w.alone || d.cfg.Single:
		q.alone = append(q.alone, w)
		return
	case w.call == nil && w.paced == nil:
		d.enqueueDeferred(w)
		return
	}
	if w.kind == store.PutControl { // a heartbeat waits behind no task's write
		q.ready = slices.Insert(q.ready, 0, w)
	} else {
		q.ready = append(q.ready, w)
	}
	if !w.patient {
		q.hurried++
	}
}

// pump starts the requests that may start. The caller holds mu.
func (d *Driver) pump() {
	q := &d.writes
	for q.requests < int(q.limit.now) {
		batch := d.take()
		if len(batch) == 0 {
			return
		}
		q.requests++
		d.running.Go(func() { d.send(batch) })
	}
}

// take removes the writes of one request from the queue; none when there is nothing to send now.
func (d *Driver) take() []*write {
	q := &d.writes
	for len(q.alone) > 0 {
		w := q.alone[0]
		q.alone = shifted(q.alone, 1)
		if !w.isGone() {
			return []*write{w}
		}
		d.settle(w, errGone)
	}
	switch {
	case len(q.ready) >= batchMax:
	case len(q.ready) == 0:
		if !d.deferredMayGo() {
			return nil
		}
	case q.hurried == 0 && q.requests < d.cfg.SharedMax:
		d.linger()
		return nil
	case d.tooEarly():
		return nil
	}
	batch, gone := q.gather()
	for _, w := range gone {
		d.settle(w, errGone)
	}
	if len(gone) > 0 && len(batch) == 0 {
		return d.take()
	}
	return batch
}

// errGone is the outcome of a write that was not sent, since its caller gave up; nobody reads it.
var errGone = errors.New("the caller gave up")

func (w *write) isGone() bool { return w.call != nil && w.call.gone }

func (w *write) sameKey(other *write) bool { return w.hash == other.hash }

// gather takes the first writes that may share a request: no two of one key, and not too large together. What
// room is left is for deferred deletions. It takes writes of callers who gave up, too.
func (q *writes) gather() (batch, gone []*write) {
	most := batchMax
	if len(q.deferral.ready) >= batchMax {
		most -= deferredShare
	}
	batch = make([]*write, 0, min(batchMax, len(q.ready)+len(q.deferral.ready)))
	var rest []*write
	bytes, looked := 0, 0
	for _, w := range q.ready {
		if len(batch) == most || looked == batchMax+batchLooks {
			break
		}
		looked++
		if w.isGone() {
			gone = append(gone, w)
			if !w.patient {
				q.hurried--
			}
			continue
		}
		fits := len(batch) == 0 || bytes+w.bytes <= batchBytesMax
		if !fits || slices.ContainsFunc(batch, w.sameKey) {
			rest = append(rest, w)
			continue
		}
		batch, bytes = append(batch, w), bytes+w.bytes
		if !w.patient {
			q.hurried--
		}
	}
	taken := len(batch) + len(gone)
	copy(q.ready[taken:], rest)
	q.ready = shifted(q.ready, taken)
	return q.deferral.fill(batch), gone
}

// shifted removes the first n; an emptied queue begins its memory anew.
func shifted(queue []*write, n int) []*write {
	clear(queue[:n])
	if n == len(queue) {
		return queue[:0]
	}
	return queue[n:]
}

// linger sends patient writes when they have waited long enough.
func (d *Driver) linger() {
	q := &d.writes
	if q.lingers {
		return
	}
	q.lingers = true
	d.running.Go(func() {
		_ = clock.Sleep(d.base, d.cfg.Clock, lingerMax) // at its end they are sent in any case
		q.mu.Lock()
		defer q.mu.Unlock()
		q.lingers = false
		q.rush()
		d.pump()
	})
}

// rush makes the writes that are ready go now.
func (q *writes) rush() {
	for _, w := range q.ready {
		w.patient = false
	}
	q.hurried = len(q.ready)
}

// tooEarly reports whether a request that is less than full has to wait; it looks again in time. The caller holds mu.
func (d *Driver) tooEarly() bool {
	q := &d.writes
	now := d.cfg.Clock.Now()
	apart := time.Duration(0)
	switch {
	case q.deferral.closing:
	case q.requests >= d.cfg.SharedMax:
		apart = stalledAfter
	case q.requests > 0:
		apart = sharedEvery
	}
	if passed := now.Sub(q.shared); passed >= 0 && passed < apart {
		d.lookAgain(now, apart-passed)
		return true
	}
	q.shared = now
	return false
}

func (d *Driver) lookAgain(now task.Instant, wait time.Duration) {
	q := &d.writes
	at := now.Add(wait)
	if q.wake != 0 && q.wake <= at {
		return
	}
	q.wake = at
	d.running.Go(func() {
		_ = clock.Sleep(d.base, d.cfg.Clock, wait)
		q.mu.Lock()
		defer q.mu.Unlock()
		if q.wake == at {
			q.wake = 0
		}
		d.pump()
	})
}

// settle notes what became of a write and lets the next of its key begin. The caller holds mu.
func (d *Driver) settle(w *write, result error) {
	d.paceDone(w)
	if w.call == nil {
		d.undefer(w, result)
	} else {
		d.answer(w, result)
	}
	for _, next := range w.next {
		d.unblock(next)
	}
}

// answer tells the caller of a write its result, and lets what follows it begin, or end. The caller holds mu.
func (d *Driver) answer(w *write, result error) {
	c := w.call
	c.results[w.at] = result
	if f := w.follower; f != nil {
		switch {
		case holds(w.kind, result):
		case errors.Is(result, store.ErrUnknown):
			f.skipped = fmt.Errorf("%w: what it follows: %w", store.ErrUnknown, result)
		default:
			f.skipped = store.ErrSkipped
		}
		d.unblock(f)
	}
	c.answered()
}

// holds reports whether what follows a write may be written.
func holds(kind store.OpKind, result error) bool {
	op := store.Op{Kind: kind}
	return op.Holds(result)
}

// unblock begins a write when it waits for nothing else. The caller holds mu.
func (d *Driver) unblock(w *write) {
	if w.before--; w.before <= 0 {
		d.start(w)
	}
}
