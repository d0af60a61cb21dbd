package api_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/klauspost/compress/gzip" // as fast as this test needs: the standard one takes two thirds of its time
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/jsonform"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/access"
	"github.com/kinesin-io/kinesin/task"
)

// path leads from a message to a list or map in it, or in a message inside.
type path []protoreflect.FieldDescriptor

// pathsOf returns the path of each field that is wanted.
func pathsOf(m protoreflect.MessageDescriptor, wanted func(protoreflect.FieldDescriptor) bool) (paths []path) {
	for i := range m.Fields().Len() {
		field := m.Fields().Get(i)
		if wanted(field) {
			paths = append(paths, path{field})
		}
		if field.Message() != nil && field.Message() != m { // what follows a task is of the same kind
			for _, inside := range pathsOf(field.Message(), wanted) {
				paths = append(paths, append(path{field}, inside...))
			}
		}
	}
	return paths
}

func isListOrMap(f protoreflect.FieldDescriptor) bool { return f.IsList() || f.IsMap() }

func isText(f protoreflect.FieldDescriptor) bool { return f.Kind() == protoreflect.StringKind }

// eachMethod calls f with each method of the contract.
func eachMethod(f func(procedure string, m protoreflect.MethodDescriptor)) {
	for _, service := range api.Services() {
		for k := range service.Methods().Len() {
			m := service.Methods().Get(k)
			f(fmt.Sprintf("/%s/%s", service.FullName(), m.Name()), m)
		}
	}
}

// inProto returns a message in which the list has n elements that take two bytes each.
func (p path) inProto(n int) []byte {
	last := p[len(p)-1]
	kind := protowire.BytesType
	if last.Kind() == protoreflect.Int64Kind {
		kind = protowire.VarintType
	}
	return p.around(bytes.Repeat(append(protowire.AppendTag(nil, last.Number(), kind), 0), n))
}

// around returns a message with the message that has the last field of the path.
func (p path) around(body []byte) []byte {
	for i := len(p) - 2; i >= 0; i-- {
		body = protowire.AppendBytes(protowire.AppendTag(nil, p[i].Number(), protowire.BytesType), body)
	}
	return body
}

// inText returns a message in which the last field is a text, and the first element if it is a list.
func (p path) inText(text string) []byte {
	return p.around(protowire.AppendString(protowire.AppendTag(nil, p[len(p)-1].Number(), protowire.BytesType), text))
}

// String names the last field as errors do.
func (p path) String() string {
	var names []string
	for _, f := range p {
		name := string(f.Name())
		if f.IsList() {
			name += "[0]"
		}
		names = append(names, name)
	}
	return strings.Join(names, ".")
}

// someClaim names an attempt, as JSON does.
const someClaim = `"01920000000070008000000000000000-1"`

// needed returns the members that a message needs in JSON beside a field, each with a comma behind it.
func needed(d protoreflect.MessageDescriptor, beside protoreflect.FieldDescriptor) (members string) {
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		value := `"a"`
		switch kind := api.KindOf(f); {
		case isInline(f) && f != beside:
			members += needed(f.Message(), nil)
			continue
		case !api.Says(f, kinesinv1.E_Required) || f == beside:
			continue
		case f.IsList() && f.Message() == nil:
			value = `["a"]`
		case f.IsList():
			continue
		case kind == kinesinv1.Kind_KIND_CLAIM:
			members += `"claim":` + someClaim + ","
			continue
		case kind == kinesinv1.Kind_KIND_INSTANT:
			value = `"2027-01-31T09:00:00Z"`
		case kind == kinesinv1.Kind_KIND_DURATION:
			value = `"1s"`
		case f.Kind() != protoreflect.StringKind:
			value = "1"
		}
		members += fmt.Sprintf("%q:%s,", f.Name(), value)
	}
	return members
}

func isInline(f protoreflect.FieldDescriptor) bool { return api.Says(f, kinesinv1.E_Inline) }

