package dynamo

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// write is one op on its way to DynamoDB. The caller's goroutine encodes it, so that nothing is read later
// that belongs to the caller, who may give up waiting.
type write struct {
	shape *shape
	// values are those of shape.set, then of shape.key, then the attrSeq that a guarded shape wants.
	values  []types.AttributeValue
	kind    store.OpKind
	hash    uint64 // of the table and the key
	bytes   int    // about its size in a request
	group   groupKey
	alone   bool          // goes in a request of its own
	linger  time.Duration // how long it may wait for others
	ready   task.Instant  // when it could have been sent first
	expiry  task.Instant  // of a payload row
	wakeRow wakeRow       // of a wake-up row

	call *call // nil when nobody waits for the result any more
	at   int   // index of the op in the call
	// deferred is set for a deletion whose caller gets its result before it is sent.
	deferred bool
	// follower is the next op of the call when that follows this one.
	follower *write

	// Guarded by batcher.mu.
	next     []*write     // writes of the same key, which start when this one is done
	blockers int          // writes that have to be done before this one starts
	skip     error        // the result when the write that it follows failed
	attempts int          // requests that did not write it
	held     task.Instant // when it began to wait for its throttled group; zero: it does not
	round    *heldGroup   // the round of its group in which it is sent
}

// groupKey names the writes that share a key of a table or of its index, and so are throttled together.
type groupKey struct {
	table     *string
	partition task.Partition
}

// heldGroup holds the writes of a group that DynamoDB throttles, so that those of other groups go on. They
// are sent in rounds. A round in which a write was throttled is followed by a pause and a round of one batch;
// otherwise the next round is twice as large, so that the group catches up with what arrives. batcher.mu
// guards it.
type heldGroup struct {
	writes    []*write     // the one that waits longest is first
	progress  task.Instant // when a write was not throttled, or the group began
	size      int          // of the next round, at most
	rows      int          // in the round
	open      int          // writes of the round without an answer
	throttled int          // writes of the round that were throttled
	failures  int          // rounds in a row of which most was throttled
}

// wakeRow is a wake-up row as a write names it.
type wakeRow struct {
	key store.WakeKey
	seq uint64
}

// call is one call of Apply that waits for its writes.
type call struct {
	results []error
	left    int  // guarded by batcher.mu: writes without a result, and 1 until all have started
	gone    bool // guarded by batcher.mu: the caller gave up, so what was not sent yet is not sent
	done    chan struct{}
}

// finishOne counts a write as done, and wakes the caller after the last one. The caller holds batcher.mu.
func (c *call) finishOne() {
	if c.left--; c.left == 0 {
		close(c.done)
	}
}

func (w *write) isGone() bool { return w.call != nil && w.call.gone }

// How long a write waits for others to share its request, which is most of what it costs in CPU. The rest of
// store.PatientMax and store.PatientEndMax is for timers that are late.
const (
	patientLinger = store.PatientMax * 3 / 4
	endLinger     = store.PatientEndMax * 4 / 5
	lazyLinger    = 100 * time.Millisecond
)

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
