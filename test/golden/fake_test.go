package golden

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
)

// fake serves every unary procedure. It notes the requests, and answers with what is queued, then with all fields
// set.
type fake struct {
	t *testing.T

	mu      sync.Mutex // guards all below
	answers []answer
	calls   []string           // PROCEDURE REQUEST
	paged   bool               // answers say that there is more
	refusal *kinesinv1.Problem // of every call; nil: none
}

// answer is an answer of a service in JSON; a problem if it is one.
type answer struct {
	text      string
	isProblem bool
}

// begin forgets the calls so far and queues answers.
func (f *fake) begin(answers []answer, paged bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.answers, f.calls, f.paged = answers, nil, paged
}

// ServeHTTP implements http.Handler with connect's protocol.
func (f *fake) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	rpc := methodOf(r.URL.Path)
	if rpc == nil || rpc.IsStreamingClient() || rpc.IsStreamingServer() {
		f.calls = append(f.calls, r.Method+" "+r.URL.Path)
		f.fail(w, r, connect.NewError(connect.CodeUnimplemented, errors.New("not a unary procedure")))
		return
	}
	request, response := messageOf(f.t, rpc.Input()), messageOf(f.t, rpc.Output())
	body, err := io.ReadAll(r.Body)
	if err == nil {
		err = proto.Unmarshal(body, request)
	}
	if err != nil {
		f.t.Errorf("%s: %v", r.URL.Path, err)
	}
	f.calls = append(f.calls, string(rpc.Name())+" "+jsonOf(f.t, request))
	if f.refusal != nil {
		f.fail(w, r, api.ErrorOf(f.refusal))
		return
	}
	switch {
	case len(f.answers) == 0:
		filler{paged: f.paged, results: resultsFor(request)}.fill(response.ProtoReflect(), nil)
	case f.answers[0].isProblem:
		problem := &kinesinv1.Problem{}
		f.parse(f.answers[0].text, problem)
		f.answers = f.answers[1:]
		f.fail(w, r, api.ErrorOf(problem))
		return
	default:
		f.parse(f.answers[0].text, response)
		f.answers = f.answers[1:]
	}
	data, err := proto.Marshal(response)
	if err != nil {
		f.t.Errorf("%s: %v", r.URL.Path, err)
	}
	w.Header().Set("Content-Type", "application/proto")
	_, _ = w.Write(data)
}

func (f *fake) parse(text string, m proto.Message) {
	if err := protojson.Unmarshal([]byte(text), m); err != nil {
		f.t.Errorf("the answer %s: %v", text, err)
	}
}

func (f *fake) fail(w http.ResponseWriter, r *http.Request, err error) {
	_ = connect.NewErrorWriter().Write(w, r, api.ToWire(err))
}

// RoundTrip implements http.RoundTripper without a socket.
func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	w := &recorder{header: http.Header{}, status: http.StatusOK}
	f.ServeHTTP(w, r)
	return &http.Response{
		StatusCode: w.status, Header: w.header, Body: io.NopCloser(&w.body), Request: r, ContentLength: int64(w.body.Len()),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}, context.Cause(r.Context())
}

type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (w *recorder) Header() http.Header                { return w.header }
func (w *recorder) WriteHeader(status int)             { w.status = status }
func (w *recorder) Write(data []byte) (n int, _ error) { return w.body.Write(data) }

// methodOf returns the procedure that a path names; nil if it names none.
func methodOf(path string) protoreflect.MethodDescriptor {
	name := strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", ".")
	d, _ := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	rpc, _ := d.(protoreflect.MethodDescriptor)
	return rpc
}

func messageOf(t *testing.T, d protoreflect.MessageDescriptor) proto.Message {
	t.Helper()
	found, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		t.Fatal(err)
	}
	return found.New().Interface()
}

// jsonOf returns a message in JSON, without what a client draws, or computes from the time, for each call.
func jsonOf(t *testing.T, m proto.Message) string {
	t.Helper()
	withoutChance(m.ProtoReflect())
	text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(m)
	var compact bytes.Buffer
	if err := errors.Join(err, json.Compact(&compact, text)); err != nil {
		t.Fatal(err)
	}
	return compact.String()
}

func withoutChance(m protoreflect.Message) {
	m.Range(func(d protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case d.Name() == "request_id":
			m.Set(d, protoreflect.ValueOfBytes([]byte("request_id")))
		case d.Kind() == protoreflect.Int64Kind && (d.Name() == "since" || d.Name() == "until"):
			m.Set(d, protoreflect.ValueOfInt64(due))
		case d.Message() == nil || d.IsMap():
		case d.IsList():
			for i := range v.List().Len() {
				withoutChance(v.List().Get(i).Message())
			}
		default:
			withoutChance(v.Message())
		}
		return true
	})
}

// resultsFor returns how many results a request asks for.
func resultsFor(request proto.Message) int {
	n, fields := 0, request.ProtoReflect().Descriptor().Fields()
	for _, name := range []protoreflect.Name{"ids", "keys", "items", "updates"} {
		if d := fields.ByName(name); d != nil {
			n += request.ProtoReflect().Get(d).List().Len()
		}
	}
	return max(n, 1)
}
