package jsonform_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/alloctest"
	"github.com/kinesin-io/kinesin/task"
)

// messages returns the types of messages of all calls, and those inside them.
func messages() map[protoreflect.FullName]protoreflect.MessageDescriptor {
	found := map[protoreflect.FullName]protoreflect.MessageDescriptor{}
	var add func(d protoreflect.MessageDescriptor)
	add = func(d protoreflect.MessageDescriptor) {
		if found[d.FullName()] != nil || d.IsMapEntry() {
			return
		}
		found[d.FullName()] = d
		for i := range d.Fields().Len() {
			if inside := d.Fields().Get(i).Message(); inside != nil {
				add(inside)
			}
		}
	}
	for _, service := range api.Services() {
		for i := range service.Methods().Len() {
			add(service.Methods().Get(i).Input())
			add(service.Methods().Get(i).Output())
		}
	}
	return found
}

// Each field that is set is in the JSON, by its name, and the schema says what it is.
func TestEachFieldIsThere(t *testing.T) {
	for name, d := range messages() {
		if name == "kinesin.v1.Problem" || name == "kinesin.v1.Held" {
			continue // they have a form of their own
		}
		schema := jsonform.SchemaOf(d, func(protoreflect.MessageDescriptor) jsonform.Schema { return jsonform.Schema{} })
		properties, _ := schema["properties"].(jsonform.Schema)
		for i := range d.Fields().Len() {
			field := d.Fields().Get(i)
			if field == api.MaskOf(d) {
				continue
			}
			kind, err := protoregistry.GlobalTypes.FindMessageByName(name)
			if err != nil {
				t.Fatal(err)
			}
			m := kind.New()
			set(m, field)
			var object map[string]any
			if err := json.Unmarshal(jsonform.Append(nil, m.Interface()), &object); err != nil {
				t.Fatalf("%s: %v", field.FullName(), err)
			}
			want := string(field.Name())
			if is, _ := proto.GetExtension(field.Options(), kinesinv1.E_Inline).(bool); is {
				want = string(field.Message().Fields().Get(0).Name())
			}
			if api.KindOf(field) == kinesinv1.Kind_KIND_PAYLOAD {
				want += "_text"
			}
			if name := field.FullName(); name == "kinesin.v1.Result.attempt" || name == "kinesin.v1.Started.attempt" {
				continue // it is in the claim
			}
			if api.KindOf(field) == kinesinv1.Kind_KIND_CLAIM {
				want = "claim"
			}
			if value, found := object[want]; !found || value == nil {
				t.Errorf("%s is not in %v", field.FullName(), slices.Sorted(maps.Keys(object)))
			}
			if properties[want] == nil {
				t.Errorf("%s is not in the schema", field.FullName())
			}
		}
	}
}

// set sets a field to a value that is not 0.
func set(m protoreflect.Message, field protoreflect.FieldDescriptor) {
	value := func(d protoreflect.FieldDescriptor) protoreflect.Value {
		switch d.Kind() {
		case protoreflect.BoolKind:
			return protoreflect.ValueOfBool(true)
		case protoreflect.StringKind:
			return protoreflect.ValueOfString("a")
		case protoreflect.BytesKind:
			return protoreflect.ValueOfBytes([]byte("a"))
		case protoreflect.Int32Kind:
			return protoreflect.ValueOfInt32(1)
		case protoreflect.Int64Kind:
			return protoreflect.ValueOfInt64(1)
		case protoreflect.Uint32Kind:
			return protoreflect.ValueOfUint32(1)
		case protoreflect.Uint64Kind:
			return protoreflect.ValueOfUint64(1)
		case protoreflect.EnumKind:
			return protoreflect.ValueOfEnum(1)
		default:
			return protoreflect.ValueOfFloat64(1)
		}
	}
	switch {
	case field.IsMap():
		m.Mutable(field).Map().Set(protoreflect.ValueOfString("a").MapKey(), value(field.MapValue()))
	case field.IsList() && field.Message() != nil:
		m.Mutable(field).List().AppendMutable()
	case field.IsList():
		m.Mutable(field).List().Append(value(field))
	case field.Message() != nil:
		inside := m.Mutable(field).Message()
		set(inside, inside.Descriptor().Fields().Get(0))
	default:
		m.Set(field, value(field))
	}
}

