package dynamo

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// form says what a write does to its row.
type form uint8

const (
	insert  form = iota // conflicts when the row exists
	raise               // insert, or replace a row with a lower attrSeq; a statement of a batch can only insert
	replace             // conflicts unless the row's attrSeq is the one before
	remove              // conflicts when the shape is guarded and the row has another attrSeq
)

// shape is one kind of write: as a PartiQL statement, whose parameters are the values of set, then of key,
// then the wanted attrSeq of a guarded shape; and as the condition of a PutItem or DeleteItem.
type shape struct {
	table   *string
	form    form
	key     []string // attributes of the key
	set     []string // the other attributes of the row
	drop    []string // attributes that a replaced row may have had
	guarded bool     // whether the row must have a certain attrSeq

	statement *string
	condition *string // with :q for the wanted attrSeq, or the row's own one; nil for none
}

// shapes holds all kinds of writes on the tables of one prefix.
type shapes struct {
	putWakeup, replaceWakeup      shape
	deleteWakeup, deleteAnyWakeup shape
	putTask, replaceTask          [3]shape // by rowClass
	putPayload, deletePayload     shape
	putControl, replaceControl    shape
	deleteControl                 shape
}

// rowClass says which attributes a task row has.
type rowClass uint8

const (
	liveRow rowClass = iota
	endedRow
	deadRow
)

func classOf(t *task.Task) rowClass {
	switch {
	case !t.State.IsEnd():
		return liveRow
	case t.State == task.Dead:
		return deadRow
	}
	return endedRow
}

// taskAttributes are the attributes of a task row besides its key.
var taskAttributes = [3][]string{
	liveRow:  {attrSeq, attrRow},
	endedRow: {attrSeq, attrRow, attrExpire},
	deadRow:  {attrSeq, attrRow, attrExpire, attrDead, attrDeadAt},
}

// staleAttributes are the attributes that a row of each class must not have and may have had before.
var staleAttributes = [3][]string{
	liveRow:  {attrExpire, attrDead, attrDeadAt},
	endedRow: {attrDead, attrDeadAt},
	deadRow:  nil,
}

func newShapes(t *tables) shapes {
	wakeup, control, id := []string{attrPartition, attrWake}, []string{attrKind, attrName}, []string{attrID}
	row := []string{attrSeq, attrRow}
	s := shapes{
		putWakeup:       shape{table: t.schedule, form: raise, key: wakeup, set: row},
		replaceWakeup:   shape{table: t.schedule, form: replace, key: wakeup, set: row, guarded: true},
		deleteWakeup:    shape{table: t.schedule, form: remove, key: wakeup, guarded: true},
		deleteAnyWakeup: shape{table: t.schedule, form: remove, key: wakeup},
		putPayload:      shape{table: t.payloads, form: insert, key: id, set: []string{attrRow, attrExpire}},
		deletePayload:   shape{table: t.payloads, form: remove, key: id},
		putControl:      shape{table: t.control, form: insert, key: control, set: row},
		replaceControl:  shape{table: t.control, form: replace, key: control, set: row, guarded: true},
		deleteControl:   shape{table: t.control, form: remove, key: control, guarded: true},
	}
	for class := range taskAttributes {
		s.putTask[class] = shape{table: t.tasks, form: insert, key: id, set: taskAttributes[class]}
		s.replaceTask[class] = shape{table: t.tasks, form: replace, key: id, set: taskAttributes[class], drop: staleAttributes[class], guarded: true}
	}
	for _, one := range []*shape{
		&s.putWakeup, &s.replaceWakeup, &s.deleteWakeup, &s.deleteAnyWakeup, &s.putPayload, &s.deletePayload,
		&s.putControl, &s.replaceControl, &s.deleteControl,
		&s.putTask[0], &s.putTask[1], &s.putTask[2], &s.replaceTask[0], &s.replaceTask[1], &s.replaceTask[2],
	} {
		one.fill()
	}
	return s
}

