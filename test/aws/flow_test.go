package aws_test

import (
	"context"
	"encoding/json"
	"fmt"
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

// latenessMax is what a machine that is busy with other tests still does: these here are about what
// happens, not how fast.
const latenessMax = 10 * time.Second

// site is an installation on the emulators that nothing is set up for yet.
type site struct{ *harness.Site }

func newSite(t *testing.T) site {
	t.Helper()
	t.Parallel()
	return site{harness.New(t, harness.Options{AWS: &awslocal.Endpoints{}})}
}

// items are the lines of a setup: what it says of each table and queue.
func (s site) items(r harness.Result) map[string]string {
	s.T.Helper()
	var report struct {
		Items []struct {
			Name    string          `json:"name"`
			Outcome string          `json:"outcome"`
			Spec    json.RawMessage `json:"spec"`
		} `json:"items"`
	}
	r.JSON(s.T, &report)
	outcomes := map[string]string{}
	for _, i := range report.Items {
		outcomes[strings.TrimPrefix(i.Name, s.AWS.Prefix+"-")] = i.Outcome
		if len(i.Spec) < 10 {
			s.T.Errorf("%s without a specification: %s", i.Name, i.Spec)
		}
	}
	return outcomes
}

func (s site) wantAll(r harness.Result, outcome string, names ...string) {
	s.T.Helper()
	got := s.items(r)
	for _, name := range names {
		if got[name] != outcome {
			s.T.Errorf("%s is %q, want %q, of %v", name, got[name], outcome, got)
		}
	}
	if len(got) != len(names) {
		s.T.Errorf("%d tables and queues, want %d: %v", len(got), len(names), got)
	}
}

var fixed = []string{"schedule", "tasks", "payloads", "control", "inbound", "inbound-dlq"}

func TestSetup(t *testing.T) {
	s := newSite(t)
	s.wantAll(s.AWS.Setup(t, "--dry-run", "-o", "json"), "missing", fixed...)
	dry := s.AWS.Setup(t, "--dry-run").Must(t)
	for _, text := range []string{s.AWS.Prefix + "-tasks", "would be created", `"dead"`, "KEYS_ONLY", `"ttl":"x"`, "message_retention_seconds", s.AWS.Prefix + "-inbound"} {
		if !strings.Contains(dry, text) {
			t.Errorf("a dry run does not say %q:\n%s", text, dry)
		}
	}
	s.wantAll(s.AWS.Setup(t, "-o", "json"), "created", fixed...)
	s.wantAll(s.AWS.Setup(t, "-o", "json"), "unchanged", fixed...)

	server := s.Serve()
	server.Run("lambda", "create", "mail", "--priorities", "one").Must(t)
	server.Run("lambda", "create", "out", "--mode", "deliver", "--priorities", "one").Must(t)
	all := append([]string{"mail-one", "out-one", "out-one-dlq"}, fixed...)
	s.wantAll(s.AWS.Setup(t, "-o", "json"), "unchanged", all...)
	s.deleteQueue("mail-one")
	if got := s.items(s.AWS.Setup(t, "--dry-run", "-o", "json")); got["mail-one"] != "missing" {
		t.Errorf("a queue that was deleted is %q", got["mail-one"])
	}
	if got := s.items(s.AWS.Setup(t, "-o", "json")); got["mail-one"] != "created" {
		t.Errorf("a queue that was deleted is %q after setup", got["mail-one"])
	}
}

func (s site) sqs() *sqs.Client { return sqs.NewFromConfig(s.AWS.Config(s.T)) }

func (s site) queue(name string) *string {
	s.T.Helper()
	full := s.AWS.Prefix + "-" + name
	out, err := s.sqs().GetQueueUrl(s.T.Context(), &sqs.GetQueueUrlInput{QueueName: &full})
	if err != nil {
		s.T.Fatal(err)
	}
	return out.QueueUrl
}

func (s site) deleteQueue(name string) {
	s.T.Helper()
	if _, err := s.sqs().DeleteQueue(s.T.Context(), &sqs.DeleteQueueInput{QueueUrl: s.queue(name)}); err != nil {
		s.T.Fatal(err)
	}
}

// tooLate reports whether a task started later than a busy machine explains.
func tooLate(v harness.Shown) bool { return !v.StartedWithin(latenessMax) }

func TestTwoServersAndAWorker(t *testing.T) {
	s := newSite(t)
	s.AWS.Setup(t).Must(t)
	first, second := s.Serve(), s.Serve()
	first.Run("lambda", "create", "greet", "--shards", "2").Must(t)
	if out := second.Run("lambda", "list").Must(t); !strings.Contains(out, "greet") {
		t.Errorf("the other server does not list it: %s", out)
	}
	w := second.CommandWorker("--lambda", "greet", "--concurrency", "4", "--", "sh", "-c", `test "$(cat)" != fail || exit 65`)
	var ids []string
	for n := range 8 {
		ids = append(ids, s.Servers[n%2].Run("schedule", "greet", "--in", fmt.Sprint(n, "s"), "--payload", fmt.Sprint("hello ", n)).Must(t))
	}
	first.Run(append([]string{"wait", "--timeout", "60s"}, ids...)...).Must(t)
	for _, id := range ids {
		if v := second.Get(id); v.State != "success" || v.Attempt != 1 || tooLate(v) {
			t.Errorf("%+v", v)
		}
	}
	key := []string{"schedule", "greet", "--in", "1h", "--key", "k", "--payload", "x"}
	keyed := first.Run(key...).Must(t)
	if again := second.Run(key...).Must(t); again != keyed {
		t.Errorf("the same key at the other server is %s, want %s", again, keyed)
	}
	if out := second.Run("cancel", keyed).Must(t); out != "cancelled" {
		t.Errorf("cancel says %q", out)
	}
	if v := first.Get(keyed); v.State != "cancelled" {
		t.Errorf("%+v", v)
	}
	failed := first.Run("schedule", "greet", "--payload", "fail").Must(t)
	if r := second.Run("wait", failed, "--timeout", "60s"); r.Code != 1 || !strings.Contains(r.Stdout, "fatal_failure") {
		t.Errorf("%+v", r)
	}

	_, metrics := second.Fetch("/metrics")
	_, others := first.Fetch("/metrics")
	for _, text := range []string{
		"kinesin_fleet_members 2", `kinesin_aws_request_seconds_count{outcome="ok",request="Query",service="dynamodb"}`,
		`kinesin_sqs_billed_requests_total{request="ReceiveMessage"}`,
	} {
		if !strings.Contains(metrics, text) {
			t.Errorf("the metrics do not say %s", text)
		}
	}
	// Of a queue only the process tells that fires its first partition.
	if !strings.Contains(metrics+others, `kinesin_queue_messages{lambda="greet"`) {
		t.Error("no server tells what lies in the queues")
	}
	if strings.Contains(metrics, "kinesin_tasks{") {
		t.Error("the metrics count tasks, which this store does not")
	}

	// One is killed, the other goes on with everything.
	id := first.Run("schedule", "greet", "--in", "14s").Must(t)
	other := first.Run("schedule", "greet", "--in", "15s").Must(t)
	first.Crash()
	second.Run("wait", id, other, "--timeout", "60s").Must(t)
	for _, one := range []string{id, other} {
		if v := second.Get(one); v.Attempt != 1 || tooLate(v) {
			t.Errorf("after a kill: %+v", v)
		}
	}
	if out := second.Run("lambda", "delete", "greet", "-o", "json").Must(t); !strings.Contains(out, `"dropped":0`) {
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
	s.AWS.Setup(t).Must(t)
	server := s.Serve("--deliver-direct", "0s")
	server.Run("lambda", "create", "out", "--mode", "deliver", "--priorities", "one").Must(t)
	payload := `{"to": "someone", "text": "grüß Gott"}`
	id := server.Run("schedule", "out", "--in", "4s", "--payload", payload).Must(t)
	if v := server.Get(id); v.State != "scheduled" {
		t.Errorf("%+v", v)
	}
	late := server.Run("schedule", "out", "--in", "1h").Must(t)
	if out := server.Run("cancel", late).Must(t); out != "cancelled" {
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
	if due, err := time.Parse(time.RFC3339Nano, text(m.MessageAttributes["kinesin-due"])); err != nil || time.Now().Before(due) || time.Since(due) > latenessMax {
		t.Errorf("due %v, received %v: %v", due, time.Now(), err)
	}
	s.until("the server knows that it is out of the inbound queue", func() bool { return server.Get(id).State == "delivered" })
}

func TestTheInboundQueue(t *testing.T) {
	s := newSite(t)
	s.AWS.Setup(t).Must(t)
	server := s.Serve("--inbound-queue", "--inbound-rate", "50")
	server.Run("lambda", "create", "greet").Must(t)
	server.CommandWorker("--lambda", "greet", "--", "true")
	id := server.Run("schedule", "greet", "--in", "12s").Must(t)
	if _, metrics := server.Fetch("/metrics"); !strings.Contains(metrics, `kinesin_sqs_billed_requests_total{request="SendMessageBatch"} 1`) {
		t.Errorf("the metrics do not count the send to the inbound queue:\n%s", metrics)
	}
	if v := server.Get(id); v.State != "accepted" && v.State != "scheduled" {
		t.Errorf("%+v", v)
	}
	server.Run("wait", id, "--timeout", "60s").Must(t)
	cancelled := server.Run("schedule", "greet", "--in", "1h").Must(t)
	if out := server.Run("cancel", cancelled).Must(t); out != "cancelled" {
		t.Errorf("cancel says %q", out)
	}
}
