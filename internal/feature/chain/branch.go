package chain

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// branch is a follow-up as what follows its parent names it.
type branch struct {
	place  Place
	item   *kinesinv1.ScheduleItem // without what follows it
	follow []byte                  // that, as encode returns it
	count  uint32                  // of the follow-ups that it names itself
}

// thenField is the field then of a ScheduleItem; else and finally come after it, as in Followups, whose
// fields have the numbers of the edges.
const thenField = 40

// edgeOf returns the edge whose field has a number in a message where then has the first.
func edgeOf(number, then protowire.Number) (e task.Edge, ok bool) {
	n := number - then
	return task.Then + task.Edge(n), n >= 0 && n <= protowire.Number(task.Finally-task.Then)
}

// split decodes the first level of encoded follow-ups. It copies what follows each of them as it is encoded:
// otherwise each step of a chain would decode and encode all of the rest.
func split(b []byte) ([]branch, error) {
	var all []branch
	var counts [task.Finally + 1]uint32
	err := eachField(b, func(number protowire.Number, _, value []byte) error {
		edge, ok := edgeOf(number, protowire.Number(task.Then))
		if !ok {
			return nil
		}
		one := branch{place: Place{edge, counts[edge]}, item: &kinesinv1.ScheduleItem{}}
		counts[edge]++
		err := one.read(value)
		all = append(all, one)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w: what follows a task: %w", store.ErrCorrupt, err)
	}
	return all, nil
}

// read reads an encoded item.
func (b *branch) read(encoded []byte) error {
	own, at := 0, 0 // where fields begin that are the item's own and not read yet, and where the next field does
	err := eachField(encoded, func(number protowire.Number, field, value []byte) error {
		from := at
		at += len(field)
		edge, ok := edgeOf(number, thenField)
		if !ok {
			return nil
		}
		if b.follow == nil {
			b.follow = make([]byte, 0, len(encoded)-from)
		}
		b.follow = protowire.AppendBytes(protowire.AppendTag(b.follow, protowire.Number(edge), protowire.BytesType), value)
		b.count++
		err := b.item.UnmarshalVT(encoded[own:from])
		own = at
		return err
	})
	if err != nil {
		return err
	}
	return b.item.UnmarshalVT(encoded[own:])
}

// eachField calls see with each field of a message, and with its value if that is bytes.
func eachField(b []byte, see func(number protowire.Number, field, value []byte) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return protowire.ParseError(n)
		}
		m := protowire.ConsumeFieldValue(number, kind, b[n:])
		if m < 0 {
			return protowire.ParseError(m)
		}
		var value []byte
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(b[n:])
		}
		if err := see(number, b[:n+m], value); err != nil {
			return err
		}
		b = b[n+m:]
	}
	return nil
}