// fill fills in statement and condition.
func (s *shape) fill() {
	var b strings.Builder
	switch s.form {
	case insert, raise:
		fmt.Fprintf(&b, `INSERT INTO "%s" VALUE {%s}`, *s.table, list(append(slices.Clip(s.set), s.key...), "'%s':?", ","))
		s.condition = aws.String("attribute_not_exists(" + s.key[0] + ")")
		if s.form == raise {
			s.condition = aws.String(*s.condition + " OR " + attrSeq + "<:" + attrSeq)
		}
	case replace:
		fmt.Fprintf(&b, `UPDATE "%s" %s%s WHERE %s`, *s.table, list(s.set, "SET %s=?", " "), list(s.drop, " REMOVE %s", ""), list(s.key, "%s=?", " AND "))
	case remove:
		fmt.Fprintf(&b, `DELETE FROM "%s" WHERE %s`, *s.table, list(s.key, "%s=?", " AND "))
	}
	if s.guarded {
		b.WriteString(" AND " + attrSeq + "=?")
		s.condition = aws.String(attrSeq + "=:" + attrSeq)
	}
	s.statement = aws.String(b.String())
}

func list(names []string, form, between string) string {
	texts := make([]string, len(names))
	for i, n := range names {
		texts[i] = fmt.Sprintf(form, n)
	}
	return strings.Join(texts, between)
}

// of returns the shape of an op, nil when its kind is unknown.
func (s *shapes) of(op *store.Op) *shape {
	switch op.Kind {
	case store.PutWakeup:
		return &s.putWakeup
	case store.ReplaceWakeup:
		return &s.replaceWakeup
	case store.DeleteWakeup:
		if op.Task.WakeRow.Seq == 0 {
			return &s.deleteAnyWakeup
		}
		return &s.deleteWakeup
	case store.PutTask:
		return &s.putTask[classOf(&op.Task)]
	case store.ReplaceTask:
		return &s.replaceTask[classOf(&op.Task)]
	case store.PutPayload:
		return &s.putPayload
	case store.DeletePayload:
		return &s.deletePayload
	case store.PutControl:
		if op.Control.Version == 1 {
			return &s.putControl
		}
		return &s.replaceControl
	case store.DeleteControl:
		return &s.deleteControl
	}
	return nil
}

// instantMax is the last instant that fits into a sort key, in the year 2286.
const instantMax = task.Instant(1e16 - 1)

// instantText returns an instant in a sort key: microseconds in 16 digits.
func instantText(at task.Instant) string { return fmt.Sprintf("%016d", min(max(at, 0), instantMax)) }

// positionText returns a sort key. All have the same length, so that they sort as (instant, id).
func positionText(at task.Instant, id task.ID) string { return instantText(at) + "#" + id.String() }

// between returns the range of sort keys after a position (the zero one: from the start) up to an instant,
// inclusive on both ends as DynamoDB's BETWEEN is; ok is false when the range is empty.
func between(at task.Instant, id task.ID, through task.Instant) (low, high string, ok bool) {
	if through < 0 {
		return "", "", false
	}
	low = instantText(0)
	if at > 0 || !id.IsZero() {
		low = positionText(at, id) + "!" // after the key itself, before any other
	}
	high = instantText(through) + "$" // after every id, since '$' comes after '#'
	return low, high, low <= high
}

func taskKey(id task.ID) item { return item{attrID: textValue(id.String())} }

func wakeKey(k store.WakeKey) item {
	return item{attrPartition: textValue(k.Partition.String()), attrWake: textValue(positionText(k.Wake, k.ID))}
}

// The limits of DynamoDB for keys.
const (
	hashBytesMax  = 2048
	rangeBytesMax = 1024
)

func checkControlKey(kind, name string) error {
	if len(kind) > hashBytesMax || len(name) > rangeBytesMax || !utf8.ValidString(kind) || !utf8.ValidString(name) {
		return fmt.Errorf("%w control key: kind %.40q, name %.40q; want UTF-8 of at most %d and %d bytes", store.ErrMalformed, kind, name, hashBytesMax, rangeBytesMax)
	}
	return nil
}
