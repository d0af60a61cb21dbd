package sdk

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// A task of the wire with all fields that users may set is an item, and the same task again.
func TestItemsThereAndBack(t *testing.T) {
	t.Parallel()
	one := &kinesinv1.ScheduleItem{}
	m := one.ProtoReflect()
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		switch {
		case f.Name() == "request_id" || f.Name() == "blob" || f.Name() == "lambda_ref" || f.IsList():
		case f.IsMap():
			m.Mutable(f).Map().Set(protoreflect.ValueOfString("a").MapKey(), protoreflect.ValueOfString("b"))
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString(string(f.Name())))
		case f.Kind() == protoreflect.BytesKind:
			m.Set(f, protoreflect.ValueOfBytes([]byte(f.Name())))
		case f.Kind() == protoreflect.Int64Kind:
			m.Set(f, protoreflect.ValueOfInt64(int64(f.Number())))
		default:
			m.Set(f, protoreflect.ValueOfUint32(uint32(f.Number())))
		}
	}
	copyOf := func() *kinesinv1.ScheduleItem { return proto.CloneOf(one) }
	whole := copyOf()
	whole.Then, whole.Else, whole.Finally = []*kinesinv1.ScheduleItem{copyOf()}, []*kinesinv1.ScheduleItem{copyOf(), copyOf()}, []*kinesinv1.ScheduleItem{copyOf()}
	item, err := itemOf(whole)
	if err != nil {
		t.Fatal(err)
	}
	if back := item.wire(nil); !proto.Equal(back, whole) {
		t.Errorf("%v became %v", whole, back)
	}
	whole.Then[0].RequestId = []byte("x")
	if _, err := itemOf(whole); err == nil {
		t.Error("the request id of what follows was dropped without a word")
	}
}

// Follow-ups count with their task when a call is filled.
func TestFollowUpsCountInACall(t *testing.T) {
	t.Parallel()
	large := Item{Payload: make([]byte, bytesPerCallMax/4)}
	items := []Item{{}, {}, {}}
	for i := range items {
		items[i].Then = []Item{{Else: []Item{large}}, {Finally: []Item{large}}}
	}
	if n := fitting(items); n != 1 {
		t.Errorf("%d items of half the bytes of a call and more go into one", n)
	}
	if n := fitting([]Item{{}, {}, {}}); n != 3 {
		t.Errorf("%d small items go into a call, want 3", n)
	}
}
