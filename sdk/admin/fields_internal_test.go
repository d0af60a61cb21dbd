package admin

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/wirecopy"
	"github.com/kinesin-io/kinesin/internal/wirecopy/wirecopytest"
	"github.com/kinesin-io/kinesin/sdk"
)

// TestFields copies each message with all fields set, and back. A field that has no other side, in the message or in
// Go, stands here with the reason.
func TestFields(t *testing.T) {
	t.Parallel()
	const (
		byHand, call, readOnly, parameter = "by hand", "of the call, not of the options", "read only", "a parameter of the method"
	)
	requestOf := func(more ...string) map[string]string {
		but := map[string]string{"RequestId": call, "DryRun": call}
		for _, name := range more {
			but[name] = parameter
		}
		return but
	}
	for _, check := range []func(*testing.T){
		fields[Lambda, kinesinv1.Lambda](nil),
		fields[LambdaStats, kinesinv1.LambdaStats](nil),
		fields[Overview, kinesinv1.Overview](map[string]string{"Lambdas": "beside the overview on the wire"}),
		fields[Gate, kinesinv1.Gate](nil),
		fields[GateResumeOptions, kinesinv1.ResumeGateRequest](requestOf("Id")),
		fields[Quota, kinesinv1.Quota](nil),
		fields[Quota, kinesinv1.SetQuotaRequest](map[string]string{"Updated": readOnly, "UpdatedBy": readOnly, "Registered": readOnly, "Fields": "the mask"}),
		fields[Objective, kinesinv1.Objective](map[string]string{"Objective": byHand, "Percent": byHand}),
		fields[Objective, kinesinv1.SetObjectiveRequest](map[string]string{"Objective": byHand, "Percent": byHand, "Updated": readOnly, "UpdatedBy": readOnly, "Registered": readOnly}),
		fields[ObjectiveStatus, kinesinv1.ObjectiveStatus](map[string]string{
			"Objective": byHand, "Lambda": byHand, "Within": byHand, "Percent": byHand, "Window": byHand, "ManagedBy": byHand, "Updated": byHand, "UpdatedBy": byHand, "Registered": byHand,
		}),
		fields[Cron, kinesinv1.Cron](nil),
		fields[CronOccurrence, kinesinv1.CronOccurrence](nil),
		fields[CronPauseOptions, kinesinv1.PauseCronRequest](requestOf("Name", "Reason")),
		fields[CronHistoryOptions, kinesinv1.CronHistoryRequest](requestOf("Name")),
		fields[Job, kinesinv1.Job](map[string]string{
			"Backfill": byHand, "Cron": byHand, "From": byHand, "To": byHand, "Nominals": byHand, "Sample": "made by package sdk",
		}),
		fields[JobSpec, kinesinv1.CreateJobRequest](map[string]string{"DryRun": call, "RequestId": call, "Cron": "of a backfill", "From": "of a backfill", "To": "of a backfill"}),
		fields[JobSpec, kinesinv1.BackfillCronRequest](map[string]string{
			"Name": "Cron, by hand", "Cron": byHand, "DryRun": call, "RequestId": call,
			"Action": "of other jobs", "Where": "of other jobs", "By": "of other jobs", "Spread": "of other jobs", "Due": "of other jobs", "Force": "of other jobs",
		}),
		fields[ChainChange, kinesinv1.ControlChainResponse](nil),
		fields[GroupCancelOptions, kinesinv1.CancelGroupRequest](requestOf("Group")),
		fields[sdk.GroupInfo, kinesinv1.Group](nil),
		fields[sdk.ChainInfo, kinesinv1.GetChainResponse](nil),
		fields[DeadLetter, kinesinv1.DeadLetter](nil),
		fields[DeadLetterQueue, kinesinv1.DeadLetterQueue](nil),
		fields[DeadLetterListOptions, kinesinv1.ListDeadLettersRequest](requestOf("Lambda")),
		fields[DeadLetterChangeOptions, kinesinv1.ChangeDeadLettersRequest](map[string]string{
			"Action": call, "Lambda": parameter, "Began": call, "Progress": "a function", "Detach": "whether the method waits",
		}),
		fields[RejectedMessage, kinesinv1.Rejected](map[string]string{
			"Item.Due": "in the id", "Item.Delay": "in the id", "Item.RequestId": "in the id", "Item.At": "in the id", "Item.In": "in the id",
			"Item.Blob": "not shown", "Item.LambdaRef": "of the server",
		}),
		fields[RingKey, kinesinv1.KeyringKey](nil),
		fields[Sender, kinesinv1.InboundSender](nil),
		fields[Token, kinesinv1.Token](nil),
		fields[TokenCreateOptions, kinesinv1.CreateTokenRequest](requestOf("Name", "Grants")),
		fields[AuditRecord, kinesinv1.AuditRecord](nil),
		fields[AuditListOptions, kinesinv1.ListAuditRequest](map[string]string{"Limit": "pages, which the loop turns", "After": "pages, which the loop turns"}),
		fields[AuditCheck, kinesinv1.VerifyAuditResponse](nil),
	} {
		check(t)
	}
}