func TestForms(t *testing.T) {
	for name, c := range map[string]struct {
		m    proto.Message
		want string
	}{
		"JSON":       {&kinesinv1.Result{Result: []byte("{\"a\":\n 1}")}, `{"result":{"a":1}}`},
		"text":       {&kinesinv1.Result{Result: []byte("a\"<\u2028é")}, `{"result_text":"a\"<\u2028é"}`},
		"bytes":      {&kinesinv1.Result{Result: []byte{0, 0xff}}, `{"result_base64":"AP8="}`},
		"two values": {&kinesinv1.Result{Result: []byte("1 2")}, `{"result_text":"1 2"}`},
		"record":     {&kinesinv1.AuditRecord{Before: `{"a": 1}`, After: "b"}, `{"before":{"a":1},"after_text":"b","count":0,"seq":0}`},
		"hex":        {&kinesinv1.Process{Place: []byte{1, 0xab}}, `{"place":"01ab"}`},
		"claim":      {&kinesinv1.Result{Task: []byte{1, 0xab}, Attempt: 2}, `{"claim":"01ab-2"}`},
		"claims":     {&kinesinv1.HeartbeatRequest{Running: []*kinesinv1.Held{{Task: []byte{1, 0xab}, Attempt: 2}}}, `{"running":["01ab-2"]}`},
		"cursor":     {&kinesinv1.ListResponse{Next: []byte{0xfb, 0xff}}, `{"tasks":[],"next":"-_8"}`},
		"optional":   {&kinesinv1.SealGroupRequest{Members: proto.Uint32(0)}, `{"members":0}`},
		"maps":       {&kinesinv1.Group{Counts: map[string]uint32{"b": 1, "a": 2}}, `{"members":0,"counted":0,"counts":{"a":2,"b":1},"follow_ups":[]}`},
		"inline":     {&kinesinv1.ObjectiveStatus{Objective: &kinesinv1.Objective{Lambda: "m"}, Good: 1}, `{"lambda":"m","objective":0,"registered":false,"started":0,"good":1,"attained":0,"budget_left":0,"burns":[],"waiting":0}`},
		"change": {
			&kinesinv1.UpdateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "m", Shards: 2}, Fields: []string{"shards", "breaker", "retry_share"}},
			`{"name":"m","shards":2,"breaker":null,"retry_share":null}`,
		},
		"no payload": {&kinesinv1.TaskUpdate{Fields: []string{"payload"}}, `{"payload_text":""}`},
		"problem":    {&kinesinv1.RetryRejectedResult{Problem: &kinesinv1.Problem{Reason: kinesinv1.Reason_REASON_THROTTLED, Text: "t", RetryAfter: 90_000_000}}, `{"problem":{"type":"urn:kinesin:problem:throttled","title":"throttled","status":429,"detail":"t","reason":"throttled","retry_after":"1m30s"}}`},
	} {
		if got := string(jsonform.Append(nil, c.m)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// A record of a change has neither payloads nor secrets, and the message keeps them.
func TestRecordsHideWhatIsSecret(t *testing.T) {
	for want, m := range map[string]proto.Message{
		`{"token":{"name":"n","grants":["read:a"]}}`: &kinesinv1.CreateTokenResponse{Token: &kinesinv1.Token{Name: "n", Grants: []string{"read:a"}}, Secret: "s"},
		`{"name":"n","lambda":"a","version":2}`:      &kinesinv1.SetCronRequest{Cron: &kinesinv1.Cron{Name: "n", Lambda: "a", Version: 2, Payload: []byte("p")}},
		`{"items":[{"lambda":"a","then":[{"lambda":"b"}]}]}`: &kinesinv1.ScheduleRequest{Items: []*kinesinv1.ScheduleItem{
			{Lambda: "a", Payload: []byte("p"), Then: []*kinesinv1.ScheduleItem{{Lambda: "b", Payload: []byte("p")}}},
		}},
	} {
		before := proto.Clone(m)
		if got := string(jsonform.AppendRecord(nil, m)); got != want || !proto.Equal(m, before) {
			t.Errorf("%s, want %s; the message is %v", got, want, m)
		}
	}
}

// requests returns the types of the requests of all calls.
func requests(tb testing.TB) (all []protoreflect.MessageType) {
	tb.Helper()
	for _, service := range api.Services() {
		for i := range service.Methods().Len() {
			kind, err := protoregistry.GlobalTypes.FindMessageByName(service.Methods().Get(i).Input().FullName())
			if err != nil {
				tb.Fatal(err)
			}
			all = append(all, kind)
		}
	}
	return all
}

// filled sets each field of a request that a caller may set, but for those without, to a value that may be there. Lists
// and maps have two elements.
func filled(m protoreflect.Message, without ...protoreflect.Name) proto.Message {
	count := 0 // so that no two values are the same
	var fill func(m protoreflect.Message, depth int)
	one := func(f protoreflect.FieldDescriptor) protoreflect.Value {
		count++
		switch kind := api.KindOf(f); {
		case kind == kinesinv1.Kind_KIND_INSTANT:
			return protoreflect.ValueOfInt64(1_800_000_000_000_000 + int64(count))
		case kind == kinesinv1.Kind_KIND_CLAIM:
			return protoreflect.ValueOfBytes(append(make([]byte, 15), byte(count)))
		case f.Kind() == protoreflect.BytesKind:
			forms := [][]byte{fmt.Appendf(nil, `{"a":[%d,"\u2028<"]}`, count), fmt.Appendf(nil, "text <%d> \"é\"\n", count), {0, 0xff, byte(count)}}
			return protoreflect.ValueOfBytes(forms[count%len(forms)])
		case f.Kind() == protoreflect.Int64Kind:
			return protoreflect.ValueOfInt64(90_000_000 + int64(count))
		}
		switch f.Kind() {
		case protoreflect.StringKind:
			return protoreflect.ValueOfString(fmt.Sprintf("<é\"\\\u2028%d", count))
		case protoreflect.BoolKind:
			return protoreflect.ValueOfBool(true)
		case protoreflect.Int32Kind:
			return protoreflect.ValueOfInt32(int32(-count))
		case protoreflect.Uint32Kind:
			return protoreflect.ValueOfUint32(math.MaxUint32 - uint32(count))
		case protoreflect.Uint64Kind:
			return protoreflect.ValueOfUint64(math.MaxUint64 - uint64(count))
		default:
			return protoreflect.ValueOfFloat64(0.1 + float64(count))
		}
	}
	fill = func(m protoreflect.Message, depth int) {
		for i := range m.Descriptor().Fields().Len() {
			f := m.Descriptor().Fields().Get(i)
			readOnly, _ := proto.GetExtension(f.Options(), kinesinv1.E_ReadOnly).(bool)
			switch {
			case readOnly || f == api.MaskOf(m.Descriptor()) || slices.Contains(without, f.Name()) || f.Message() == m.Descriptor() && depth > 3:
			case f.IsMap():
				for range 2 {
					key := one(f.MapKey()).MapKey()
					m.Mutable(f).Map().Set(key, one(f.MapValue()))
				}
			case f.IsList() && f.Message() != nil:
				for range 2 {
					fill(m.Mutable(f).List().AppendMutable().Message(), depth+1)
				}
			case f.IsList():
				m.Mutable(f).List().Append(one(f))
				m.Mutable(f).List().Append(one(f))
			case f.Message() != nil:
				fill(m.Mutable(f).Message(), depth+1)
			default:
				m.Set(f, one(f))
			}
		}
		if api.MaskOf(m.Descriptor()) != nil {
			if err := api.SetMask(m.Interface()); err != nil {
				panic(err)
			}
		}
	}
	fill(m, 0)
	return m.Interface()
}

// A request with all fields that it may have is the same when it was encoded and decoded.
func TestEachRequestIsTheSameAgain(t *testing.T) {
	for _, kind := range requests(t) {
		for _, without := range []protoreflect.Name{"due", "delay"} { // of which a task has one
			m, again := filled(kind.New(), without), kind.New().Interface()
			text := jsonform.Append(nil, m)
			if _, err := jsonform.Decode(text, again); err != nil || !proto.Equal(m, again) {
				t.Errorf("%s: %s became %v: %v", kind.Descriptor().Name(), text, again, err)
			}
		}
	}
}

// What is decoded is encoded, and decoded to the same again. Decoding takes a multiple of the bytes at most, and errors
// hide nothing.
func FuzzDecode(f *testing.F) {
	kinds := requests(f)
	for _, text := range []string{
		`{"lambda":"mail","payload":{"a":[1]},"delay":"1w","tags":{"x":"y"},"then":[{"lambda":"sms","payload_text":"","else":[{"lambda":"a","payload_base64":"AP8="}]}]}`,
		`{"name":"mail","priorities":["a"],"timeout":"15m","priority_weights":{"a":1},"retry_share":0.5,"breaker":{}}`,
		`{"action":"reschedule","by":"-1h","due":"2027-01-31T09:00:00.25+01:00","request_id":"01920000-0000-7000-8000-000000000000"}`,
		`{"worker":"w","results":[{"claim":"000102030405060708090a0b0c0d0e0f-2","outcome":"success","result":1}]}`,
		`{"worker":"w","running":["000102030405060708090a0b0c0d0e0f-2"]}`,
		`{"name":"mail","shards":null,"timeout":"1s","breaker":null}`, `{"lambda":"mail","rate":null,"burst":3}`,
		`{"updates":[{"id":"k1","payload":null,"delay":"0s","priority":null},{"payload_text":""}]}`,
		`{"payload":` + strings.Repeat("[", 20_000), `{"then":` + strings.Repeat(`[{"lambda":"a","then":`, 101), `{"lambda":"\ud800"}`, `{"lambda":null}`,
		"", "null", `{"unknown":1}`, "{\"a\x1b[31m\u202egnp.exe\u200b\u009b\U000e0041\u3164\":1}", `{"ids":["` + strings.Repeat("\\u202e", 100) + `",1]}`,
		`{"due":"\u3164"}`, `{"held":[` + strings.Repeat("{},", 20_000) + `{}]}`, `{"items":[` + strings.Repeat(`{"lambda":"a"},`, 9000) + `{"a":1}]}`,
		strings.Repeat(`{"a":`, 10_000),
	} {
		f.Add([]byte(text))
	}
	for _, kind := range kinds {
		f.Add(jsonform.Append(nil, filled(kind.New(), "delay")))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, kind := range kinds {
			first, second := kind.New().Interface(), kind.New().Interface()
			var err error
			alloctest.AtMost(t, uint64(128<<10+100*len(data)), func() {
				first = kind.New().Interface()
				_, err = jsonform.Decode(data, first)
			})
			if err != nil {
				if text := err.Error(); api.Visible(text) != text {
					t.Fatalf("the error hides something: %q", text)
				}
				continue
			}
			again := jsonform.Append(nil, first)
			if bytes.Contains(again, []byte(`"malformed":`)) {
				continue // what was refused is not kept
			}
			if _, err := jsonform.Decode(again, second); err != nil && strings.Contains(err.Error(), "which it needs") {
				continue // a text that was there, and empty
			} else if err != nil || !proto.Equal(first, second) {
				t.Fatalf("%s: %q became %q, and then %v: %v", kind.Descriptor().Name(), data, again, second, err)
			}
		}
	})
}

func TestRefusals(t *testing.T) {
	for text, want := range map[string]string{
		`{"dealy":"1s"}`: `unknown field "dealy" in the body; allowed here: backoff_max`, `{"lambda":"a","lambda":"b"}`: `field "lambda" is twice in the body`,
		`{}`: `the body has no field "lambda", which it needs`, `[]`: `the body: [] is no JSON object`, `{`: `the body is not JSON, at byte 1`,
		`{"lambda":1}`: `lambda: 1 is not a text`, `{"lambda":null}`: `lambda: null is no value; leave the field out`, `{"max_attempts":0}`: `max_attempts: 0 is not a whole number from 1`,
		`{"timeout":"0s"}`: `timeout: "0s" is too short`, `{"delay":"-1s"}`: `delay: "-1s" is below zero`, `{"due":5}`: `due: 5 is no time: want a time by RFC 3339`,
		`{"lambda":"\ud800"}`: `lambda: \ud800 is half of a surrogate pair`, `{"payload":1,"payload_text":"a"}`: `the same in two forms: want one of payload`,
		`{"payload_base64":"?"}`: `payload_base64: not base64`, `{"tags":{"a":1}}`: `tags: the value of "a" is not a text`, `{"tags":{"a":"b","a":"c"}}`: `tags: "a" is there twice`,
		`{"then":[{"lambda":"a"},{"lambda":"b","else":[{"key":"k"}]}]}`: `then[1].else[0]: the task has no field "lambda"`, `{"then":[` + strings.Repeat(`{"lambda":"a"},`, task.FollowupsMax) + `{}]}`: `then: more than `, `{"lambda_ref":1}`: `unknown field "lambda_ref"`,
		`{"lambda":"a","due":"2027-01-31T09:00:00Z","delay":"0s"}`: `want due or delay, not both`, `{"request_id":"x"}`: `request_id: "x" is no text of hexadecimal digits`,
	} {
		if _, err := jsonform.Decode([]byte(text), &kinesinv1.ScheduleItem{}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// A malformed result refuses no other one. Its claim is known if it stands before what is wrong.
func TestAMalformedResultIsRefusedAlone(t *testing.T) {
	const claim = `"claim":"000102030405060708090a0b0c0d0e0f-2"`
	const good = `{` + claim + `,"outcome":"success","result":{"a":[1,"]"]}}`
	bad := map[string]string{
		`{` + claim + `,"outcome":"snoozed","delay":"soon"}`:                           `results[1]: delay: "soon" is no duration`,
		` {` + claim + `,"outcome":"success","add":{"then":[{"lambda":"a","dly":1}]}}`: `results[1].then[0]: unknown field "dly"`,
		`{"outcome":"success"}`: `results[1]: the element has no field "claim"`, `{"claim":"x","outcome":"success"}`: `results[1]: "x" is no claim`, `7`: `results[1]: the element: 7 is no JSON object`,
	}
	for text, want := range bad {
		var r kinesinv1.SetResultsRequest
		_, err := jsonform.Decode([]byte(`{"worker":"w","results":[`+good+`,`+text+`, `+good+`]}`), &r)
		if err != nil || len(r.GetResults()) != 3 || !strings.HasPrefix(r.GetResults()[1].GetMalformed(), want) || !proto.Equal(r.GetResults()[0], r.GetResults()[2]) {
			t.Errorf("%s: %v, %v, want %s", text, err, r.GetResults(), want)
			continue
		}
		if knows := len(r.GetResults()[1].GetTask()) > 0; knows != strings.Contains(text, claim) {
			t.Errorf("%s: its task is known: %v", text, knows)
		}
	}
	many := `{"worker":"w","results":[` + strings.Repeat(`{},`, 100) + `{}]}`
	if _, err := jsonform.Decode([]byte(many), &kinesinv1.SetResultsRequest{}); err == nil || !strings.Contains(err.Error(), "results[100]") {
		t.Errorf("as many errors as somebody likes: %v", err)
	}
	if _, err := jsonform.Decode([]byte(`{"worker":"w","results":[{`+claim+`,"outcome":"success","malformed":"a"}]}`), &kinesinv1.SetResultsRequest{}); err != nil {
		t.Error(err)
	}
}

// A payload below many tasks is read once, not once for each of them.
func TestADeepPayloadIsReadOnce(t *testing.T) {
	const payloadBytes, depth = 1 << 20, task.ChainDepthMax
	text := []byte(strings.Repeat(`{"lambda":"a","then":[`, depth-1) + `{"lambda":"a","payload":"` + strings.Repeat("x", payloadBytes) + `"}` + strings.Repeat("]}", depth-1))
	alloctest.AtMost(t, 3*payloadBytes, func() {
		if _, err := jsonform.Decode(text, &kinesinv1.ScheduleItem{}); err != nil {
			t.Error(err)
		}
	})
}

// The members of a change are its mask.
func TestMasks(t *testing.T) {
	for text, want := range map[string]proto.Message{
		`{"name":"m","mode":"managed","timeout":"1s","shards":null,"breaker":null}`: &kinesinv1.UpdateLambdaRequest{
			Lambda: &kinesinv1.Lambda{Name: "m", Mode: "managed", Timeout: 1_000_000}, Fields: []string{"breaker", "shards", "timeout"},
		},
		`{"name":"m"}`: &kinesinv1.UpdateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "m"}},
		`{"priority":"low","rate":null,"burst":3}`:     &kinesinv1.SetQuotaRequest{Priority: "low", Burst: 3, Fields: []string{"burst", "rate"}},
		`{"payload":null,"if_seq":3}`:                  &kinesinv1.TaskUpdate{IfSeq: 3, Payload: []byte("null"), Fields: []string{"payload"}},
		`{"delay":"0s","start_before":null}`:           &kinesinv1.TaskUpdate{Delay: new(int64(0)), Fields: []string{"delay", "start_before"}},
		`{"updates":[{"id":"k1","timeout":null},{}]}`:  &kinesinv1.UpdateRequest{Updates: []*kinesinv1.TaskUpdate{{Id: "k1", Fields: []string{"timeout"}}, {}}},
		`{"due":null,"payload_base64":"AA==","id":""}`: &kinesinv1.TaskUpdate{Payload: []byte{0}, Fields: []string{"due", "payload"}},
	} {
		got := want.ProtoReflect().New().Interface()
		if _, err := jsonform.Decode([]byte(text), got); err != nil || !proto.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
		if err := checkMasks(got); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for text, want := range map[string]string{
		`{"name":"m","shards":0}`: "shards: 0 is not a whole number from 1; null resets it", `{"name":"m","timeout":"0s"}`: `timeout: "0s" is not a duration above 0; null`,
		`{"name":"m","retry_share":0}`: "retry_share: 0 is not a number above 0", `{"name":"m","priority_weights":{}}`: "priority_weights: {} is not an object with members",
		`{"name":"m","fields":["timeout"]}`: `unknown field "fields" in the body`, `{"name":null}`: "name: null is no value", `{"name":"m","mode":null}`: "mode: null is no value",
		`{"name":"m","breaker":{"window":null}}`: "window: null is no value", `{"name":"m","limit_key_rate":0.0}`: "limit_key_rate: 0.0 is not a number above 0",
	} {
		if _, err := jsonform.Decode([]byte(text), &kinesinv1.UpdateLambdaRequest{}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if _, err := jsonform.Decode([]byte(`{"priority":""}`), &kinesinv1.TaskUpdate{}); err == nil || !strings.HasPrefix(err.Error(), `priority: "" is not a text of a character or more`) {
		t.Error(err)
	}
}

func checkMasks(m proto.Message) error {
	if all, is := m.(*kinesinv1.UpdateRequest); is {
		m = all.Updates[0]
	}
	return api.CheckMask(m)
}

func BenchmarkList(b *testing.B) {
	response := &kinesinv1.ListResponse{}
	for i := range 1000 {
		response.Tasks = append(response.Tasks, &kinesinv1.Task{
			Id: strings.Repeat("k", 58), Lambda: "mail", State: "success", Priority: "normal", Key: "ada", Due: time.Now().UnixMicro() + int64(i), Created: time.Now().UnixMicro(),
			Started: time.Now().UnixMicro(), Ended: time.Now().UnixMicro(), Attempt: 1, MaxAttempts: 10, Worker: "w", PayloadBytes: 100, Seq: 5, Tags: map[string]string{"from": "docs"},
			Attempts: []*kinesinv1.Attempt{{Number: 1, Worker: "w", Start: time.Now().UnixMicro(), End: time.Now().UnixMicro(), Outcome: "success"}},
		})
	}
	b.ReportAllocs()
	for b.Loop() {
		b.SetBytes(int64(len(jsonform.Append(nil, response))))
	}
}
