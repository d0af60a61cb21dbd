package server

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/internal/tlstest"
	"github.com/kinesin-io/kinesin/partition/kube"
	"github.com/kinesin-io/kinesin/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// running is a server on its own data directory.
type running struct {
	*Server

	t    *testing.T
	url  string
	http *http.Client
	stop func() error  // ends the server and says how it ended
	logs *runtest.Text // at every level
}

func serve(t *testing.T, c Config) *running {
	t.Helper()
	return serveOver(t, c, api.NewCallTransport())
}

func serveTLS(t *testing.T, c Config, a *tlstest.Authority) *running {
	t.Helper()
	transport := api.NewCallTransport()
	transport.TLSClientConfig = a.Trust()
	return serveOver(t, c, transport)
}

func serveOver(t *testing.T, c Config, transport *http.Transport) *running {
	t.Helper()
	l := &runtest.Text{}
	c.Log = slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if c.DataDir == "" {
		c.DataDir = t.TempDir()
	}
	if c.Listen == "" {
		c.Listen = "127.0.0.1:0"
	}
	s, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	r := &running{Server: s, t: t, url: s.URL(), http: &http.Client{Transport: transport}, logs: l}
	r.stop = sync.OnceValue(func() error {
		cancel()
		err := <-done
		transport.CloseIdleConnections()
		return err
	})
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	r.until("ready", func() bool { status, _ := r.get("/readyz"); return status == http.StatusOK })
	return r
}

// until waits for something that takes moments.
func (r *running) until(what string, ok func() bool) {
	r.t.Helper()
	runtest.Eventually(r.t, 10*time.Second, what, ok)
}

