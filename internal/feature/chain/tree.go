package chain

import (
	"fmt"
	"iter"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/task"
)

// Of returns what follows the task of an item; nil if nothing does.
func Of(item *kinesinv1.ScheduleItem) *kinesinv1.Followups {
	if len(item.GetThen())+len(item.GetElse())+len(item.GetFinally()) == 0 {
		return nil
	}
	return &kinesinv1.Followups{Then: item.GetThen(), Else: item.GetElse(), Finally: item.GetFinally()}
}

// Place is the place of a follow-up in what follows a task.
type Place struct {
	Edge  task.Edge
	Index uint32
}

func (p Place) String() string { return fmt.Sprintf("%s[%d]", p.Edge, p.Index) }

// All returns the follow-ups that f names itself.
func All(f *kinesinv1.Followups) iter.Seq2[Place, *kinesinv1.ScheduleItem] {
	return func(yield func(Place, *kinesinv1.ScheduleItem) bool) {
		for _, edge := range []task.Edge{task.Then, task.Else, task.Finally} {
			for i, item := range On(f, edge) {
				if !yield(Place{edge, uint32(i)}, item) {
					return
				}
			}
		}
	}
}

// On returns the follow-ups on an edge.
func On(f *kinesinv1.Followups, e task.Edge) []*kinesinv1.ScheduleItem {
	switch e {
	case task.Then:
		return f.GetThen()
	case task.Else:
		return f.GetElse()
	case task.Finally:
		return f.GetFinally()
	case task.NoEdge:
	}
	return nil
}

// Count returns how many follow-ups f names itself.
func Count(f *kinesinv1.Followups) int {
	return len(f.GetThen()) + len(f.GetElse()) + len(f.GetFinally())
}

// Blobs returns the blobs of the follow-ups that f names, with those of what follows these.
func Blobs(f *kinesinv1.Followups) iter.Seq[*kinesinv1.Blob] {
	return func(yield func(*kinesinv1.Blob) bool) {
		eachItem(f, func(item *kinesinv1.ScheduleItem) bool { return item.GetBlob() == nil || yield(item.GetBlob()) })
	}
}

// eachItem calls each with all follow-ups, until it returns false.
func eachItem(f *kinesinv1.Followups, each func(*kinesinv1.ScheduleItem) bool) bool {
	for _, item := range All(f) {
		if !each(item) || !eachItem(Of(item), each) {
			return false
		}
	}
	return true
}

// blobSum returns what is the same of f, which names blobs, each time it is named; zero: it names none.
func blobSum(f *kinesinv1.Followups) (task.ID, error) {
	for range Blobs(f) {
		same := proto.CloneOf(f)
		eachItem(same, func(item *kinesinv1.ScheduleItem) bool {
			if item.Blob != nil {
				if item.Blob.Id = nil; strings.HasPrefix(item.Key, task.BlobKeyPrefix) {
					item.Key = task.BlobKeyPrefix
				}
			}
			return true
		})
		b, err := encode(same)
		return task.IDOf([]byte("blobs"), b), err
	}
	return task.ID{}, nil
}

// encode returns f as it is stored, the same bytes for the same follow-ups.
func encode(f *kinesinv1.Followups) ([]byte, error) {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("encode what follows a task: %w", err)
	}
	return b, nil
}

// decode returns what encode was given.
func decode(b []byte) (*kinesinv1.Followups, error) {
	f := &kinesinv1.Followups{}
	if err := proto.Unmarshal(b, f); err != nil {
		return nil, fmt.Errorf("%w: what follows a task: %w", store.ErrCorrupt, err)
	}
	return f, nil
}

// followInlineMax is the largest size of what follows a task that its row holds where a byte in a row costs
// nothing to speak of, and a row besides a sync of the disk.
const followInlineMax = 8 << 10

// InlineMax returns the largest size of what follows a task that its row holds in a store, in bytes.
func InlineMax(s interface {
	PayloadInlineMax() int
	PayloadsExpire() bool
},
) int {
	if s.PayloadsExpire() { // a service, which charges for each write by its size
		return s.PayloadInlineMax()
	}
	return followInlineMax
}

// Attach gives a task what follows it. If that is too large for its row, apart is what its payload row holds.
// The id of the task is set.
func Attach(t *task.Task, f *kinesinv1.Followups, inlineMax int) (apart []byte, err error) {
	c := task.Chain{}
	if t.Chain != nil {
		c = *t.Chain
	}
	if c.FollowSum, err = blobSum(f); err != nil {
		return nil, err
	}
	b, err := encode(f)
	if err != nil {
		return nil, err
	}
	apart = setFollow(t, &c, b, uint32(Count(f)), inlineMax)
	t.Chain = &c
	return apart, nil
}

// setFollow sets what c, which becomes the chain of a task, says of what follows it: b, which names so many
// follow-ups itself. apart is as of Attach.
func setFollow(t *task.Task, c *task.Chain, b []byte, count uint32, inlineMax int) (apart []byte) {
	c.Follow, c.FollowID, c.FollowBytes, c.FollowCount, c.Added = nil, task.ID{}, 0, count, [len(c.Added)]uint32{}
	if count == 0 {
		return nil
	}
	c.FollowBytes = uint32(len(b))
	if len(b) <= inlineMax {
		c.Follow = b
		return nil
	}
	c.FollowID = t.FollowIDOf(b)
	return b
}

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
