package golden

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/partition"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
	storemem "github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
)

// TestServed keeps what a server makes of requests: defaults, changes, and what is out of range. Its time stands still.
func TestServed(t *testing.T) {
	text, err := os.ReadFile("testdata/served")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "served", newServed(t).run(string(text)))
}

func newServed(t *testing.T) *script {
	t.Helper()
	v := clock.NewVirtual(task.Instant(due), 1)
	n, err := node.New(t.Context(), node.Config{
		Store: storemem.New(), Queue: queuemem.New(v.Process(0), queuemem.Config{}), Membership: partition.Static("golden"),
		Clock: v.Process(0), Log: slog.New(slog.DiscardHandler), Stepped: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	runtest.Start(t, n.Run)
	h := node.Trusting(n.Handler())
	return &script{t: t, http: h, url: listen(t, h)}
}

// drawn are ids that a server draws: those of tasks, and UUIDs.
var drawn = regexp.MustCompile(`k3[\w-]{40,}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)

// named puts a name for each id, in the order in which they come.
func (s *script) named(line string) string {
	return drawn.ReplaceAllStringFunc(line, func(id string) string {
		if !slices.Contains(s.ids, id) {
			s.ids = append(s.ids, id)
		}
		return "ID" + strconv.Itoa(slices.Index(s.ids, id)+1)
	})
}

// meant puts the ids for their names.
func (s *script) meant(line string) string {
	for i, id := range slices.Backward(s.ids) {
		line = strings.ReplaceAll(line, "ID"+strconv.Itoa(i+1), id)
	}
	return line
}

// hot is a message with generated code of its own, which sends any text.
type hot interface {
	proto.Message
	MarshalVT() ([]byte, error)
}

// TestBadText sends text that is no UTF-8 in each field of the calls that clients and workers make all the time, and keeps
// what a server says.
func TestBadText(t *testing.T) {
	s := newServed(t)
	s.do(&step{request: `POST /v1/lambdas {"name":"mail"}`})
	var out strings.Builder
	for _, call := range []struct {
		procedure string
		request   hot
	}{
		{kinesinv1connect.TaskServiceScheduleProcedure, &kinesinv1.ScheduleRequest{Items: []*kinesinv1.ScheduleItem{{Lambda: "mail"}}}},
		{kinesinv1connect.TaskServiceGetProcedure, &kinesinv1.GetRequest{Keys: []*kinesinv1.TaskKey{{Lambda: "mail", Key: "k"}}}},
		{kinesinv1connect.TaskServiceWaitProcedure, &kinesinv1.WaitRequest{Keys: []*kinesinv1.TaskKey{{Lambda: "mail", Key: "k"}}}},
		{kinesinv1connect.WorkerServiceRegisterProcedure, &kinesinv1.RegisterRequest{Groups: []*kinesinv1.SlotGroup{{Lambdas: []string{"mail"}, Slots: 1}}}},
		{kinesinv1connect.WorkerServiceClaimProcedure, &kinesinv1.ClaimRequest{}},
		{kinesinv1connect.WorkerServiceHeartbeatProcedure, &kinesinv1.HeartbeatRequest{}},
		{kinesinv1connect.WorkerServiceSetResultsProcedure, &kinesinv1.SetResultsRequest{Results: []*kinesinv1.Result{{Outcome: "success"}}}},
	} {
		eachText(call.request.ProtoReflect(), call.procedure, func(path string) {
			data, err := call.request.MarshalVT()
			if err != nil {
				t.Fatal(err)
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, call.procedure, bytes.NewReader(data))
			r.Header.Set("Content-Type", "application/proto")
			w := httptest.NewRecorder()
			s.http.ServeHTTP(w, r)
			said := "done"
			var problem struct{ Code, Message string }
			answer := messageOf(t, methodOf(call.procedure).Output())
			switch {
			case json.Unmarshal(w.Body.Bytes(), &problem) == nil:
				said = problem.Code + ": " + problem.Message
			case proto.Unmarshal(w.Body.Bytes(), answer) != nil:
				said = "an answer that is no UTF-8"
			default:
				if results, is := answer.(interface {
					GetResults() []*kinesinv1.ScheduleResult
				}); is {
					said = results.GetResults()[0].GetProblem().GetText()
				}
				if results, is := answer.(interface{ GetResults() []*kinesinv1.GetResult }); is {
					said = results.GetResults()[0].GetProblem().GetText()
				}
			}
			out.WriteString(path + " " + strconv.Itoa(w.Code) + " " + said + "\n")
		})
	}
	golden(t, "badtext", out.String())
}

// eachText sets each text of a message in turn, and calls visit while it is set.
func eachText(m protoreflect.Message, path string, visit func(path string)) {
	bad := protoreflect.ValueOfString("\xff")
	for i := range m.Descriptor().Fields().Len() {
		d := m.Descriptor().Fields().Get(i)
		path := path + " " + string(d.Name())
		switch {
		case d.Message() != nil && d.IsList() && m.Has(d):
			eachText(m.Get(d).List().Get(0).Message(), path, visit)
		case d.IsMap() && d.MapValue().Kind() == protoreflect.StringKind:
			m.Mutable(d).Map().Set(bad.MapKey(), bad)
			visit(path)
			m.Clear(d)
		case d.Kind() != protoreflect.StringKind || d.IsMap():
		case d.IsList():
			before := m.Get(d).List().Len()
			m.Mutable(d).List().Append(bad)
			visit(path)
			m.Mutable(d).List().Truncate(before)
		default:
			before := m.Get(d)
			m.Set(d, bad)
			visit(path)
			m.Set(d, before)
		}
	}
}
