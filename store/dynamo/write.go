package dynamo

import (
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// write is one op on its way. It is encoded in the caller's goroutine, so that nothing is read later that
// belongs to the caller, who may give up waiting.
type write struct {
	shape *shape
	// values are those of shape.set, then of shape.key, then the attrSeq that a guarded shape wants.
	values  []types.AttributeValue
	kind    store.OpKind
	hash    uint64 // of the key
	bytes   int    // about what it takes of a request
	group   groupKey
	alone   bool          // goes in a request of its own
	linger  time.Duration // how long it may wait for others
	queued  task.Instant  // when it was ready
	until   task.Instant  // when the payload row expires
	name    controlKey    // of control rows
	wakeRow wakeRow       // of wake-up rows

	call *call // nil when nobody waits for it any more
	at   int   // in call
	// deferred writes are answered before they are sent: see deferral.
	deferred bool
	// follower is the next op of the call when that follows this one: it begins when this one is answered, if
	// it holds.
	follower *write

	// Guarded by writes.mu.
	next    []*write // of the same key: they begin when this one is done
	before  int      // writes of the same call that it has to wait for
	skipped error    // its outcome when what it follows does not hold

	tries  int           // that were throttled
	since  task.Instant  // of the first of them, or since when it was held back
	round  *throttledKey // in whose round it is sent
	memory members
}

// members are the attribute values of most writes, so that they cost one allocation together.
type members struct {
	texts   [4]types.AttributeValueMemberS
	numbers [3]types.AttributeValueMemberN
	row     types.AttributeValueMemberB
	values  [7]types.AttributeValue
}

type controlKey struct{ kind, name string }

// wakeRow is a wake-up row as a write names it.
type wakeRow struct {
	key store.WakeKey
	seq uint64
}

// The limits of keys on the service, in bytes.
const (
	hashBytesMax  = 2048
	rangeBytesMax = 1024
)

// encode fills in w; the error says why the op cannot be stored on DynamoDB.
func (d *Driver) encode(w *write, op *store.Op) error {
	w.kind, w.shape = op.Kind, d.shapes.shapeOf(op)
	if w.shape == nil {
		return fmt.Errorf("%w op: kind %d", store.ErrMalformed, op.Kind)
	}
	w.values = w.memory.values[:0]
	w.linger = lingerOf(op)
	w.group = groupKey{w.shape.table, op.Task.Partition}
	switch op.Kind {
	case store.PutWakeup, store.ReplaceWakeup, store.DeleteWakeup:
		if op.Kind == store.DeleteWakeup && w.shape.guarded {
			// A deletion in a batch cannot tell whether there was a row.
			w.alone, w.deferred = !op.Lazy, op.Lazy
		}
		return w.wakeup(&op.Task)
	case store.PutTask, store.ReplaceTask:
		return w.task(&op.Task)
	case store.PutPayload:
		w.until = payloadUntil(d.cfg.Clock.Now(), &op.Task)
		w.bytes = len(op.Payload)
		w.add(&types.AttributeValueMemberB{Value: op.Payload})
		w.number(0, expirySeconds(w.until))
		w.text(0, op.Task.ID.String())
	case store.DeletePayload:
		w.text(0, op.Task.ID.String())
	case store.PutControl, store.DeleteControl:
		w.alone = op.Kind == store.DeleteControl
		return w.control(op)
	}
	return nil
}

func (w *write) add(v types.AttributeValue) { w.values = append(w.values, v) }

func (w *write) text(n int, s string) {
	w.memory.texts[n].Value = s
	w.add(&w.memory.texts[n])
	w.bytes += len(s)
}

func (w *write) number(n int, v uint64) {
	w.memory.numbers[n].Value = strconv.FormatUint(v, 10)
	w.add(&w.memory.numbers[n])
}

func (w *write) encodeRow(t *task.Task) {
	size := rowBytesLikely + len(t.Payload) + attemptBytesLikely*len(t.History)
	w.memory.row.Value = store.AppendTask(make([]byte, 0, size), t)
	w.add(&w.memory.row)
	w.bytes += len(w.memory.row.Value)
}

// What rows take at most times, so that encoding them allocates once.
const (
	rowBytesLikely     = 320
	attemptBytesLikely = 96
)

func (w *write) wakeup(t *task.Task) error {
	if t.WakeRow.At > instantMax {
		return fmt.Errorf("%w wake-up row of %s: at %d, which is beyond the year 2286", store.ErrMalformed, t.ID, t.WakeRow.At)
	}
	w.wakeRow = wakeRow{store.KeyOf(t), t.WakeRow.Seq}
	if w.kind != store.DeleteWakeup {
		w.number(0, t.WakeRow.Seq)
		w.encodeRow(t)
	}
	w.text(0, partitionText(t.Partition))
	w.text(1, positionText(t.WakeRow.At, t.ID))
	switch {
	case w.kind == store.ReplaceWakeup:
		w.number(1, t.WakeRow.Seq-1)
	case w.shape.guarded:
		w.number(1, t.WakeRow.Seq)
	}
	return nil
}

func (w *write) task(t *task.Task) error {
	if t.Ended > instantMax {
		return fmt.Errorf("%w task %s: ended %d; the year 2286 is the last", store.ErrMalformed, t.ID, t.Ended)
	}
	w.number(0, t.Seq)
	w.encodeRow(t)
	class := classOf(t)
	if class != liveRow {
		w.number(1, expirySeconds(t.ExpireAt))
	}
	if class == deadRow {
		w.text(0, partitionText(t.Partition))
		w.text(1, positionText(t.Ended, t.ID))
	}
	w.text(2, t.ID.String())
	if w.shape.guarded {
		w.number(2, t.Seq-1)
	}
	return nil
}

func (w *write) control(op *store.Op) error {
	c := &op.Control
	if err := checkControlKey(c.Kind, c.Name); err != nil {
		return err
	}
	w.name = controlKey{c.Kind, c.Name}
	version := c.Version
	if op.Kind == store.PutControl {
		w.number(0, c.Version)
		w.memory.row.Value = store.AppendControl(nil, c)
		w.add(&w.memory.row)
		w.bytes += len(w.memory.row.Value)
		version--
	}
	w.text(0, c.Kind)
	w.text(1, c.Name)
	if w.shape.guarded {
		w.number(1, version)
	}
	return nil
}

func checkControlKey(kind, name string) error {
	if len(kind) > hashBytesMax || len(name) > rangeBytesMax || !utf8.ValidString(kind) || !utf8.ValidString(name) {
		return fmt.Errorf("%w control key: kind %.40q, name %.40q; want UTF-8 of at most %d and %d bytes", store.ErrMalformed, kind, name, hashBytesMax, rangeBytesMax)
	}
	return nil
}

// expirySeconds is the TTL for an instant: the first whole second that is not before it.
func expirySeconds(at task.Instant) uint64 {
	const second = 1_000_000
	if at > math.MaxInt64-second {
		at = math.MaxInt64 - second
	}
	return uint64(at+second-1) / second
}

// key is the part of values that is the row's key.
func (w *write) key() []types.AttributeValue {
	from := len(w.shape.set)
	return w.values[from : from+len(w.shape.key)]
}

// keyMap is the key in the form that requests for one row want.
func (w *write) keyMap() map[string]types.AttributeValue {
	m := make(map[string]types.AttributeValue, len(w.shape.key))
	for i, v := range w.key() {
		m[w.shape.key[i]] = v
	}
	return m
}

// item is the whole row.
func (w *write) item() map[string]types.AttributeValue {
	m := w.keyMap()
	for i, name := range w.shape.set {
		m[name] = w.values[i]
	}
	return m
}

// condition are the values that shape.condition names.
func (w *write) condition() map[string]types.AttributeValue {
	switch {
	case w.shape.form == raise:
		return map[string]types.AttributeValue{":" + attrSeq: w.values[slices.Index(w.shape.set, attrSeq)]}
	case !w.shape.guarded:
		return nil
	}
	return map[string]types.AttributeValue{":" + attrSeq: w.values[len(w.values)-1]}
}

var seed = maphash.MakeSeed()

// hashKey sets w.hash. Two keys with one hash only go in different requests.
func (w *write) hashKey() {
	var h maphash.Hash
	h.SetSeed(seed)
	_, _ = h.WriteString(*w.shape.table)
	for _, v := range w.key() {
		if s, ok := v.(*types.AttributeValueMemberS); ok {
			_, _ = h.WriteString(s.Value)
			_ = h.WriteByte(0)
		}
	}
	w.hash = h.Sum64()
}
