package dynamo

import (
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

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
