package envelope_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/kinesin-io/kinesin/api/envelope"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/alloctest"
	"github.com/kinesin-io/kinesin/task"
)

func sealer(b byte) *task.InboundSealer {
	return task.NewInboundSealer(bytes.Repeat([]byte{b}, task.TokenKeyBytes))
}

func buffered(payload int) *kinesinv1.BufferedTask {
	return &kinesinv1.BufferedTask{Id: "q1id", Item: &kinesinv1.ScheduleItem{Lambda: "mail", Payload: bytes.Repeat([]byte{0xff}, payload)}, Accepted: 1 << 50}
}

func seal(tb testing.TB, e *kinesinv1.Envelope, s *task.InboundSealer) string {
	tb.Helper()
	raw, err := e.MarshalVT()
	if err != nil {
		tb.Fatal(err)
	}
	return s.SealMessage(raw)
}

func TestPackedTasksAreOpened(t *testing.T) {
	s := sealer(1)
	rapid.Check(t, func(t *rapid.T) {
		bytesMax := rapid.IntRange(2000, 300_000).Draw(t, "max")
		var tasks []*kinesinv1.BufferedTask
		for range rapid.IntRange(0, 80).Draw(t, "tasks") {
			one := buffered(rapid.OneOf(rapid.IntRange(0, 300), rapid.IntRange(0, 100_000)).Draw(t, "payload"))
			if envelope.Fits(s, one, bytesMax) {
				tasks = append(tasks, one)
			}
		}
		messages, err := envelope.Pack(s, tasks, bytesMax)
		if err != nil {
			t.Fatal(err)
		}
		rest := tasks
		for _, m := range messages {
			e, err := envelope.Open(t.Context(), s, m.Body)
			if err != nil || len(e.Tasks) != m.Tasks || len(m.Body) > bytesMax || m.Tasks > envelope.TasksMax || m.Tasks > 1 && len(m.Body) > envelope.PackBytesMax {
				t.Fatalf("a message of %d tasks and %d bytes: %v", m.Tasks, len(m.Body), err)
			}
			for _, got := range e.Tasks {
				if !proto.Equal(got, rest[0]) {
					t.Fatalf("%v, want %v", got, rest[0])
				}
				rest = rest[1:]
			}
		}
		if len(rest) != 0 {
			t.Fatalf("%d tasks were left out", len(rest))
		}
	})
}

func TestFewMessages(t *testing.T) {
	for _, c := range []struct{ tasks, payload, messages int }{{1, 0, 1}, {25, 100, 1}, {26, 100, 2}, {250, 100, 10}, {10, 20_000, 5}, {3, 100_000, 3}} {
		tasks := make([]*kinesinv1.BufferedTask, c.tasks)
		for i := range tasks {
			tasks[i] = buffered(c.payload)
		}
		messages, err := envelope.Pack(sealer(1), tasks, 1<<20)
		if err != nil || len(messages) != c.messages {
			t.Errorf("%d tasks of %d bytes: %d messages, want %d; %v", c.tasks, c.payload, len(messages), c.messages, err)
		}
	}
	if _, err := envelope.Pack(sealer(1), []*kinesinv1.BufferedTask{buffered(1000)}, 1000); !errors.Is(err, envelope.ErrTooLarge) {
		t.Error(err)
	}
}

func TestWhatIsNoEnvelopeOfOurs(t *testing.T) {
	s := sealer(1)
	good, err := envelope.Seal(s, []*kinesinv1.BufferedTask{buffered(10)}, 3)
	if err != nil {
		t.Fatal(err)
	}
	if e, err := envelope.Open(t.Context(), s, good); err != nil || e.Tries != 3 {
		t.Fatalf("%v, %v", e, err)
	}
	some := []*kinesinv1.BufferedTask{buffered(1)}
	for name, c := range map[string]struct {
		body string
		want error
		say  string
	}{
		"empty":                 {"", envelope.ErrSeal, "want a seal"},
		"text":                  {"hello, world", envelope.ErrSeal, "base64"},
		"json":                  {`{"eventType":"schedule"}`, envelope.ErrSeal, "base64"},
		"short":                 {"AAAA", envelope.ErrSeal, "3 bytes"},
		"noise":                 {base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{0xfe}, 100)), envelope.ErrSeal, ""},
		"cut":                   {good[:len(good)-8], envelope.ErrSeal, ""},
		"other key":             {seal(t, &kinesinv1.Envelope{Version: 1, Tasks: some}, sealer(2)), envelope.ErrSeal, "kinesin inbound key"},
		"no version":            {seal(t, &kinesinv1.Envelope{Tasks: some}, s), envelope.ErrUndecodable, "no version"},
		"newer":                 {seal(t, &kinesinv1.Envelope{Version: 2, Tasks: some}, s), envelope.ErrVersion, "version 2"},
		"newer, by another key": {seal(t, &kinesinv1.Envelope{Version: 2, Tasks: some}, sealer(2)), envelope.ErrSeal, "kinesin inbound key"},
		"no tasks":              {seal(t, &kinesinv1.Envelope{Version: 1}, s), envelope.ErrUndecodable, "0 tasks"},
		"no item":               {seal(t, &kinesinv1.Envelope{Version: 1, Tasks: []*kinesinv1.BufferedTask{{Id: "x"}}}, s), envelope.ErrUndecodable, "task 0"},
		"many":                  {seal(t, &kinesinv1.Envelope{Version: 1, Tasks: manyTasks(1001)}, s), envelope.ErrUndecodable, "1001 tasks"},
		"other bytes":           {good[:30] + strings.ToUpper(good[30:40]) + good[40:], envelope.ErrSeal, ""},
	} {
		e, err := envelope.Open(t.Context(), s, c.body)
		if err == nil || e != nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.say) {
			t.Errorf("%s: %v, %v; want %v", name, e, err, c.want)
		}
	}
}

func manyTasks(n int) []*kinesinv1.BufferedTask {
	all := make([]*kinesinv1.BufferedTask, n)
	for i := range all {
		all[i] = buffered(0)
	}
	return all
}

// No change of a body opens, whatever is changed.
func TestChangedBodiesAreRefused(t *testing.T) {
	s := sealer(1)
	good, err := envelope.Seal(s, []*kinesinv1.BufferedTask{buffered(10)}, 0)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(good)
	if err != nil {
		t.Fatal(err)
	}
	for at := range raw {
		for bit := range 8 {
			changed := bytes.Clone(raw)
			changed[at] ^= 1 << bit
			if _, err := envelope.Open(t.Context(), s, base64.StdEncoding.EncodeToString(changed)); err == nil {
				t.Errorf("bit %d of byte %d: opened", bit, at)
			}
		}
	}
}

func FuzzOpen(f *testing.F) {
	s := sealer(1)
	good, err := envelope.Seal(s, []*kinesinv1.BufferedTask{buffered(10)}, 0)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add("")
	f.Add("AAAAAAAAAAAAAAAAAAAAAAAA")
	f.Fuzz(func(t *testing.T, body string) {
		var e *kinesinv1.Envelope
		var err error
		alloctest.AtMost(t, uint64(256<<10+64*len(body)), func() { e, err = envelope.Open(t.Context(), s, body) })
		if err == nil {
			again, err := envelope.Seal(s, e.Tasks, e.Tries)
			if err != nil || len(again) == 0 {
				t.Error(err)
			}
			return
		}
		if e != nil || !errors.Is(err, envelope.ErrUndecodable) && !errors.Is(err, envelope.ErrVersion) && !errors.Is(err, envelope.ErrSeal) {
			t.Errorf("%v, %v", e, err)
		}
	})
}