// fields checks one type and its message.
func fields[T, M any](but map[string]string) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		name := reflect.TypeFor[M]().Name()
		ofWire, ofGo := wirecopytest.Unmatched[T, M]()
		excepted := func(path string) bool {
			return slices.ContainsFunc(slices.Collect(maps.Keys(but)), func(e string) bool { return path == e || strings.HasPrefix(path, e+".") })
		}
		for _, field := range slices.Concat(ofWire, ofGo) {
			if !excepted(field) {
				t.Errorf("%s: %s is on one side alone", name, field)
			}
		}
		message := new(M)
		m, _ := any(message).(proto.Message)
		fill(m.ProtoReflect(), 0)
		value := wirecopy.From[T](message)
		for _, f := range reflect.VisibleFields(reflect.TypeFor[T]()) {
			if f.IsExported() && !f.Anonymous && !excepted(f.Name) && reflect.ValueOf(value).FieldByIndex(f.Index).IsZero() {
				t.Errorf("%s: %s is not set", name, f.Name)
			}
		}
		back, _ := any(wirecopy.To[M](&value)).(proto.Message)
		for field := range but {
			for _, side := range []proto.Message{m, back} {
				clearField(reflect.ValueOf(side).Elem(), field)
			}
		}
		if !proto.Equal(m, back) {
			t.Errorf("%s: there and back:\n%v\n%v", name, m, back)
		}
	}
}

// clearField clears the field at a path, if there is one.
func clearField(v reflect.Value, path string) {
	name, rest, nested := strings.Cut(path, ".")
	f := v.FieldByName(name)
	switch {
	case !f.IsValid():
	case nested && !f.IsNil():
		clearField(f.Elem(), rest)
	case !nested:
		f.SetZero()
	}
}

// fill sets all fields of a message, to a depth that no message but those that are in themselves has.
func fill(m protoreflect.Message, depth int) {
	const deepest = 3
	for i := range m.Descriptor().Fields().Len() {
		d := m.Descriptor().Fields().Get(i)
		n := int64(i + 1)
		switch {
		case d.Message() != nil && !d.IsMap() && (depth == deepest || d.Message() == m.Descriptor()):
		case d.IsMap():
			m.Mutable(d).Map().Set(protoreflect.ValueOfString("one").MapKey(), scalar(d.MapValue(), n))
		case d.IsList() && d.Message() != nil:
			fill(m.Mutable(d).List().AppendMutable().Message(), depth+1)
		case d.IsList():
			m.Mutable(d).List().Append(scalar(d, n))
		case d.Message() != nil:
			fill(m.Mutable(d).Message(), depth+1)
		default:
			m.Set(d, scalar(d, n))
		}
	}
}

func scalar(d protoreflect.FieldDescriptor, n int64) protoreflect.Value {
	switch d.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(string(d.Name()))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(d.Name()))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(n) / 4)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(n))
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(n))
	default:
		return protoreflect.ValueOfInt64(n * int64(time.Hour/time.Microsecond))
	}
}