// element returns an element of the list, as small as it may be in JSON.
func (p path) element() string {
	last := p[len(p)-1]
	switch {
	case last.Message() == (&kinesinv1.Held{}).ProtoReflect().Descriptor():
		return someClaim
	case last.Message() != nil && !last.IsMap():
		return "{" + strings.TrimSuffix(needed(last.Message(), nil), ",") + "}"
	case api.KindOf(last) == kinesinv1.Kind_KIND_INSTANT:
		return `"2027-01-31T09:00:00Z"`
	}
	return `""`
}

// inJSON returns a message in which the list has n elements.
func (p path) inJSON(n int) []byte {
	text := "[" + strings.TrimSuffix(strings.Repeat(p.element()+",", n), ",") + "]"
	if last := p[len(p)-1]; last.IsMap() {
		value := `""`
		if last.MapValue().Kind() != protoreflect.StringKind {
			value = "0"
		}
		object := bytes.NewBufferString("{")
		for i := range n {
			fmt.Fprintf(object, `"%x":%s,`, i, value)
		}
		text = strings.TrimSuffix(object.String(), ",") + "}"
	}
	for i, f := range slices.Backward(p) {
		beside := needed(f.ContainingMessage(), f)
		if isInline(f) {
			text = "{" + beside + text[1:]
		} else {
			text = fmt.Sprintf("{%s%q:%s}", beside, f.Name(), text)
		}
		if i > 0 && p[i-1].IsList() {
			text = "[" + text + "]"
		}
	}
	return []byte(text)
}

func compressed(body []byte, level int) []byte {
	var b bytes.Buffer
	w, _ := gzip.NewWriterLevel(&b, level)
	_, _ = w.Write(body)
	_ = w.Close()
	return b.Bytes()
}

// enveloped returns a message as streams and gRPC-Web carry it.
func enveloped(body []byte, isCompressed bool) []byte {
	flags := byte(0)
	if isCompressed {
		flags = 1
	}
	return append(binary.BigEndian.AppendUint32([]byte{flags}, uint32(len(body))), body...)
}

// unimplemented serves all methods, and fails the test when a request gets through to one.
func unimplemented(t *testing.T) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	options := append(api.HandlerOptions(api.Hooks{}), jsonform.HandlerOption())
	mux.Handle(kinesinv1connect.NewTaskServiceHandler(kinesinv1connect.UnimplementedTaskServiceHandler{}, options...))
	mux.Handle(kinesinv1connect.NewChainServiceHandler(kinesinv1connect.UnimplementedChainServiceHandler{}, options...))
	mux.Handle(kinesinv1connect.NewGroupServiceHandler(kinesinv1connect.UnimplementedGroupServiceHandler{}, options...))
	mux.Handle(kinesinv1connect.NewCronServiceHandler(kinesinv1connect.UnimplementedCronServiceHandler{}, options...))
	mux.Handle(kinesinv1connect.NewJobServiceHandler(kinesinv1connect.UnimplementedJobServiceHandler{}, options...))
	mux.Handle(kinesinv1connect.NewLambdaServiceHandler(kinesinv1connect.UnimplementedLambdaServiceHandler{}, options...))
	mux.Handle(kinesinv1connect.NewWorkerServiceHandler(kinesinv1connect.UnimplementedWorkerServiceHandler{}, options...))
	mux.Handle(kinesinv1connect.NewInboundServiceHandler(kinesinv1connect.UnimplementedInboundServiceHandler{}, options...))
	mux.Handle(kinesinv1connect.NewBackupServiceHandler(kinesinv1connect.UnimplementedBackupServiceHandler{}, options...))
	mux.Handle(kinesinv1connect.NewAccessServiceHandler(kinesinv1connect.UnimplementedAccessServiceHandler{}, options...))
	mux.Handle(kinesinv1connect.NewKeyringServiceHandler(kinesinv1connect.UnimplementedKeyringServiceHandler{}, options...))
	mux.Handle(kinesinv1connect.NewGateServiceHandler(kinesinv1connect.UnimplementedGateServiceHandler{}, options...))
	mux.Handle(kinesinv1connect.NewQuotaServiceHandler(kinesinv1connect.UnimplementedQuotaServiceHandler{}, options...))
	mux.Handle(kinesinv1connect.NewObjectiveServiceHandler(kinesinv1connect.UnimplementedObjectiveServiceHandler{}, options...))
	mux.Handle(kinesinv1connect.NewDeadLetterServiceHandler(kinesinv1connect.UnimplementedDeadLetterServiceHandler{}, options...))
	eachMethod(func(procedure string, _ protoreflect.MethodDescriptor) {
		if _, pattern := mux.Handler(httptest.NewRequestWithContext(t.Context(), http.MethodPost, procedure, http.NoBody)); pattern == "" {
			t.Errorf("nobody serves %s", procedure)
		}
	})
	server := httptest.NewServer(api.BoundBodies(mux))
	t.Cleanup(server.Close)
	return server
}

