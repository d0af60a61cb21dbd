//go:build !windows

package cli_test

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api/envelope"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/inbound/buffer"
	"github.com/kinesin-io/kinesin/inbound/buffer/buffertest"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/internal/runtest"
	queuemem "github.com/kinesin-io/kinesin/queue/mem"
	storemem "github.com/kinesin-io/kinesin/store/mem"
	"github.com/kinesin-io/kinesin/task"
	"github.com/kinesin-io/kinesin/test/harness"
)

// newBufferedSite is a server in this process with an inbound buffer.
func newBufferedSite(t *testing.T) (*site, *buffertest.Memory) {
	t.Helper()
	b := buffertest.NewMemory(clock.Real())
	n := harness.RunNode(t, node.Config{
		Store: storemem.New(), Queue: queuemem.New(clock.Real(), queuemem.Config{DepthMax: 1000}), Log: slog.New(slog.DiscardHandler), Buffer: b,
	})
	return &site{t, n.URL}, b
}

// await runs list until so many are set aside.
func (s *site) await(n int) []map[string]any {
	s.t.Helper()
	var all []map[string]any
	runtest.Eventually(s.t, 10*time.Second, fmt.Sprint(n, " are set aside"), func() bool {
		all = s.objects("inbound", "rejected", "list")
		return len(all) == n
	})
	return all
}

func TestInbound(t *testing.T) {
	t.Parallel()
	s, b := newBufferedSite(t)
	send := func(bodies ...string) {
		for _, body := range bodies {
			if r := b.Send(t.Context(), []buffer.Outgoing{{Body: body}}); r[0] != nil {
				t.Fatal(r[0])
			}
		}
	}
	key := s.must("inbound", "key")
	raw, err := base64.RawURLEncoding.DecodeString(key)
	if err != nil || len(raw) != task.TokenKeyBytes || s.object("inbound", "key")["key"] != key {
		t.Fatalf("%q: %v", key, err)
	}
	seal := task.NewInboundSealer(raw)
	message := func(payload string) (body, id string) {
		now := clock.Real().Now()
		id, err := seal.Seal(task.InboundToken{ID: task.NewID(now, 1, clock.Real().Uint64()), Due: now.Add(time.Hour).CeilMillis(), Lambda: "news", Priority: "high"})
		if err != nil {
			t.Fatal(err)
		}
		// It came so often before that nobody waits for its lambda any more.
		body, err = envelope.Seal(seal, []*kinesinv1.BufferedTask{{Id: id, Accepted: int64(now), Item: &kinesinv1.ScheduleItem{
			Lambda: "news", Priority: "high", Collection: "c", Payload: []byte(payload),
		}}}, 10)
		if err != nil {
			t.Fatal(err)
		}
		return body, id
	}

	s.do("inbound", "rejected", "list").check(t, "nothing", 0, "nothing is set aside")
	if got := s.must("inbound", "rejected", "list", "-o", "json"); got != `{"rejected":[],"more":false}` {
		t.Errorf("%q", got)
	}
	text, id := message("hello")
	binary, _ := message("\xff\x00")
	broken := func(text string) string { // sealed, and no envelope
		return seal.SealMessage([]byte(text))
	}
	send(broken("no envelope"), text, binary)
	all := s.await(3)
	names := map[string]string{}
	for _, o := range all {
		what := fmt.Sprint(o["reason"])
		if o["id"] == id {
			what = "text"
		}
		names[what] = fmt.Sprint(o["name"])
	}

	table := s.must("inbound", "rejected", "list")
	if lines := strings.Split(table, "\n"); len(lines) != 4 || !strings.HasPrefix(lines[0], "NAME ") || !strings.Contains(table, "unknown_lambda") || strings.Contains(table, "\x1b") {
		t.Errorf("%s", table)
	}
	o := s.do("inbound", "rejected", "list", "--limit", "2")
	if o.check(t, "limit", 0, "--limit 0 lists all"); strings.Count(o.stdout, "\n") != 3 {
		t.Errorf("%s", o.stdout)
	}

	show := s.object("inbound", "rejected", "get", names["text"])
	item, _ := show["item"].(map[string]any)
	if show["reason"] != "unknown_lambda" || show["lambda"] != "news" || show["id"] != id || item["priority"] != "high" || item["collection"] != "c" || item["payload_text"] != nil {
		t.Errorf("%v", show)
	}
	if text := s.must("inbound", "rejected", "get", names["text"]); !strings.Contains(text, "payload bytes  5") {
		t.Error(text)
	}
	if show = s.object("inbound", "rejected", "get", names["text"], "--payload"); fmt.Sprint(show["item"]) != "map[collection:c lambda:news payload_text:hello priority:high]" {
		t.Errorf("%v", show)
	}
	if show = s.object("inbound", "rejected", "get", names["unknown_lambda"], "--payload"); !strings.Contains(fmt.Sprint(show["item"]), "payload_base64:/wA=") {
		t.Errorf("%v", show)
	}
	if got := s.must("inbound", "rejected", "get", names["undecodable"], "--payload"); !strings.Contains(got, broken("no envelope")) || !strings.Contains(got, "undecodable") {
		t.Errorf("%q", got)
	}

	o = s.do("inbound", "rejected", "retry", names["text"])
	if o.check(t, "retry in vain", 1, "unknown_lambda", "then retry"); o.stdout != "" {
		t.Errorf("%q", o.stdout)
	}
	s.must("lambda", "create", "news")
	if got := s.must("inbound", "rejected", "retry", names["text"]); got != id || s.object("get", id)["state"] != "scheduled" {
		t.Errorf("%q, want %q", got, id)
	}
	o = s.do("inbound", "rejected", "retry", "--all", "-o", "json")
	if o.check(t, "retry all", 1, names["undecodable"]); !strings.Contains(o.stdout, `"id":"q1`) || !strings.Contains(o.stdout, `"reason":"invalid"`) {
		t.Errorf("%s", o.stdout)
	}
	if got := s.object("inbound", "rejected", "delete", names["undecodable"]); got["name"] != names["undecodable"] || got["error"] != nil {
		t.Errorf("%v", got)
	}
	s.do("inbound", "rejected", "delete", names["undecodable"]).check(t, "delete again", 1, "rejected list")
	s.do("inbound", "rejected", "get", "nonsense").check(t, "show", 1, "nothing rejected has that name")
	for n := range 120 { // more than one call deletes
		send(broken(fmt.Sprint("bad ", n)))
	}
	s.await(100) // as many as are listed
	if got := s.must("inbound", "rejected", "delete", "--all"); strings.Count(got, "\n") < 99 {
		t.Errorf("%d lines", strings.Count(got, "\n"))
	}
	s.must("inbound", "rejected", "delete", "--all")
}

