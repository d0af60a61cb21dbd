package aws_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// latenessMaxMS is what a machine that is busy with other tests still does: these here are about what
// happens, not how fast.
const latenessMaxMS = 10_000

// site is an installation: a prefix on the emulators, and servers over it.
type site struct {
	t      *testing.T
	aws    awslocal.Endpoints
	prefix string
	urls   []string
}

func newSite(t *testing.T) *site {
	t.Helper()
	t.Parallel()
	endpoints := awslocal.Start(t)
	return &site{t: t, aws: endpoints, prefix: endpoints.Prefix(t)}
}

// kinesin runs a command with the environment of the installation, and that of this test besides.
func (s *site) kinesin(env []string, args ...string) harness.Result {
	s.t.Helper()
	return harness.Command{Args: args, Env: append(s.aws.Env(), env...)}.Run(s.t)
}

func (s *site) setup(args ...string) harness.Result {
	s.t.Helper()
	return s.kinesin(nil, append([]string{"aws", "setup", "--aws-prefix", s.prefix}, args...)...)
}

// serve starts one more server of the installation.
func (s *site) serve(args ...string) *harness.Server {
	s.t.Helper()
	server := harness.StartServer(s.t, harness.ServerOptions{
		Args: append([]string{"--store", "dynamodb", "--queue", "sqs", "--aws-prefix", s.prefix}, args...), Env: s.aws.Env(),
	})
	s.urls = append(s.urls, server.URL)
	return server
}

// run runs a client command at one of the servers.
func (s *site) run(server int, args ...string) harness.Result {
	s.t.Helper()
	return harness.Run(s.t, append(args, "--server", s.urls[server])...)
}

func (s *site) worker(server int, args ...string) *harness.Process {
	s.t.Helper()
	return harness.Start(s.t, harness.Command{
		Args: append([]string{"worker"}, args...),
		Env:  []string{"KINESIN_SERVER=" + s.urls[server]},
	})
}

// items are the lines of a setup: what it says of each table and queue.
func (s *site) items(r harness.Result) map[string]string {
	s.t.Helper()
	var report struct {
		Items []struct {
			Name    string          `json:"name"`
			Outcome string          `json:"outcome"`
			Spec    json.RawMessage `json:"spec"`
		} `json:"items"`
	}
	r.JSON(s.t, &report)
	outcomes := map[string]string{}
	for _, i := range report.Items {
		outcomes[strings.TrimPrefix(i.Name, s.prefix+"-")] = i.Outcome
		if len(i.Spec) < 10 {
			s.t.Errorf("%s without a specification: %s", i.Name, i.Spec)
		}
	}
	return outcomes
}

func (s *site) wantAll(r harness.Result, outcome string, names ...string) {
	s.t.Helper()
	got := s.items(r)
	for _, name := range names {
		if got[name] != outcome {
			s.t.Errorf("%s is %q, want %q, of %v", name, got[name], outcome, got)
		}
	}
	if len(got) != len(names) {
		s.t.Errorf("%d tables and queues, want %d: %v", len(got), len(names), got)
	}
}

var fixed = []string{"schedule", "tasks", "payloads", "control", "inbound", "inbound-dlq"}

func TestSetup(t *testing.T) {
	s := newSite(t)
	s.wantAll(s.setup("--dry-run", "-o", "json"), "missing", fixed...)
	dry := s.setup("--dry-run").Must(t)
	for _, text := range []string{s.prefix + "-tasks", "would be created", `"dead"`, "KEYS_ONLY", `"ttl":"x"`, "message_retention_seconds", s.prefix + "-inbound"} {
		if !strings.Contains(dry, text) {
			t.Errorf("a dry run does not say %q:\n%s", text, dry)
		}
	}
	s.wantAll(s.setup("-o", "json"), "created", fixed...)
	s.wantAll(s.setup("-o", "json"), "unchanged", fixed...)

	s.serve()
	s.run(0, "lambda", "create", "mail", "--priorities", "one").Must(t)
	s.run(0, "lambda", "create", "out", "--mode", "deliver", "--priorities", "one").Must(t)
	all := append([]string{"mail-one", "out-one", "out-one-dlq"}, fixed...)
	s.wantAll(s.setup("-o", "json"), "unchanged", all...)
	s.deleteQueue("mail-one")
	if got := s.items(s.setup("--dry-run", "-o", "json")); got["mail-one"] != "missing" {
		t.Errorf("a queue that was deleted is %q", got["mail-one"])
	}
	if got := s.items(s.setup("-o", "json")); got["mail-one"] != "created" {
		t.Errorf("a queue that was deleted is %q after setup", got["mail-one"])
	}
}