func (r *running) get(path string) (int, string) {
	r.t.Helper()
	response, err := r.http.Get(r.url + path)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// post does what curl does.
func (r *running) post(method, body string) (int, map[string]any) {
	r.t.Helper()
	response, err := r.http.Post(r.url+"/kinesin.v1."+method, "application/json", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var answer map[string]any
	if err := json.NewDecoder(response.Body).Decode(&answer); err != nil {
		r.t.Fatal(err)
	}
	return response.StatusCode, answer
}

// at follows a path of names and indices through decoded JSON; nil if there is none.
func at(value any, path ...any) any {
	for _, step := range path {
		switch s := step.(type) {
		case string:
			object, _ := value.(map[string]any)
			value = object[s]
		case int:
			list, _ := value.([]any)
			if s >= len(list) {
				return nil
			}
			value = list[s]
		}
	}
	return value
}

func (r *running) tasks(options ...connect.ClientOption) kinesinv1connect.TaskServiceClient {
	return kinesinv1connect.NewTaskServiceClient(r.http, r.url, append(api.ClientOptions(), options...)...)
}

func (r *running) create(name string) {
	r.t.Helper()
	if status, answer := r.post("LambdaService/CreateLambda", `{"name":"`+name+`"}`); status != http.StatusOK {
		r.t.Fatal(status, answer)
	}
}

func (r *running) schedule(items ...*kinesinv1.ScheduleItem) []string {
	r.t.Helper()
	response, err := r.tasks().Schedule(r.t.Context(), &kinesinv1.ScheduleRequest{Items: items})
	if err != nil {
		r.t.Fatal(err)
	}
	var ids []string
	for _, result := range response.Results {
		if result.Problem != nil {
			r.t.Fatal(result.Problem)
		}
		ids = append(ids, result.Id)
	}
	return ids
}

func item(lambda string, delay time.Duration) *kinesinv1.ScheduleItem {
	return &kinesinv1.ScheduleItem{Lambda: lambda, Delay: delay.Microseconds()}
}

func TestJSONOverHTTP(t *testing.T) {
	r := serve(t, Config{})
	r.create("mail")
	status, answer := r.post("TaskService/Schedule", `{"items":[{"lambda":"mail","delay":"1m","payload":{"greet":"Ada"}},{"lambda":"nobody"}]}`)
	if status != http.StatusOK {
		t.Fatal(status, answer)
	}
	id, _ := at(answer, "results", 0, "id").(string)
	if id == "" || at(answer, "results", 1, "problem", "reason") != "unknown_lambda" {
		t.Errorf("%v", answer)
	}
	status, answer = r.post("TaskService/Get", `{"ids":["`+id+`"],"with_payload":true}`)
	if status != http.StatusOK || at(answer, "results", 0, "task", "state") != "scheduled" || at(answer, "results", 0, "task", "payload", "greet") != "Ada" {
		t.Errorf("%d %v", status, answer)
	}
	for what, c := range map[string]struct {
		method, body string
		status       int
		code         string
	}{
		"bad name":       {"LambdaService/CreateLambda", `{"name":"a b"}`, http.StatusBadRequest, "invalid_argument"},
		"other settings": {"LambdaService/CreateLambda", `{"name":"mail","shards":9}`, http.StatusConflict, "already_exists"},
		"deliver":        {"LambdaService/CreateLambda", `{"name":"x","mode":"deliver"}`, http.StatusNotImplemented, "unimplemented"},
		"unknown lambda": {"LambdaService/GetLambda", `{"name":"nobody"}`, http.StatusNotFound, "not_found"},
		"no items":       {"TaskService/Schedule", `{}`, http.StatusBadRequest, "invalid_argument"},
		"no JSON":        {"TaskService/Schedule", `{"items":`, http.StatusBadRequest, "invalid_argument"},
		"unknown field":  {"TaskService/Schedule", `{"itms":[]}`, http.StatusBadRequest, "invalid_argument"},
	} {
		status, answer := r.post(c.method, c.body)
		if status != c.status || answer["code"] != c.code || answer["message"] == "" {
			t.Errorf("%s: %d %v, want %d %s", what, status, answer, c.status, c.code)
		}
	}
}

// A misspelt delay must not mean now.
func TestJSONWithAnUnknownField(t *testing.T) {
	r := serve(t, Config{})
	r.create("mail")
	for body, says := range map[string]string{
		`{"items":[{"lambda":"mail","dealy":"1m"}]}`: `items[0]: unknown field "dealy" in the task; allowed here: backoff_max, backoff_min, blob, collection, delay, due,`,
		`{"itms":[]}`:                                  `unknown field "itms" in the body; allowed here: again, elapsed, first, items`,
		`{"items":[{"lambda":"mail"}],"now":1}`:        `unknown field "now" in the body`,
		`{"items":[{"lambda":"mail","lambda_ref":1}]}`: `unknown field "lambda_ref" in the task`, // the server alone sets it
	} {
		status, answer := r.post("TaskService/Schedule", body)
		message, _ := answer["message"].(string)
		if status != http.StatusBadRequest || !strings.Contains(message, says) {
			t.Errorf("%s: %d %v", body, status, answer)
		}
	}
	if _, answer := r.post("TaskService/List", `{"lambda":"mail"}`); at(answer, "tasks", 0) != nil {
		t.Errorf("something was scheduled: %v", answer)
	}
}

// Messages of streams have the same JSON, each behind its length.
func TestJSONInAStream(t *testing.T) {
	r := serve(t, Config{})
	for body, want := range map[string]string{`{}`: `{"start":{"created":"20`, `{"havee":[]}`: `unknown field \"havee\" in the body; allowed here: have`} {
		message := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body))), body...)
		response, err := r.http.Post(r.url+kinesinv1connect.BackupServiceBackupProcedure, "application/connect+json", bytes.NewReader(message))
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, 500)
		n, _ := io.ReadFull(response.Body, first)
		_ = response.Body.Close()
		if !strings.Contains(string(first[:n]), want) {
			t.Errorf("%s: %q, want %s", body, first[:n], want)
		}
	}
}

