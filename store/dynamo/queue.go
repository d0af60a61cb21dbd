package dynamo

import (
	"slices"
	"time"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Bounds of a batch.
const (
	batchRowsMax  = 25      // statements, DynamoDB's limit
	batchBytesMax = 1 << 20 // so that no write waits long for another's payload
	// batchSkipsMax is how many writes that do not fit into a batch are looked at before it goes as it is.
	batchSkipsMax = 64
)

const (
	// busyLinger is how long a write waits for others while another request is in flight.
	busyLinger = 2 * time.Millisecond
	// stalledLinger is how much longer it waits while half of the requests that may be in flight are: slow
	// connections must not hold up all writes.
	stalledLinger = 40 * time.Millisecond
	// endsInRowMin is how many patient ends have to follow each other within endLinger before one waits that
	// long.
	endsInRowMin = 8
)

// queue holds the writes that are ready to be sent, and gathers them into batches. A full batch is sent at
// once; less than that when one of its writes has waited for as long as it may, so the busier the driver, the
// fuller the batches. batcher.mu guards it.
type queue struct {
	ready []*write // in order of arrival
	flush bool     // nothing waits any more

	ends    int          // patient ends that followed each other closely
	lastEnd task.Instant // when the last of them arrived
}

func (q *queue) add(w *write, now task.Instant) {
	w.ready = now
	if w.linger == endLinger && !q.endsAreFrequent(now) {
		w.linger = patientLinger
	}
	if w.kind == store.PutControl { // a heartbeat waits behind no task's write
		q.ready = slices.Insert(q.ready, 0, w)
	} else {
		q.ready = append(q.ready, w)
	}
}

// endsAreFrequent notes a patient end, and reports whether waiting for others pays. A lone end would wait in
// vain, and so would that of a task whose caller schedules the next one when it has ended.
func (q *queue) endsAreFrequent(now task.Instant) bool {
	if q.ends++; now.Sub(q.lastEnd) > endLinger {
		q.ends = 0
	}
	q.lastEnd = now
	return q.ends >= endsInRowMin
}

// take removes the writes of the next request. gone are those whose callers gave up, which it removes as
// well. When both are empty, at is when to ask again; zero means after the next answer.
func (q *queue) take(now task.Instant, inFlight, requestsMax int) (batch, gone []*write, at task.Instant) {
	if len(q.ready) == 0 {
		return nil, nil, 0
	}
	if len(q.ready) < batchRowsMax && !q.flush {
		if at := q.dueAt(inFlight, requestsMax); at > now {
			return nil, nil, at
		}
	}
	batch, gone = q.gather()
	return batch, gone, 0
}

// dueAt returns when the first write has waited for as long as it may.
func (q *queue) dueAt(inFlight, requestsMax int) (at task.Instant) {
	shortest, late := time.Duration(0), time.Duration(0)
	switch {
	case inFlight >= max(1, requestsMax/2):
		late = stalledLinger
	case inFlight > 0:
		shortest = busyLinger
	}
	for i, w := range q.ready {
		due := w.ready.Add(max(w.linger, shortest) + late)
		if w.alone {
			due = w.ready
		}
		if i == 0 || due < at {
			at = due
		}
	}
	return at
}

// gather removes the first writes that may share a request: no two of one key, and not too large together.
// One that goes alone shares it with none.
func (q *queue) gather() (batch, gone []*write) {
	batch = make([]*write, 0, min(batchRowsMax, len(q.ready)))
	var skipped []*write
	bytes, looked := 0, 0
	for _, w := range q.ready {
		if len(batch) == batchRowsMax || len(skipped) == batchSkipsMax || len(batch) == 1 && batch[0].alone {
			break
		}
		looked++
		fits := len(batch) == 0 || !w.alone && bytes+w.bytes <= batchBytesMax
		switch {
		case w.isGone():
			gone = append(gone, w)
		case !fits || slices.ContainsFunc(batch, func(other *write) bool { return w.hash == other.hash }):
			skipped = append(skipped, w)
		default:
			batch, bytes = append(batch, w), bytes+w.bytes
		}
	}
	copy(q.ready[looked-len(skipped):looked], skipped)
	q.ready = withoutFirst(q.ready, looked-len(skipped))
	return batch, gone
}

// withoutFirst removes the first n writes. An emptied slice is filled from its beginning again.
func withoutFirst(writes []*write, n int) []*write {
	clear(writes[:n])
	if n == len(writes) {
		return writes[:0]
	}
	return writes[n:]
}
