package golden

import (
	"slices"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// due is 2096-01-31T09:00:00.25Z: a time to come.
const due = 3_978_838_800_250_000

// texts are values that a surface understands, by message and field; other texts are the field's name.
var texts = map[string]string{
	"Task.state": "dead", "Job.state": "done", "Job.action": "reschedule", "Gate.state": "active", "Gate.action": "pause", "Lambda.mode": "managed",
	"Attempt.outcome": "retriable_failure", "CancelResult.outcome": "cancelled", "CancelResult.state": "scheduled", "ChangeResult.state": "scheduled",
	"ChainTask.state": "planned", "GetChainResponse.state": "live", "Group.state": "sealed", "KeyringKey.state": "sealing",
	"AuditRecord.before": `{"a":1}`, "AuditRecord.after": `{"a":2}`,
	"CronOccurrence.outcome": "ran", "CronOccurrence.state": "success",
}

// filler sets all fields of answers.
type filler struct {
	paged   bool // also those that say that there is more, or that what a call creates was there
	results int  // how many results there are
}

// fill sets the fields of a message; above are the messages that it is in. A problem is what comes instead of
// everything else, and a blob what comes instead of a payload.
func (f filler) fill(m protoreflect.Message, above []protoreflect.FullName) {
	name := m.Descriptor().FullName()
	for i := range m.Descriptor().Fields().Len() {
		d := m.Descriptor().Fields().Get(i)
		if message := d.Message(); message != nil && !d.IsMap() {
			if message.Name() == "Problem" || message.Name() == "Blob" || message.FullName() == name && slices.Contains(above, name) {
				continue
			}
		}
		if !f.paged && isMore(m.Descriptor().Name(), d.Name()) {
			continue
		}
		switch {
		case d.IsMap():
			m.Mutable(d).Map().Set(protoreflect.ValueOfString("one").MapKey(), f.value(m.Descriptor(), d.MapValue(), d))
		case d.IsList():
			n := 1
			if above == nil && (d.Name() == "results" || d.Name() == "ids") {
				n = f.results
			}
			list := m.Mutable(d).List()
			for range n {
				if d.Message() == nil {
					list.Append(f.value(m.Descriptor(), d, d))
				} else {
					f.fill(list.AppendMutable().Message(), append(above, name))
				}
			}
		case d.Message() != nil:
			f.fill(m.Mutable(d).Message(), append(above, name))
		default:
			m.Set(d, f.value(m.Descriptor(), d, d))
		}
	}
}

// isMore reports whether a field says that there is more, or that what a call creates was there.
func isMore(message, field protoreflect.Name) bool {
	switch field {
	case "more":
		return true
	case "next":
		return message == "ListAuditResponse" || message == "ListResponse"
	case "duplicate":
		return message == "CreateLambdaResponse" || message == "SetCronResponse"
	}
	return false
}

// value returns a value for a field, which depends on its number, so that two fields that are taken for each other
// show. named is the field that has the name: of a map that which has the values.
func (filler) value(of protoreflect.MessageDescriptor, d, named protoreflect.FieldDescriptor) protoreflect.Value {
	name, number := string(named.Name()), int64(named.Number())
	switch d.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.StringKind:
		if text, found := texts[string(of.Name())+"."+name]; found {
			return protoreflect.ValueOfString(text)
		}
		return protoreflect.ValueOfString(name)
	case protoreflect.BytesKind:
		if name == "payload" || name == "result" {
			return protoreflect.ValueOfBytes([]byte(`{"a":1}`))
		}
		return protoreflect.ValueOfBytes([]byte(name))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(number) + 0.5)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(number))
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(number))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(number))
	case protoreflect.Int64Kind:
		switch api.KindOf(named) {
		case kinesinv1.Kind_KIND_INSTANT:
			return protoreflect.ValueOfInt64(due + number*1_000_000)
		case kinesinv1.Kind_KIND_DURATION:
			return protoreflect.ValueOfInt64((90 + number) * 1_000_000)
		default:
			return protoreflect.ValueOfInt64(number)
		}
	default:
		panic("no value for " + string(d.FullName()))
	}
}
