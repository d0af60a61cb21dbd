package aws_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/loopback"
	"github.com/kinesin-io/kinesin/test/harness"
)

// consumer is the program to which docs/how-to/aws.md links.
const consumer = "../../examples/consumer/consume.py"

// deliveredMax is from a task's due time to the consumer's line, on a busy machine.
const deliveredMax = 30 * time.Second

// consume runs the consumer of the page on a queue.
func (s site) consume(queue string) *harness.Process {
	s.T.Helper()
	script, err := filepath.Abs(consumer)
	if err != nil {
		s.T.Fatal(err)
	}
	python, err := loopback.Installed("python")
	if err != nil {
		s.T.Fatal(err)
	}
	return harness.Start(s.T, harness.Command{Path: python, Args: []string{script, s.AWS.Prefix + "-" + queue}, Env: s.AWS.Env()})
}

// consumed waits for the consumer's line about a task, and returns the body.
func consumed(t *testing.T, c *harness.Process, id string) (body string) {
	t.Helper()
	for deadline := time.Now().Add(deliveredMax); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		for text := range strings.Lines(c.Stdout()) {
			fields := strings.SplitN(strings.TrimSuffix(text, "\n"), " ", 3)
			if len(fields) < 3 || fields[1] != id {
				continue
			}
			due, err := time.Parse(time.RFC3339Nano, fields[0])
			if err != nil {
				t.Fatal(err)
			}
			if time.Now().Before(due) {
				t.Errorf("%s was consumed before it was due at %v", id, due)
			}
			return fields[2]
		}
		if !c.Alive() {
			t.Fatalf("the consumer ended:\n%s", c.Stderr())
		}
	}
	t.Fatalf("the consumer did not get %s within %v:\n%s%s", id, deliveredMax, c.Stdout(), c.Stderr())
	return ""
}

// The way of docs/how-to/aws.md: setting up, a server with its defaults, a managed lambda with a worker, and a
// deliver lambda read by the page's consumer, from its row in the store and straight from the queue.
func TestTheWayOfThePage(t *testing.T) {
	s := newSite(t)
	s.AWS.Setup(t, "--dry-run").Must(t)
	s.AWS.Setup(t).Must(t)
	server := s.Serve()
	server.Run("lambda", "create", "greet").Must(t)
	server.Run("lambda", "create", "invoices", "--mode", "deliver").Must(t)

	w := server.CommandWorker("--lambda", "greet", "--", "sh", "-c", `echo "hello $(cat), attempt $KINESIN_ATTEMPT"`)
	id := server.Run("schedule", "greet", "--in", "3s", "--payload", "Ada").Must(t)
	server.Run("wait", id, "--timeout", "60s").Must(t)
	if out := w.Stdout(); out != "hello Ada, attempt 1\n" {
		t.Errorf("the worker printed %q", out)
	}

	c := s.consume("invoices-normal")
	payload := `{"customer": 7, "total": "12.50"}`
	text := server.Run("schedule", "invoices", "--in", "2s", "--payload", payload).Must(t)
	if body := consumed(t, c, text); body != payload {
		t.Errorf("consumed %q, want %q", body, payload)
	}
	if v := server.Get(text); v.State != "delivered" {
		t.Errorf("%+v", v)
	}
	file := filepath.Join(t.TempDir(), "payload")
	if err := os.WriteFile(file, []byte{0, 0xff}, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := server.Run("schedule", "invoices", "--payload-file", file).Must(t)
	if body := consumed(t, c, binary); body != `b'\x00\xff'` {
		t.Errorf("consumed %q of a payload that is no text", body)
	}
	if body := consumed(t, c, server.Run("schedule", "invoices").Must(t)); body != "" {
		t.Errorf("consumed %q of no payload", body)
	}

	// A task that was scheduled while no server was told to deliver directly waits as a row of the store.
	direct := s.Serve("--deliver-direct", "0s")
	ahead := []string{"2s", "13s"} // near, and beyond what goes around the inbound queue
	rows := make([]string, 0, len(ahead))
	for _, at := range ahead {
		rows = append(rows, direct.Run("schedule", "invoices", "--in", at, "--payload", "row, due in "+at).Must(t))
	}
	for i, at := range ahead {
		if body := consumed(t, c, rows[i]); body != "row, due in "+at {
			t.Errorf("consumed %q", body)
		}
	}
}