// cpuTime returns the CPU time that this process has taken: the server's, the client's and the collector's.
func cpuTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpuTriesMax is how often a request is measured that seems to take too much CPU time: the collector may have
// worked for an earlier one meanwhile.
const cpuTriesMax = 5

// cpuAtMost fails the test if what f does takes more CPU time than most, each time. CPU time does not depend
// on what else the machine does.
func cpuAtMost(t *testing.T, most time.Duration, what string, f func()) {
	t.Helper()
	least := time.Duration(math.MaxInt64)
	for range cpuTriesMax {
		before := cpuTime(t)
		f()
		if least = min(least, cpuTime(t)-before); least <= most {
			return
		}
	}
	t.Errorf("%s: %v of CPU time, want at most %v", what, least, most)
}

// post sends a body and returns the answer, and how many bytes were allocated meanwhile.
func post(t *testing.T, url string, header map[string]string, body []byte) (answer string, allocated uint64) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	return fmt.Sprintf("%d %s %v", response.StatusCode, text, response.Header), after.TotalAlloc - before.TotalAlloc
}

// TestSmallRequestsTakeLittle sends requests of less than 64 KB that become as large as they can when
// they are decompressed and decoded, to all methods, in all forms. It bounds what each allocates, and its
// CPU time.
func TestSmallRequestsTakeLittle(t *testing.T) {
	server := unimplemented(t)
	const wireBytesMax, allocatedMax, cpuMax = 64 << 10, 32 << 20, 200 * time.Millisecond
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // the bodies are large, and made only for this
	tried := 0
	eachMethod(func(procedure string, m protoreflect.MethodDescriptor) {
		paths := pathsOf(m.Input(), isListOrMap)
		if testing.Short() {
			paths = paths[:min(1, len(paths))]
		}
		for _, p := range paths {
			elements, level := 15<<20/(len(p.element())+1), gzip.BestSpeed
			if p[len(p)-1].IsMap() {
				elements, level = 25_000, gzip.BestCompression // names that differ are not compressed as well
			}
			for form, body := range map[string][]byte{"proto": p.inProto(8 << 20), "json": p.inJSON(elements)} {
				small := compressed(body, level)
				plain := body[:min(len(body), wireBytesMax)]
				for _, c := range []struct {
					name   string
					header map[string]string
					body   []byte
				}{
					{"gzip", map[string]string{"Content-Type": "application/" + form, "Content-Encoding": "gzip"}, small},
					{"plain", map[string]string{"Content-Type": "application/" + form}, plain},
					{"gRPC-Web", map[string]string{"Content-Type": "application/grpc-web+" + form, "Grpc-Encoding": "gzip"}, enveloped(small, true)},
					{"stream", map[string]string{"Content-Type": "application/connect+" + form, "Connect-Content-Encoding": "gzip"}, enveloped(small, true)},
				} {
					if len(c.body) > wireBytesMax+5 {
						t.Fatalf("%d bytes", len(c.body))
					}
					what := fmt.Sprintf("%s %s %s in %s", procedure, p[len(p)-1].Name(), c.name, form)
					var answer string
					var allocated uint64
					cpuAtMost(t, cpuMax, what, func() { answer, allocated = post(t, server.URL+procedure, c.header, c.body) })
					if tried++; allocated > allocatedMax {
						t.Errorf("%s: %d MiB: %.100s", what, allocated>>20, answer)
					}
				}
			}
		}
	})
	if tried < 100 {
		t.Errorf("%d requests tried", tried)
	}
}

