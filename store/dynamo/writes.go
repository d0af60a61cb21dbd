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

// How long a write waits for others to share its request, most of what a write costs in CPU. The rest of
// store.PatientMax and store.PatientEndMax is for timers that are late.
const (
	busyLinger    = 2 * time.Millisecond // while another request is under way; else it goes at once
	patientLinger = store.PatientMax * 3 / 4
	endLinger     = store.PatientEndMax * 4 / 5
	lazyLinger    = 100 * time.Millisecond
)

// endsInRow is how many ends have to come no further apart than endLinger before one waits for that long.
const endsInRow = 8

// stalledAfter is how much longer a write waits while SharedMax requests are under way: connections that
// stall one after the other must not hold up all writes.
const stalledAfter = 40 * time.Millisecond

// writes are the writes of all calls that are not answered. A full batch is sent at once, if RequestsMax
// allows. Less than that is sent when one of its writes has waited for its time, and fewer than SharedMax
// requests are under way. So the busier it is, the fuller the batches are.
type writes struct {
	mu        sync.Mutex // guards everything below, and what it is said to guard elsewhere
	ready     []*write   // in order of arrival
	alone     []*write   // likewise; of these, each is a request
	deferral  deferral
	requests  int          // under way
	ended     task.Instant // when the last patient end was ready
	ends      int          // patient ends that came one soon after the other
	wake      task.Instant // when a timer looks for the next; zero when none is set
	throttled map[groupKey]*throttledKey
	loads     map[task.Partition]store.KeyLoad // of the schedule, since they were taken last
}

// lingerOf is how long a write may wait for others.
func lingerOf(op *store.Op) time.Duration {
	switch {
	case op.Lazy:
		return lazyLinger
	case op.Patient && op.Kind == store.ReplaceTask && op.Task.State.IsEnd():
		return endLinger
	case op.Patient:
		return patientLinger
	}
	return 0
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

// enqueue makes a write ready. The caller holds mu.
func (d *Driver) enqueue(w *write) {
	q := &d.writes
	w.queued = clock.Steady(d.cfg.Clock)
	if w.linger == endLinger && !q.endsCome(w.queued) {
		w.linger = patientLinger
	}
	switch {
	case w.alone || d.cfg.Single:
		q.alone = append(q.alone, w)
	case w.call == nil && w.round == nil:
		q.deferral.ready = append(q.deferral.ready, w)
	case w.kind == store.PutControl: // a heartbeat waits behind no task's write
		q.ready = slices.Insert(q.ready, 0, w)
	default:
		q.ready = append(q.ready, w)
	}
}

// endsCome notes a patient end, and reports whether others come so often that it pays to wait for them. A
// lone one would wait in vain, and so would that of a task whose caller schedules the next when it has ended.
// The caller holds mu.
func (q *writes) endsCome(now task.Instant) bool {
	if q.ends++; now.Sub(q.ended) > endLinger {
		q.ends = 0
	}
	q.ended = now
	return q.ends >= endsInRow
}

// pump starts the requests that may start. The caller holds mu.
func (d *Driver) pump() {
	q := &d.writes
	for q.requests < d.cfg.RequestsMax {
		batch := d.take()
		if len(batch) == 0 {
			return
		}
		q.requests++
		select {
		case d.idle <- batch:
		default:
			d.running.Go(func() { d.sender(batch) })
		}
	}
}

// sender sends one batch after the other. It does not end in between, since the calls of the client go deep
// and growing the stack of a new goroutine for each was a twelfth of what they cost.
func (d *Driver) sender(batch []*write) {
	for {
		d.send(batch)
		select {
		case batch = <-d.idle:
		case <-d.base.Done():
			return
		}
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
	for {
		now := clock.Steady(d.cfg.Clock)
		at, ok := q.nextAt(&d.cfg)
		if !ok {
			return nil
		}
		if at > now {
			d.lookAgain(now, at)
			return nil
		}
		batch, gone := q.gather()
		for _, w := range gone {
			d.settle(w, errGone)
		}
		if len(batch) > 0 {
			return batch
		}
	}
}

// nextAt is when the next batch may be sent; ok is false when that is not before another request was
// answered.
func (q *writes) nextAt(c *Config) (at task.Instant, ok bool) {
	if len(q.ready) >= batchMax || q.deferral.closing {
		return 0, len(q.ready)+len(q.deferral.ready) > 0
	}
	at, ok = q.deferral.nextAt(q.requests, c)
	late, least := time.Duration(0), time.Duration(0)
	switch {
	case q.requests >= c.SharedMax:
		late = stalledAfter
	case q.requests > 0:
		least = busyLinger
	}
	for _, w := range q.ready {
		if due := w.queued.Add(max(w.linger, least) + late); !ok || due < at {
			at, ok = due, true
		}
	}
	return at, ok
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
		fits := len(batch) == 0 || bytes+w.bytes <= batchBytesMax
		switch {
		case w.isGone():
			gone = append(gone, w)
		case !fits || slices.ContainsFunc(batch, w.sameKey):
			rest = append(rest, w)
		default:
			batch, bytes = append(batch, w), bytes+w.bytes
		}
	}
	q.ready = without(q.ready, looked, rest)
	return q.deferral.fill(batch), gone
}

// without is a queue of whose first n writes only the rest is left.
func without(queue []*write, n int, rest []*write) []*write {
	copy(queue[n-len(rest):n], rest)
	return shifted(queue, n-len(rest))
}

// shifted removes the first n; an emptied queue begins its memory anew.
func shifted(queue []*write, n int) []*write {
	clear(queue[:n])
	if n == len(queue) {
		return queue[:0]
	}
	return queue[n:]
}

// lookAgain pumps again at an instant, unless that is done before.
func (d *Driver) lookAgain(now, at task.Instant) {
	q := &d.writes
	if q.wake != 0 && q.wake <= at {
		return
	}
	q.wake = at
	d.running.Go(func() {
		_ = clock.Sleep(d.base, d.cfg.Clock, at.Sub(now))
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
	d.leaveRound(w, !errors.Is(result, store.ErrThrottled))
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