func TestEveryProtocolOnOnePort(t *testing.T) {
	r := serve(t, Config{})
	r.create("mail")
	streams := api.NewStreamTransport()
	defer streams.CloseIdleConnections()
	for name, client := range map[string]kinesinv1connect.TaskServiceClient{
		"Connect":  r.tasks(),
		"gRPC-Web": r.tasks(connect.WithGRPCWeb()),
		"gRPC": kinesinv1connect.NewTaskServiceClient(&http.Client{Transport: streams}, r.url,
			append(api.ClientOptions(), connect.WithGRPC())...),
	} {
		made, err := client.Schedule(t.Context(), &kinesinv1.ScheduleRequest{Items: []*kinesinv1.ScheduleItem{item("mail", time.Hour)}})
		if err != nil || made.Results[0].Id == "" {
			t.Errorf("%s: %v, %v", name, made, err)
			continue
		}
		got, err := client.Get(t.Context(), &kinesinv1.GetRequest{Ids: []string{made.Results[0].Id}})
		if err != nil || got.Results[0].Task.GetState() != "scheduled" {
			t.Errorf("%s: %v, %v", name, got, err)
		}
		_, err = client.List(t.Context(), &kinesinv1.ListRequest{Lambda: "nobody"})
		if !errors.Is(api.FromWire(err), api.ErrUnknownLambda) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHealthAndUnknownPaths(t *testing.T) {
	r := serve(t, Config{})
	for path, want := range map[string]struct {
		status int
		word   string
	}{
		"/healthz":                     {http.StatusOK, "ok"},
		"/livez":                       {http.StatusOK, "ok"},
		"/readyz":                      {http.StatusOK, "ready"},
		"/nothing":                     {http.StatusNotFound, "/kinesin.v1.TaskService/"},
		"/":                            {http.StatusOK, "<h1>Now</h1>"},
		"/favicon.ico":                 {http.StatusNotFound, "/metrics"},
		"/kinesin.v1.TaskService/Nope": {http.StatusNotFound, ""},
	} {
		status, body := r.get(path)
		if status != want.status || !strings.Contains(body, want.word) {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
}

func TestAProcessServesOnlyItsRoles(t *testing.T) {
	r := serve(t, Config{Roles: []string{node.RoleHSC}})
	if status, _ := r.get("/kinesin.v1.TaskService/Get"); status != http.StatusNotFound {
		t.Errorf("inbound answers with %d", status)
	}
	workers := kinesinv1connect.NewWorkerServiceClient(r.http, r.url, api.ClientOptions()...)
	if _, err := workers.Register(t.Context(), &kinesinv1.RegisterRequest{Name: "w"}); err != nil {
		t.Errorf("register: %v", err)
	}
}

// A pod that does not know itself is refused before any other check.
func TestAPodThatDoesNotKnowItself(t *testing.T) {
	for word, c := range map[string]Config{
		"neither is set":           {},
		"POD_NAMESPACE is not set": {PodName: "kinesin-0"},
		"POD_NAME is not set":      {PodNamespace: "default"},
	} {
		c = onDynamoDB(c)
		c.Membership, c.Listen = MembershipKubernetes, "127.0.0.1:0"
		_, err := New(t.Context(), c)
		if !errors.Is(err, kube.ErrNoIdentity) || !Lasting(err) || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %v", word, err)
		}
	}
}

// metric finds a line of /metrics and returns its value.
func (r *running) metric(series string) (value string, found bool) {
	r.t.Helper()
	_, body := r.get("/metrics")
	for line := range strings.Lines(body) {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(rest), true
		}
	}
	return "", false
}

func (r *running) wantMetric(series, want string) {
	r.t.Helper()
	if got, found := r.metric(series); got != want {
		r.t.Errorf("%s is %q (%v), want %q", series, got, found, want)
	}
}

func TestMetrics(t *testing.T) {
	r := serve(t, Config{})
	r.create("mail")
	keyed := item("mail", time.Hour)
	keyed.Key = "k"
	r.schedule(item("mail", time.Hour), item("mail", time.Hour), keyed, item("mail", 0))
	if response, err := r.tasks().Schedule(t.Context(), &kinesinv1.ScheduleRequest{Items: []*kinesinv1.ScheduleItem{item("nobody", 0)}}); err != nil {
		t.Fatal(response, err)
	}
	expiring := item("mail", 0)
	expiring.Priority, expiring.StartBefore = "high", time.Now().Add(time.Second).UnixMicro()
	r.schedule(expiring)
	r.until("expired", func() bool {
		v, _ := r.metric(`kinesin_tasks_expired_total{lambda="mail",priority="high"}`)
		return v == "1"
	})
	r.runOne()
	r.until("counted", func() bool { v, _ := r.metric("kinesin_store_counted"); return v == "1" })
	for series, want := range map[string]string{
		`kinesin_tasks_accepted_total{lambda="mail",priority="normal"}`:           "4",
		`kinesin_tasks_refused_total{reason="unknown_lambda"}`:                    "1",
		`kinesin_tasks{lambda="mail",priority="normal",state="scheduled"}`:        "3",
		`kinesin_tasks{lambda="mail",priority="normal",state="enqueued"}`:         "0",
		`kinesin_tasks{lambda="mail",priority="normal",state="claimed"}`:          "0",
		`kinesin_tasks{lambda="mail",priority="high",state="scheduled"}`:          "0",
		`kinesin_oldest_waiting_seconds{lambda="mail",priority="normal"}`:         "0",
		`kinesin_queue_messages{lambda="mail",priority="normal",state="visible"}`: "0",
		`kinesin_queue_oldest_seconds{lambda="mail",priority="normal"}`:           "0",
		`kinesin_store_full`: "0",
		`kinesin_attempts_total{lambda="mail",outcome="success",priority="normal"}`:            "1",
		`kinesin_task_lateness_seconds_count{lambda="mail",priority="normal",stage="claimed"}`: "1",
		`kinesin_task_lateness_seconds_count{lambda="mail",priority="normal",stage="started"}`: "1",
		`kinesin_wakeups_total{event="enqueue"}`:                                               "1", // which ended the expired one
		`kinesin_schedule_calls_total{outcome="accepted"}`:                                     "2",
		`kinesin_schedule_calls_total{outcome="refused"}`:                                      "1",
		`kinesin_schedule_calls_total{outcome="failed"}`:                                       "0",
		`kinesin_due_tasks{horizon="1m",lambda="mail"}`:                                        "0",
		`kinesin_due_tasks{horizon="5m",lambda="mail"}`:                                        "0",
		`kinesin_outage_seconds{service="store"}`:                                              "0",
		`kinesin_outage_seconds{service="queue"}`:                                              "0",
		`kinesin_workers_lost_total`:                                                           "0",
		`kinesin_internal_errors_total`:                                                        "0",
		`kinesin_registrations{outcome="refused"}`:                                             "0",
	} {
		r.wantMetric(series, want)
	}
	for _, series := range []string{`kinesin_store_seconds_count{op="apply"}`, "kinesin_store_fsync_seconds_count", "go_goroutines", "process_cpu_seconds_total"} {
		if value, found := r.metric(series); !found || value == "0" {
			t.Errorf("%s is %q", series, value)
		}
	}
}

// runOne claims one task as a worker does and reports success.
func (r *running) runOne() (claimed *kinesinv1.Claimed) {
	r.t.Helper()
	workers := kinesinv1connect.NewWorkerServiceClient(r.http, r.url, api.ClientOptions()...)
	lease, err := workers.Register(r.t.Context(), &kinesinv1.RegisterRequest{Name: "w"})
	if err != nil {
		r.t.Fatal(err)
	}
	got, err := workers.Claim(r.t.Context(), &kinesinv1.ClaimRequest{Worker: lease.Worker, Lambdas: []string{"mail"}, Limit: 1, Wait: 5_000_000})
	if err != nil || len(got.Tasks) != 1 {
		r.t.Fatal(got, err)
	}
	claimed = got.Tasks[0]
	acks, err := workers.SetResults(r.t.Context(), &kinesinv1.SetResultsRequest{Worker: lease.Worker, Results: []*kinesinv1.Result{{
		Task: claimed.Task, Attempt: claimed.Attempt, Outcome: "success", Started: time.Now().UnixMicro(),
	}}})
	if err != nil || acks.Acks[0].Problem != nil {
		r.t.Fatal(acks, err)
	}
	return claimed
}

// The series of a lambda must end with it.
func TestSeriesOfADeletedLambdaGo(t *testing.T) {
	r := serve(t, Config{})
	for _, name := range []string{"one", "two"} {
		r.create(name)
		r.schedule(item(name, time.Hour))
		if status, answer := r.post("LambdaService/DeleteLambda", `{"name":"`+name+`","drop_tasks":true}`); status != http.StatusOK {
			t.Fatal(answer)
		}
	}
	r.create("three")
	r.schedule(item("three", time.Hour))
	_, body := r.get("/metrics")
	if strings.Contains(body, `lambda="one"`) || strings.Contains(body, `lambda="two"`) || !strings.Contains(body, `lambda="three"`) {
		t.Error("series of deleted lambdas are left")
	}
}

func TestWhatIsAcknowledgedOutlivesAStop(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	r := serve(t, Config{DataDir: dir})
	r.create("mail")
	ids := r.schedule(item("mail", 0), item("mail", time.Hour))
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	r = serve(t, Config{DataDir: dir})
	got, err := r.tasks().Get(t.Context(), &kinesinv1.GetRequest{Ids: ids})
	if err != nil || got.Results[0].Task.GetState() != "enqueued" || got.Results[1].Task.GetState() != "scheduled" {
		t.Errorf("%v, %v", got, err)
	}
	if claimed := r.runOne(); claimed.Id != ids[0] {
		t.Errorf("claimed %s, want the one that was in the queue", claimed.Id)
	}
}

func TestStopEndsWhatIsInHand(t *testing.T) {
	r := serve(t, Config{})
	r.create("mail")
	id := r.schedule(item("mail", time.Hour))[0]
	waited := make(chan *kinesinv1.GetResponse, 1)
	go func() {
		response, err := r.tasks().Wait(context.WithoutCancel(t.Context()), &kinesinv1.WaitRequest{Ids: []string{id}, Wait: 60_000_000})
		if err != nil {
			t.Errorf("wait: %v", err)
		}
		waited <- response
	}()
	streams := api.NewStreamTransport()
	defer streams.CloseIdleConnections()
	workers := kinesinv1connect.NewWorkerServiceClient(&http.Client{Transport: streams}, r.url, append(api.ClientOptions(), connect.WithGRPC())...)
	lease, err := workers.Register(t.Context(), &kinesinv1.RegisterRequest{Name: "w"})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := workers.Work(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hello := &kinesinv1.Hello{Worker: lease.Worker, Groups: []*kinesinv1.SlotGroup{{Lambdas: []string{"mail"}, Slots: 4}}}
	if err := stream.Send(&kinesinv1.WorkRequest{Hello: hello}); err != nil {
		t.Fatal(err)
	}
	r.until("connected", func() bool { v, _ := r.metric("kinesin_workers"); return v == "1" })

	began := time.Now()
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > DrainMaxDefault/2 {
		t.Errorf("took %v", took)
	}
	if response := <-waited; response == nil || response.Results[0].Task.GetState() != "scheduled" {
		t.Errorf("the wait in flight: %v", response)
	}
	for {
		if _, err = stream.Receive(); err != nil {
			break
		}
	}
	if !errors.Is(api.FromWire(err), api.ErrUnavailable) {
		t.Errorf("the worker's stream ended with %v", err)
	}
	_ = stream.CloseRequest()
	_ = stream.CloseResponse()
	if _, err := net.Dial("tcp", r.Addr().String()); err == nil {
		t.Error("still listening")
	}
}

// A caller on a kept connection must move to another server when this one stops.
func TestAStopMakesCallersConnectAgain(t *testing.T) {
	r := serve(t, Config{})
	r.create("mail")
	id := r.schedule(item("mail", time.Hour))[0]
	kept := &http.Transport{}
	defer kept.CloseIdleConnections()
	written, closed := make(chan struct{}), make(chan bool, 1)
	ctx := httptrace.WithClientTrace(context.WithoutCancel(t.Context()), &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { close(written) },
	})
	body := strings.NewReader(fmt.Sprintf(`{"ids":[%q],"wait":"1m"}`, id))
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/kinesin.v1.TaskService/Wait", body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	go func() {
		response, err := (&http.Client{Transport: kept}).Do(request)
		if err != nil {
			t.Errorf("wait: %v", err)
			closed <- false
			return
		}
		_ = response.Body.Close()
		closed <- response.Close
	}()
	<-written
	time.Sleep(50 * time.Millisecond)
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if !<-closed {
		t.Error("the connection was to be used again")
	}
}

// A client that holds a call open must not delay a stop forever.
func TestAStopHasALimit(t *testing.T) {
	r := serve(t, Config{DrainMax: 200 * time.Millisecond})
	conn, err := net.Dial("tcp", r.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	half := "POST /kinesin.v1.TaskService/Get HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
	if _, err := io.WriteString(conn, half); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond)
	if err := r.stop(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(r.logs.String(), "closing connections") {
		t.Error("nothing was cut off")
	}
}

func TestAPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	dir := filepath.Join(t.TempDir(), "data")
	_, err = New(t.Context(), Config{DataDir: dir, Listen: l.Addr().String()})
	if !errors.Is(err, ErrListen) || !strings.Contains(err.Error(), "in use") || !strings.Contains(err.Error(), "--listen") || !strings.Contains(err.Error(), l.Addr().String()) {
		t.Errorf("%v", err)
	}
	if entries, _ := filepath.Glob(dir); len(entries) != 0 {
		t.Error("the data directory was made nevertheless")
	}
}

func TestADataDirectoryInUse(t *testing.T) {
	r := serve(t, Config{})
	_, err := New(t.Context(), Config{DataDir: r.Config().DataDir, Listen: "127.0.0.1:0"})
	if !errors.Is(err, store.ErrInUse) || !strings.Contains(err.Error(), r.Config().DataDir) || !strings.Contains(err.Error(), "choose another directory") {
		t.Errorf("%v", err)
	}
	r.create("mail") // the first one goes on
}

func TestAnAddressBeyondLoopbackOpensNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	_, err := New(t.Context(), Config{DataDir: dir, Listen: "0.0.0.0:0"})
	if entries, _ := filepath.Glob(dir); !errors.Is(err, ErrConfig) || len(entries) != 0 {
		t.Errorf("%v, made %v", err, entries)
	}
}