// TestListsOfRequestsAreBounded sends each list with one element more than it may have, and with as many as
// it may have.
func TestListsOfRequestsAreBounded(t *testing.T) {
	server := unimplemented(t)
	eachMethod(func(procedure string, m protoreflect.MethodDescriptor) {
		if m.IsStreamingClient() || m.IsStreamingServer() {
			return
		}
		for _, p := range pathsOf(m.Input(), isListOrMap) {
			last := p[len(p)-1]
			most := api.ListMax(last)
			if most == 0 {
				t.Errorf("%s has no limit", last.FullName())
				continue
			}
			binary, json := map[string]string{"Content-Type": "application/proto"}, map[string]string{"Content-Type": "application/json"}
			for _, c := range []struct {
				n    int
				want string
			}{{most, "501 "}, {most + 1, "400 "}} {
				if answer, _ := post(t, server.URL+procedure, binary, p.inProto(c.n)); !strings.HasPrefix(answer, c.want) {
					t.Errorf("%s with %d %s: %.200s", procedure, c.n, last.Name(), answer)
				}
			}
			if isReadOnly(p) {
				continue
			}
			if slices.ContainsFunc(p[:len(p)-1], isRefusedAlone) {
				continue // TestAMalformedResultIsRefusedAlone
			}
			for n, want := range map[int]string{most: "501 ", most + 1: "400 "} {
				if answer, _ := post(t, server.URL+procedure, json, p.inJSON(n)); !strings.HasPrefix(answer, want) || n > most && !strings.Contains(answer, "more than") {
					t.Errorf("%s in JSON with %d %s: %.200s", procedure, n, last.Name(), answer)
				}
			}
		}
	})
}

// isRefusedAlone reports whether a malformed element of a list does not refuse the call.
func isRefusedAlone(f protoreflect.FieldDescriptor) bool {
	return f.IsList() && f.Message() != nil && f.Message().Fields().ByName("malformed") != nil
}

// TestLimitsOfRolesAreThoseOfTheContract compares what roles refuse with what the contract says.
func TestLimitsOfRolesAreThoseOfTheContract(t *testing.T) {
	for of, most := range map[protoreflect.Message]map[string]int{
		(&kinesinv1.ScheduleRequest{}).ProtoReflect():      {"items": api.ItemsMax},
		(&kinesinv1.AddMembersRequest{}).ProtoReflect():    {"items": api.ItemsMax},
		(&kinesinv1.GetRequest{}).ProtoReflect():           {"ids": api.IDsMax, "keys": api.IDsMax},
		(&kinesinv1.UpdateRequest{}).ProtoReflect():        {"updates": api.IDsMax},
		(&kinesinv1.Hello{}).ProtoReflect():                {"groups": api.GroupsMax, "held": api.HeldMax},
		(&kinesinv1.SlotGroup{}).ProtoReflect():            {"lambdas": api.LambdasMax},
		(&kinesinv1.SetResultsRequest{}).ProtoReflect():    {"results": api.ResultsMax},
		(&kinesinv1.RetryRejectedRequest{}).ProtoReflect(): {"names": api.RejectedMax},
		(&kinesinv1.CreateTokenRequest{}).ProtoReflect():   {"grants": access.GrantsMax},
		(&kinesinv1.Cron{}).ProtoReflect():                 {"tags": task.TagsMax, "next": api.NominalMax},
		(&kinesinv1.ScheduleItem{}).ProtoReflect():         {"tags": task.TagsMax, "then": task.FollowupsMax},
		(&kinesinv1.CreateGroupRequest{}).ProtoReflect():   {"finally": task.GroupFollowUpsMax},
		(&kinesinv1.Lambda{}).ProtoReflect():               {"priorities": task.PrioritiesMax, "priority_weights": task.PrioritiesMax},
		(&kinesinv1.AddSenderRequest{}).ProtoReflect():     {"lambdas": task.SenderLambdasMax},
	} {
		for name, want := range most {
			if got := api.ListMax(of.Descriptor().Fields().ByName(protoreflect.Name(name))); got != want {
				t.Errorf("%s.%s has at most %d elements, and its role takes %d", of.Descriptor().Name(), name, got, want)
			}
		}
	}
}