func (s *site) sqs() *sqs.Client { return sqs.NewFromConfig(s.aws.Config(s.t)) }

func (s *site) queue(name string) *string {
	s.t.Helper()
	full := s.prefix + "-" + name
	out, err := s.sqs().GetQueueUrl(s.t.Context(), &sqs.GetQueueUrlInput{QueueName: &full})
	if err != nil {
		s.t.Fatal(err)
	}
	return out.QueueUrl
}

func (s *site) deleteQueue(name string) {
	s.t.Helper()
	if _, err := s.sqs().DeleteQueue(s.t.Context(), &sqs.DeleteQueueInput{QueueUrl: s.queue(name)}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *site) metrics(server *harness.Server) string {
	s.t.Helper()
	response, err := http.Get(server.URL + "/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

// view is a task as `get -o json` shows it.
type view struct {
	State      string  `json:"state"`
	Attempt    int     `json:"attempt"`
	LatenessMS float64 `json:"lateness_ms"`
}

func (s *site) get(server int, id string) (v view) {
	s.t.Helper()
	s.run(server, "get", id, "-o", "json").JSON(s.t, &v)
	return v
}

func TestTwoServersAndAWorker(t *testing.T) {
	s := newSite(t)
	s.setup().Must(t)
	first, second := s.serve(), s.serve()
	s.run(0, "lambda", "create", "greet", "--shards", "2").Must(t)
	if out := s.run(1, "lambda", "list").Must(t); !strings.Contains(out, "greet") {
		t.Errorf("the other server does not list it: %s", out)
	}
	w := s.worker(1, "--lambda", "greet", "--concurrency", "4", "--", "sh", "-c", `test "$(cat)" != fail || exit 65`)
	var ids []string
	for n := range 8 {
		ids = append(ids, s.run(n%2, "schedule", "greet", "--in", fmt.Sprint(n, "s"), "--payload", fmt.Sprint("hello ", n)).Must(t))
	}
	s.run(0, append([]string{"wait", "--timeout", "60s"}, ids...)...).Must(t)
	for _, id := range ids {
		if v := s.get(1, id); v.State != "success" || v.Attempt != 1 || v.LatenessMS > latenessMaxMS {
			t.Errorf("%+v", v)
		}
	}
	key := []string{"schedule", "greet", "--in", "1h", "--key", "k", "--payload", "x"}
	keyed := s.run(0, key...).Must(t)
	if again := s.run(1, key...).Must(t); again != keyed {
		t.Errorf("the same key at the other server is %s, want %s", again, keyed)
	}
	if out := s.run(1, "cancel", keyed).Must(t); out != "cancelled" {
		t.Errorf("cancel says %q", out)
	}
	if v := s.get(0, keyed); v.State != "cancelled" {
		t.Errorf("%+v", v)
	}
	failed := s.run(0, "schedule", "greet", "--payload", "fail").Must(t)
	if r := s.run(1, "wait", failed, "--timeout", "60s"); r.Code != 1 || !strings.Contains(r.Stdout, "fatal_failure") {
		t.Errorf("%+v", r)
	}

	metrics := s.metrics(second)
	for _, text := range []string{
		"kinesin_fleet_members 2", `kinesin_aws_request_seconds_count{outcome="ok",request="Query",service="dynamodb"}`,
		`kinesin_sqs_billed_requests_total{request="ReceiveMessage"}`,
	} {
		if !strings.Contains(metrics, text) {
			t.Errorf("the metrics do not say %s", text)
		}
	}
	// Of a queue only the process tells that fires its first partition.
	if !strings.Contains(metrics+s.metrics(first), `kinesin_queue_messages{lambda="greet"`) {
		t.Error("no server tells what lies in the queues")
	}
	if strings.Contains(metrics, "kinesin_tasks{") {
		t.Error("the metrics count tasks, which this store does not")
	}

	// One is killed, the other goes on with everything.
	id := s.run(0, "schedule", "greet", "--in", "14s").Must(t)
	other := s.run(0, "schedule", "greet", "--in", "15s").Must(t)
	first.Crash()
	s.run(1, "wait", id, other, "--timeout", "60s").Must(t)
	for _, one := range []string{id, other} {
		if v := s.get(1, one); v.Attempt != 1 || v.LatenessMS > latenessMaxMS {
			t.Errorf("after a kill: %+v", v)
		}
	}
	if out := s.run(1, "lambda", "delete", "greet", "-o", "json").Must(t); !strings.Contains(out, `"dropped":0`) {
		t.Errorf("deleted: %s", out)
	}
	w.Signal(syscall.SIGTERM)
	if code := w.Wait(harness.ExitMax); code != 0 {
		t.Errorf("the worker ended with %d", code)
	}
	if code := second.Shutdown(); code != 0 {
		t.Errorf("the server ended with %d", code)
	}
}

// A consumer of a deliver lambda knows nothing of Kinesin.
func TestADeliverLambda(t *testing.T) {
	s := newSite(t)
	s.setup().Must(t)
	s.serve("--deliver-direct", "0s")
	s.run(0, "lambda", "create", "out", "--mode", "deliver", "--priorities", "one").Must(t)
	payload := `{"to": "someone", "text": "grüß Gott"}`
	id := s.run(0, "schedule", "out", "--in", "4s", "--payload", payload).Must(t)
	if v := s.get(0, id); v.State != "scheduled" {
		t.Errorf("%+v", v)
	}
	late := s.run(0, "schedule", "out", "--in", "1h").Must(t)
	if out := s.run(0, "cancel", late).Must(t); out != "cancelled" {
		t.Errorf("cancel says %q", out)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	in := &sqs.ReceiveMessageInput{QueueUrl: s.queue("out-one"), WaitTimeSeconds: 20, MessageAttributeNames: []string{"All"}}
	out, err := s.sqs().ReceiveMessage(ctx, in)
	if err != nil || len(out.Messages) != 1 {
		t.Fatalf("%+v, %v", out, err)
	}
	m := out.Messages[0]
	text := func(a types.MessageAttributeValue) string {
		if a.StringValue == nil {
			return ""
		}
		return *a.StringValue
	}
	if *m.Body != payload || text(m.MessageAttributes["kinesin-task-id"]) != id {
		t.Errorf("%s with %v", *m.Body, m.MessageAttributes)
	}
	if due, err := time.Parse(time.RFC3339Nano, text(m.MessageAttributes["kinesin-due"])); err != nil || time.Now().Before(due) || time.Since(due) > latenessMaxMS*time.Millisecond {
		t.Errorf("due %v, received %v: %v", due, time.Now(), err)
	}
	s.until("the server knows that it is out of the inbound queue", func() bool { return s.get(0, id).State == "delivered" })
}

func TestTheInboundQueue(t *testing.T) {
	s := newSite(t)
	s.setup().Must(t)
	server := s.serve("--inbound-queue", "--inbound-rate", "50")
	s.run(0, "lambda", "create", "greet").Must(t)
	s.worker(0, "--lambda", "greet", "--", "true")
	id := s.run(0, "schedule", "greet", "--in", "12s").Must(t)
	if metrics := s.metrics(server); !strings.Contains(metrics, `kinesin_sqs_billed_requests_total{request="SendMessageBatch"} 1`) {
		t.Errorf("the metrics do not count the send to the inbound queue:\n%s", metrics)
	}
	if v := s.get(0, id); v.State != "accepted" && v.State != "scheduled" {
		t.Errorf("%+v", v)
	}
	s.run(0, "wait", id, "--timeout", "60s").Must(t)
	cancelled := s.run(0, "schedule", "greet", "--in", "1h").Must(t)
	if out := s.run(0, "cancel", cancelled).Must(t); out != "cancelled" {
		t.Errorf("cancel says %q", out)
	}
}