func TestPayloadsAndKeysStayOutOfLogsMetricsAndErrors(t *testing.T) {
	const canary = "canary-7c1f"
	r := serve(t, Config{PayloadBytesMax: 2000})
	r.create("mail")
	secret := func(delay time.Duration, n int) *kinesinv1.ScheduleItem {
		i := item("mail", delay)
		i.Payload = bytes.Repeat([]byte(canary), n)
		return i
	}
	ids := r.schedule(secret(0, 1), secret(0, 100), secret(time.Hour, 1), secret(time.Hour, 100))
	keyed := secret(time.Hour, 2)
	keyed.Key = "k"
	r.schedule(keyed)
	var told []string
	for _, i := range []*kinesinv1.ScheduleItem{secret(0, 300), {Lambda: "mail", Key: "k", Payload: []byte(canary)}, {Lambda: canary + " ", Payload: []byte(canary)}} {
		response, err := r.tasks().Schedule(t.Context(), &kinesinv1.ScheduleRequest{Items: []*kinesinv1.ScheduleItem{i}})
		if err != nil {
			t.Fatal(err)
		}
		if text := response.Results[0].Problem.GetText(); i.Lambda == "mail" {
			told = append(told, text)
		}
	}
	r.runOne()
	if _, err := r.tasks().Cancel(t.Context(), &kinesinv1.CancelRequest{Ids: ids}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ procedure, body string }{
		{kinesinv1connect.CronServiceSetCronProcedure, `{"name":"nightly","lambda":"mail","schedule":"@daily","payload":"` + canary + `"}`},
		{kinesinv1connect.CronServiceRunCronProcedure, `{"name":"nightly"}`},
		{kinesinv1connect.CronServicePauseCronProcedure, `{"name":"nightly","reason":"x"}`},
		{kinesinv1connect.TaskServiceUpdateProcedure, `{"updates":[{"id":"` + ids[2] + `","payload":"` + canary + `"}]}`},
		{kinesinv1connect.TaskServiceRedriveProcedure, `{"ids":["` + ids[2] + `"],"payload":"` + canary + `"}`},
		{kinesinv1connect.CronServiceDeleteCronProcedure, `{"name":"nightly"}`},
	} {
		if answer, code := r.callAs("", c.procedure, c.body); code != "" {
			t.Errorf("%s: %s", c.procedure, answer)
		}
	}
	records, _ := r.callAs("", kinesinv1connect.AccessServiceListAuditProcedure, `{"limit":1000}`)
	if !strings.Contains(records, "cron.set") || !strings.Contains(records, "task.redrive") {
		t.Errorf("records: %s", records)
	}
	_, metrics := r.get("/metrics")
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	for where, text := range map[string]string{"logs": r.logs.String(), "metrics": metrics, "audit records": records, "refusals": strings.Join(told, "\n")} {
		if strings.Contains(text, canary) {
			t.Errorf("the payload is in the %s", where)
		}
	}
}

func TestPublicIDsKeepTheirSecret(t *testing.T) {
	dir := t.TempDir()
	one, two := serve(t, Config{DataDir: dir}), serve(t, Config{})
	one.create("mail")
	id := one.schedule(item("mail", time.Hour))[0]
	for _, c := range []struct {
		server *running
		want   kinesinv1.Reason
	}{{one, 0}, {two, kinesinv1.Reason_REASON_NOT_FOUND}} {
		got, err := c.server.tasks().Get(t.Context(), &kinesinv1.GetRequest{Ids: []string{id}})
		if err != nil || got.Results[0].Problem.GetReason() != c.want {
			t.Errorf("%v, %v", got, err)
		}
	}
	if err := one.stop(); err != nil {
		t.Fatal(err)
	}
	again := serve(t, Config{DataDir: dir})
	got, err := again.tasks().Get(t.Context(), &kinesinv1.GetRequest{Ids: []string{id}})
	if err != nil || got.Results[0].Task.GetId() != id {
		t.Errorf("after a restart: %v, %v", got, err)
	}
}
