package api

import (
	"bytes"
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/kinesin-io/kinesin/internal/alloctest"
)

// requests returns the requests of all methods, in the order of the contract.
func requests() (all []protoreflect.MessageType) {
	for _, service := range Services() {
		for k := range service.Methods().Len() {
			m, err := protoregistry.GlobalTypes.FindMessageByName(service.Methods().Get(k).Input().FullName())
			if err != nil {
				panic(err)
			}
			all = append(all, m)
		}
	}
	return all
}

// filled returns a message in which every field is set, and lists have two elements.
func filled(m protoreflect.Message) protoreflect.Message {
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		if f.Message() != nil && f.Message() == m.Descriptor() {
			continue // what follows a task is of the same kind
		}
		one := func() protoreflect.Value {
			switch f.Kind() {
			case protoreflect.MessageKind:
				if f.IsList() {
					return protoreflect.ValueOfMessage(filled(m.NewField(f).List().NewElement().Message()))
				}
				return protoreflect.ValueOfMessage(filled(m.NewField(f).Message()))
			case protoreflect.StringKind:
				return protoreflect.ValueOfString("text")
			case protoreflect.BytesKind:
				return protoreflect.ValueOfBytes([]byte{0, 255})
			case protoreflect.BoolKind:
				return protoreflect.ValueOfBool(true)
			case protoreflect.EnumKind:
				return protoreflect.ValueOfEnum(1)
			case protoreflect.Int32Kind:
				return protoreflect.ValueOfInt32(-1)
			case protoreflect.Int64Kind:
				return protoreflect.ValueOfInt64(math.MinInt64)
			case protoreflect.Uint32Kind:
				return protoreflect.ValueOfUint32(math.MaxUint32)
			case protoreflect.DoubleKind:
				return protoreflect.ValueOfFloat64(0.5)
			default:
				return protoreflect.ValueOfUint64(math.MaxUint64)
			}
		}
		if f.IsMap() {
			value := protoreflect.ValueOfString("text")
			switch f.MapValue().Kind() {
			case protoreflect.Int64Kind:
				value = protoreflect.ValueOfInt64(math.MinInt64)
			case protoreflect.Uint32Kind:
				value = protoreflect.ValueOfUint32(math.MaxUint32)
			case protoreflect.DoubleKind:
				value = protoreflect.ValueOfFloat64(0.5)
			default:
			}
			m.Mutable(f).Map().Set(protoreflect.ValueOfString("text").MapKey(), value)
			continue
		}
		if f.IsList() {
			list := m.Mutable(f).List()
			list.Append(one())
			list.Append(one())
			continue
		}
		m.Set(f, one())
	}
	return m
}

// listMost returns how many elements the longest list in a message may have.
func listMost(d protoreflect.MessageDescriptor) (most int) {
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		if most = max(most, ListMax(f)); f.Message() != nil && f.Message() != d {
			most = max(most, listMost(f.Message()))
		}
	}
	return most
}

// allocatedMax is what decoding a request may allocate: as much as the elements that its lists may have, and
// a multiple of its bytes. An element counts with what its list allocated while it grew.
func allocatedMax(m protoreflect.MessageType, bytes int) uint64 {
	const fixed, element, factor = 32 << 10, 448, 4
	elements := min(listMost(m.Descriptor()), bytes)
	return uint64(fixed + element*elements + factor*bytes)
}

func FuzzRequestProto(f *testing.F) {
	kinds := requests()
	for i, kind := range kinds {
		full, err := protoCodec{}.Marshal(filled(kind.New()).Interface())
		if err != nil {
			f.Fatal(err)
		}
		f.Add(byte(i), full)
		f.Add(byte(i), []byte{})
		f.Add(byte(i), full[:len(full)/2])
		for number := protowire.Number(1); number < 5; number++ {
			f.Add(byte(i), bytes.Repeat(append(protowire.AppendTag(nil, number, protowire.BytesType), 0), 10_000))
			f.Add(byte(i), append(protowire.AppendTag(nil, number, protowire.BytesType), 0xff, 0xff, 0xff, 0xff, 7)) // 2 GiB to come
			f.Add(byte(i), slices.Repeat(protowire.AppendTag(nil, number, protowire.StartGroupType), 10_000))
		}
	}
	f.Fuzz(func(t *testing.T, kind byte, data []byte) {
		m := kinds[int(kind)%len(kinds)]
		var decoded proto.Message
		var err error
		alloctest.AtMost(t, allocatedMax(m, len(data)), func() {
			decoded = m.New().Interface()
			err = protoCodec{requests: true}.Unmarshal(data, decoded)
		})
		if err != nil {
			return
		}
		again, err := protoCodec{}.Marshal(decoded)
		if err != nil {
			t.Fatal(err)
		}
		// The generated code and that of package proto read the same.
		second := m.New().Interface()
		if err := proto.Unmarshal(again, second); err != nil || !proto.Equal(decoded, second) {
			t.Fatalf("second round: %v\n%v\n%v", err, decoded, second)
		}
	})
}