// TestTextsOfRequestsAreUTF8 sends bytes that are no text in each string of each request. Generated code would
// take them, and package proto refuse to encode an answer that has them.
func TestTextsOfRequestsAreUTF8(t *testing.T) {
	server := unimplemented(t)
	header := map[string]string{"Content-Type": "application/proto"}
	eachMethod(func(procedure string, m protoreflect.MethodDescriptor) {
		if m.IsStreamingClient() || m.IsStreamingServer() {
			return
		}
		for _, p := range pathsOf(m.Input(), isText) {
			for text, want := range map[string]string{"a\xffb": p.String() + `: byte \\xff is no UTF-8; want text in UTF-8`, "täxt": "501 "} {
				if answer, _ := post(t, server.URL+procedure, header, p.inText(text)); !strings.Contains(answer, want) {
					t.Errorf("%s with %q in %s: %.200s, want %s", procedure, text, p, answer, want)
				}
			}
		}
	})
	items := bytes.Repeat(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), nil), 2)
	bad := slices.Concat(items, protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte{10, 1, 0xff}), items)
	if answer, _ := post(t, server.URL+kinesinv1connect.TaskServiceScheduleProcedure, header, bad); !strings.HasPrefix(answer, "400 ") || !strings.Contains(answer, "items[2].lambda: ") {
		t.Errorf("the third of five items: %s", answer)
	}
}

// receiver receives a message of a stream.
type receiver struct {
	kinesinv1connect.UnimplementedWorkerServiceHandler
}

func (receiver) Work(_ context.Context, stream *connect.BidiStream[kinesinv1.WorkRequest, kinesinv1.WorkResponse]) error {
	_, err := stream.Receive()
	return err
}

