package dynamo

import (
	"fmt"
	"hash/maphash"
	"slices"
	"time"
	"unicode/utf8"

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

	// Guarded by writer.mu.
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

// wakeRow is a wake-up row as a write names it.
type wakeRow struct {
	key store.WakeKey
	seq uint64
}

// call is one call of Apply that waits for its writes.
type call struct {
	results []error
	left    int  // guarded by writer.mu: writes without a result, and 1 until all have started
	gone    bool // guarded by writer.mu: the caller gave up, so what was not sent yet is not sent
	done    chan struct{}
}

// finishOne counts a write as done, and wakes the caller after the last one. The caller holds writer.mu.
func (c *call) finishOne() {
	if c.left--; c.left == 0 {
		close(c.done)
	}
}

func (w *write) isGone() bool { return w.call != nil && w.call.gone }

// The limits of DynamoDB for keys.
const (
	hashBytesMax  = 2048
	rangeBytesMax = 1024
)

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

// encode fills in w from an op. The error says why DynamoDB cannot store that.
func (w *write) encode(op *store.Op, s *shapes, now task.Instant) error {
	w.kind, w.shape = op.Kind, s.of(op)
	if w.shape == nil {
		return fmt.Errorf("%w op: kind %d", store.ErrMalformed, op.Kind)
	}
	w.values = make([]types.AttributeValue, 0, 7)
	w.linger = lingerOf(op)
	w.group = groupKey{w.shape.table, op.Task.Partition}
	var err error
	switch op.Kind {
	case store.PutWakeup, store.ReplaceWakeup, store.DeleteWakeup:
		if op.Kind == store.DeleteWakeup && w.shape.guarded {
			// A deletion in a batch cannot tell whether there was a row.
			w.alone, w.deferred = !op.Lazy, op.Lazy
		}
		err = w.encodeWakeup(&op.Task)
	case store.PutTask, store.ReplaceTask:
		err = w.encodeTask(op)
	case store.PutPayload:
		w.expiry = payloadExpiry(now, &op.Task)
		w.add(bytesValue(op.Payload), numberValue(expirySeconds(w.expiry)), textValue(op.Task.ID.String()))
		w.bytes = len(op.Payload)
	case store.DeletePayload:
		w.add(textValue(op.Task.ID.String()))
	case store.PutControl, store.DeleteControl:
		w.alone = op.Kind == store.DeleteControl
		err = w.encodeControl(op)
	}
	if err == nil {
		w.hash = w.keyHash()
	}
	return err
}

func (w *write) add(values ...types.AttributeValue) { w.values = append(w.values, values...) }

// addRow adds the attributes that every encoded row has.
func (w *write) addRow(seq uint64, encoded []byte) {
	w.add(numberValue(seq), bytesValue(encoded))
	w.bytes = len(encoded)
}

// The usual sizes, so that encoding a row allocates once.
const (
	rowBytesLikely     = 320
	attemptBytesLikely = 96
)

func encodeTask(t *task.Task) []byte {
	size := rowBytesLikely + len(t.Payload) + attemptBytesLikely*len(t.History)
	return store.AppendTask(make([]byte, 0, size), t)
}

func (w *write) encodeWakeup(t *task.Task) error {
	if t.WakeRow.At > instantMax {
		return fmt.Errorf("%w wake-up row of %s: at %d, which is beyond the year 2286", store.ErrMalformed, t.ID, t.WakeRow.At)
	}
	w.wakeRow = wakeRow{store.KeyOf(t), t.WakeRow.Seq}
	if w.kind != store.DeleteWakeup {
		w.addRow(t.WakeRow.Seq, encodeTask(t))
	}
	w.add(textValue(t.Partition.String()), textValue(positionText(t.WakeRow.At, t.ID)))
	switch {
	case w.kind == store.ReplaceWakeup:
		w.add(numberValue(t.WakeRow.Seq - 1))
	case w.shape.guarded:
		w.add(numberValue(t.WakeRow.Seq))
	}
	return nil
}

func (w *write) encodeTask(op *store.Op) error {
	t := &op.Task
	if t.Ended > instantMax {
		return fmt.Errorf("%w task %s: ended %d; the year 2286 is the last", store.ErrMalformed, t.ID, t.Ended)
	}
	w.addRow(t.Seq, encodeTask(t))
	class := classOf(t)
	if class != liveRow {
		w.add(numberValue(expirySeconds(t.ExpireAt)))
	}
	if class == deadRow {
		w.add(textValue(t.Partition.String()), textValue(positionText(t.Ended, t.ID)))
	}
	w.add(textValue(t.ID.String()))
	if w.shape.guarded {
		w.add(numberValue(op.Replaces()))
	}
	return nil
}

func (w *write) encodeControl(op *store.Op) error {
	c := &op.Control
	if err := checkControlKey(c.Kind, c.Name); err != nil {
		return err
	}
	version := c.Version
	if op.Kind == store.PutControl {
		w.addRow(c.Version, store.AppendControl(nil, c))
		version--
	}
	w.add(textValue(c.Kind), textValue(c.Name))
	if w.shape.guarded {
		w.add(numberValue(version))
	}
	return nil
}

func checkControlKey(kind, name string) error {
	if len(kind) > hashBytesMax || len(name) > rangeBytesMax || !utf8.ValidString(kind) || !utf8.ValidString(name) {
		return fmt.Errorf("%w control key: kind %.40q, name %.40q; want UTF-8 of at most %d and %d bytes", store.ErrMalformed, kind, name, hashBytesMax, rangeBytesMax)
	}
	return nil
}

// key returns the values of the row's key.
func (w *write) key() []types.AttributeValue {
	from := len(w.shape.set)
	return w.values[from : from+len(w.shape.key)]
}

// keyItem returns the key as requests for one row want it.
func (w *write) keyItem() item {
	m := make(item, len(w.shape.key))
	for i, v := range w.key() {
		m[w.shape.key[i]] = v
	}
	return m
}

// item returns the whole row.
func (w *write) item() item {
	m := w.keyItem()
	for i, name := range w.shape.set {
		m[name] = w.values[i]
	}
	return m
}

// conditionValues returns the values that shape.condition names.
func (w *write) conditionValues() item {
	switch {
	case w.shape.form == raise:
		return item{":" + attrSeq: w.values[slices.Index(w.shape.set, attrSeq)]}
	case !w.shape.guarded:
		return nil
	}
	return item{":" + attrSeq: w.values[len(w.values)-1]}
}

var seed = maphash.MakeSeed()

// keyHash returns a hash of the key. Two keys with the same hash only go in different requests.
func (w *write) keyHash() uint64 {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.WriteString(*w.shape.table)
	for _, v := range w.key() {
		if s, ok := v.(*types.AttributeValueMemberS); ok {
			_, _ = h.WriteString(s.Value)
			_ = h.WriteByte(0)
		}
	}
	return h.Sum64()
}