func TestInboundWithoutABuffer(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.do("inbound", "key").check(t, "key", 1, "no inbound buffer", "--inbound-queue")
	s.do("inbound", "rejected", "list").check(t, "list", 0, "nothing is set aside")
}

func TestInboundBadUsage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		say  string
	}{
		{nil, "a command is missing"},
		{[]string{"rejectd"}, "did you mean rejected?"},
		{[]string{"key", "x"}, "x"},
		{[]string{"key", "--lambda", "*"}, "name it with --sender"},
		{[]string{"rejected"}, "a command is missing"},
		{[]string{"rejected", "list", "--limit", "-1"}, "want 0 or more"},
		{[]string{"rejected", "list", "x"}, "x"},
		{[]string{"rejected", "get"}, "NAME is missing"},
		{[]string{"rejected", "get", "a", "b"}, "one argument too many"},
		{[]string{"rejected", "retry"}, "or --all"},
		{[]string{"rejected", "retry", "a", "--all"}, "one or the other"},
		{[]string{"rejected", "delete"}, "or --all"},
		{[]string{"rejected", "delete", ""}, "NAME is empty"},
		{[]string{"rejected", "delete", "a", "-o", "xml"}, "wide, name or json"},
	} {
		run(t.Context(), nil, "", append([]string{"inbound"}, c.args...)...).check(t, c.args, 2, c.say)
	}
}