// TestTextsOfStreamsAreUTF8 is the same for the messages that a worker sends.
func TestTextsOfStreamsAreUTF8(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.Handle(kinesinv1connect.NewWorkerServiceHandler(receiver{}, api.HandlerOptions(api.Hooks{})...))
	server := httptest.NewUnstartedServer(mux)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	client := kinesinv1connect.NewWorkerServiceClient(server.Client(), server.URL, api.ClientOptions()...)
	for _, p := range pathsOf((&kinesinv1.WorkRequest{}).ProtoReflect().Descriptor(), isText) {
		request := &kinesinv1.WorkRequest{}
		if err := request.UnmarshalVT(p.inText("a\xffb")); err != nil {
			t.Fatal(err)
		}
		stream, err := client.Work(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := stream.Send(request); err != nil {
			t.Fatal(err)
		}
		_, err = stream.Receive()
		if err = api.FromWire(err); !errors.Is(err, api.ErrInvalid) || !strings.Contains(err.Error(), p.String()+": ") {
			t.Errorf("%s: %v", p, err)
		}
		_ = stream.CloseRequest()
	}
}

func TestJSONThatIsTooDeepOrTooLong(t *testing.T) {
	server := unimplemented(t)
	header := map[string]string{"Content-Type": "application/json"}
	row := strings.Repeat(`{"lambda":"a","then":[`, task.ChainDepthMax) + `{"lambda":"a"}` + strings.Repeat("]}", task.ChainDepthMax)
	for want, body := range map[string]string{
		"ids: more than 1000 elements":               `{"ids":[` + strings.TrimSuffix(strings.Repeat(`"",`, 1001), ",") + `]}`,
		"it is task 101 of a row: at most 100 tasks": `{"items":[` + row + `]}`,
		"exceeded max depth":                         `{"items":[{"lambda":"a","payload":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}]}`,
		`ids[0]: {\"a\":1} is not a text`:            `{"ids":[{"a":1}]}`,
		`the body is empty: want a JSON object`:      "",
	} {
		procedure := kinesinv1connect.TaskServiceScheduleProcedure
		if !strings.Contains(body, "items") {
			procedure = kinesinv1connect.TaskServiceGetProcedure
		}
		if answer, _ := post(t, server.URL+procedure, header, []byte(body)); !strings.HasPrefix(answer, "400 ") || !strings.Contains(answer, want) {
			t.Errorf("%.300s, want %q", answer, want)
		}
	}
	// Brackets and commas in a text are none, and a payload may be as deep and as long as it is.
	for procedure, body := range map[string]string{
		kinesinv1connect.TaskServiceGetProcedure:      `{"ids":["` + strings.Repeat(`[{,\"`, 50_000) + `"]}`,
		kinesinv1connect.TaskServiceScheduleProcedure: `{"items":[{"lambda":"a","payload":` + strings.Repeat("[", 1000) + strings.Repeat("1,", 50_000) + "1" + strings.Repeat("]", 1000) + `}]}`,
	} {
		if answer, _ := post(t, server.URL+procedure, header, []byte(body)); !strings.HasPrefix(answer, "501 ") {
			t.Errorf("%.300s", answer)
		}
	}
}

// isReadOnly reports whether the server alone sets the list, or it is a mask, so that no request in JSON has it.
func isReadOnly(p path) bool {
	return slices.ContainsFunc(p, func(f protoreflect.FieldDescriptor) bool {
		return api.Says(f, kinesinv1.E_ReadOnly) || api.MaskOf(f.ContainingMessage()) == f
	})
}

func TestARequestThatExpandsTooMuch(t *testing.T) {
	server := unimplemented(t)
	header := map[string]string{"Content-Type": "application/json", "Content-Encoding": "gzip"}
	body := compressed([]byte(`{"items":[{"lambda":"mail","payload_base64":"`+strings.Repeat("A", 8<<20)+`"}]}`), gzip.BestCompression)
	if answer, _ := post(t, server.URL+kinesinv1connect.TaskServiceScheduleProcedure, header, body); !strings.HasPrefix(answer, "400 ") || !strings.Contains(answer, "without compression") {
		t.Errorf("%.300s", answer)
	}
	some := compressed([]byte(`{"items":[{"lambda":"mail","payload_base64":"`+strings.Repeat("A", 900<<10)+`"}]}`), gzip.BestCompression)
	if answer, _ := post(t, server.URL+kinesinv1connect.TaskServiceScheduleProcedure, header, some); !strings.HasPrefix(answer, "501 ") {
		t.Errorf("%.300s", answer)
	}
}

// Calls of unknown length that have sent their bodies hold no room that they do not need. gRPC does not say
// how long a body is, and a Claim waits for a minute.
func TestCallsThatWaitHoldNoRoom(t *testing.T) {
	const calls = 100
	reached, release := make(chan struct{}, calls), make(chan struct{})
	server := httptest.NewServer(api.BoundBodies(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.ReadAll(r.Body); err != nil {
			t.Error(err)
		}
		reached <- struct{}{}
		<-release
	})))
	t.Cleanup(server.Close)
	var all sync.WaitGroup
	for range calls {
		all.Go(func() {
			body := io.MultiReader(strings.NewReader("a body of no known length")) // so that it is sent in chunks
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+kinesinv1connect.WorkerServiceClaimProcedure, body)
			if err != nil {
				t.Error(err)
				return
			}
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Error(err)
				return
			}
			if _ = response.Body.Close(); response.StatusCode != http.StatusOK {
				t.Errorf("status %d", response.StatusCode)
			}
		})
	}
	for n := range calls {
		select {
		case <-reached:
		case <-time.After(10 * time.Second):
			close(release)
			t.Fatalf("%d of %d calls were let in", n, calls)
		}
	}
	close(release)
	all.Wait()
}
