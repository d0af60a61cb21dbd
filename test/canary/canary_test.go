package canary

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/kinesin-io/kinesin/inbound/buffer/sqsbuffer"
	"github.com/kinesin-io/kinesin/internal/awsfake/fakesqs"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/node"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/internal/sqsclient"
	queuesqs "github.com/kinesin-io/kinesin/queue/sqs"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/sdk/sqsinbound"
	"github.com/kinesin-io/kinesin/store"
	"github.com/kinesin-io/kinesin/store/pebble"
	"github.com/kinesin-io/kinesin/task"
	"github.com/kinesin-io/kinesin/test/harness"
)

// mark is in the payload of every task. It does not compress, so that it is found in compressed blocks too.
const mark = "Zq7vXw93KfLr0TbYpNc6MhJd"

// forms are what the mark looks like in bytes, in hex, and in base64 wherever it begins.
func forms() [][]byte {
	all := [][]byte{[]byte(mark), []byte(hex.EncodeToString([]byte(mark))), []byte(strings.ToUpper(hex.EncodeToString([]byte(mark))))}
	for skip := range 3 {
		inner := mark[skip : skip+(len(mark)-skip)/3*3]
		all = append(all, []byte(base64.StdEncoding.EncodeToString([]byte(inner))), []byte(base64.URLEncoding.EncodeToString([]byte(inner))))
	}
	return all
}

func holdsMark(text []byte) bool {
	for _, form := range forms() {
		if bytes.Contains(text, form) {
			return true
		}
	}
	return false
}

func TestTheMarkIsFoundInEveryForm(t *testing.T) {
	for skip := range 7 {
		text := []byte(strings.Repeat("x", skip) + mark + "y")
		for _, as := range []string{string(text), hex.EncodeToString(text), base64.StdEncoding.EncodeToString(text), base64.RawURLEncoding.EncodeToString(text)} {
			if !holdsMark([]byte(as)) {
				t.Errorf("not found in %s", as)
			}
		}
	}
	if holdsMark([]byte(base64.StdEncoding.EncodeToString(make([]byte, 1000)))) {
		t.Error("found in nothing")
	}
}

// page is text that several goroutines write.
type page struct{ runtest.Text }

func (p *page) note(format string, args ...any) { _, _ = fmt.Fprintf(p, format+"\n", args...) }

func (p *page) bytes() []byte { return []byte(p.String()) }

// queues is SQS in memory, which keeps what is sent.
type queues struct {
	*fakesqs.SQS

	tasks, inbound page // of lambdas, and of the inbound buffer
}

// SendMessageBatch notes the messages.
func (q *queues) SendMessageBatch(ctx context.Context, in *sqs.SendMessageBatchInput, options ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error) {
	sent := &q.tasks
	if strings.HasSuffix(aws.ToString(in.QueueUrl), sqsbuffer.QueueName("k")) {
		sent = &q.inbound
	}
	for _, e := range in.Entries {
		sent.note("%s", aws.ToString(e.MessageBody))
		for name, value := range e.MessageAttributes {
			sent.note("%s %s %s", name, aws.ToString(value.StringValue), value.BinaryValue)
		}
	}
	return q.SQS.SendMessageBatch(ctx, in, options...)
}

// site is a server on an embedded store, with SQS for its queues and its inbound buffer.
type site struct {
	*testing.T
	*harness.Node

	dir    string
	queues queues
	logs   page
	errors page // all that calls and attempts say
}

func newSite(t *testing.T, codec sdk.PayloadCodec) *site {
	t.Helper()
	s := &site{T: t, dir: filepath.Join(t.TempDir(), "data")}
	s.queues.SQS = fakesqs.New(fakesqs.Config{Seed: 1, Attempts: 3})
	log := slog.New(slog.NewJSONHandler(&s.logs, &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true}))
	if _, err := sqsclient.Create(t.Context(), &s.queues, sqsbuffer.Queues("k")); err != nil {
		t.Fatal(err)
	}
	rows, err := pebble.Open(s.dir, pebble.Config{Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	lambda := func(ref uint32) (task.Lambda, bool) { return s.Served.Lambda(ref) }
	s.Node = harness.NewNode(t, node.Config{
		Store: rows, Log: log, Near: time.Second, InboundRate: -1,
		Queue: queuesqs.New(&s.queues, queuesqs.Config{
			Codec: queuesqs.Codec{Append: store.AppendTask, Decode: store.DecodeTask, Newer: store.ErrVersion}, Prefix: "k", Clock: clock.Real(), Log: log,
			Lambda: lambda, Lambdas: func() []task.Lambda { return s.Served.Lambdas() },
		}),
		Buffer:  sqsbuffer.New(&s.queues, sqsbuffer.Config{Prefix: "k", Clock: clock.Real(), PollGrace: -1, Visibility: time.Second}),
		NoMatch: true, // all tasks go through their queues
	}, sdk.WithPayloadCodec(codec), sdk.WithLogger(log))
	s.Start()
	return s
}

type secret struct {
	Card string `json:"card"`
	N    int    `json:"n"`
	Rest string `json:"rest"`
}

// flaky is run once with an error and once without, broken fails in every attempt, and the payloads of
// strict do not fit its arguments.
var (
	flaky  = sdk.NewLambda[secret]("flaky")
	broken = sdk.NewLambda[secret]("broken")
	strict = sdk.NewLambda[struct {
		Card time.Time `json:"card"`
	}]("strict")
)

// live has tasks of every kind live their lives, and notes every error.
func (s *site) live(codec sdk.PayloadCodec) {
	s.Helper()
	ctx, cancel := clock.Within(s.Context(), clock.Real(), time.Minute)
	defer cancel()
	var read page
	w := s.worker(ctx, &read)
	working, stop := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { worked <- w.Run(working) }()

	ended, waiting := s.schedule(ctx)
	direct := s.direct(codec)
	id, err := flaky.Schedule(ctx, direct, secret{Card: mark})
	if err != nil {
		s.Fatal(err)
	}
	ended = append(ended, id)
	aside := sdk.Item{Lambda: "nobody", Payload: []byte(mark)} // seconds later: lambdas may be new
	if testing.Short() {
		aside.Lambda, aside.Priority = "flaky", "none"
	}
	if _, err := direct.Schedule(ctx, aside); err != nil { // it is set aside
		s.Fatal(err)
	}
	s.refused(ctx)

	results, err := s.Client.Wait(ctx, ended...)
	if err != nil {
		s.Fatal(err)
	}
	if _, err := s.Client.Cancel(ctx, waiting[0]); err != nil {
		s.Error(err)
	}
	for i := range results {
		s.errors.note("%+v %v", results[i].Task.Attempts, results[i].Err)
	}
	if !bytes.Contains(s.errors.bytes(), []byte("the card service is away")) || !bytes.Contains(s.errors.bytes(), []byte("decode the arguments")) {
		s.Errorf("attempts said %s", s.errors.bytes())
	}
	if n := bytes.Count(read.bytes(), []byte(mark)); n < 9 {
		s.Errorf("handlers got the mark %d times", n)
	}
	stop()
	if err := errors.Join(<-worked, direct.Close(ctx)); err != nil {
		s.Error(err)
	}
	for found := false; !found; {
		if err := clock.Sleep(ctx, clock.Real(), 10*time.Millisecond); err != nil {
			s.Fatal("nothing was set aside")
		}
		for set, err := range admin.New(s.Client).Rejected.List(ctx) {
			s.errors.note("%+v %v", set, err)
			found = true
		}
	}
	for info, err := range s.Client.List(ctx, sdk.ListQuery{Lambda: "broken"}) {
		s.errors.note("%+v %v", info, err)
	}
}

// worker creates the lambdas, and returns a worker of them whose handlers note what they get.
func (s *site) worker(ctx context.Context, read *page) *sdk.Worker {
	s.Helper()
	w := sdk.NewWorker(s.Client, sdk.Slots(10))
	handler := func(_ context.Context, t *sdk.Task[secret]) error {
		read.note("%s", t.Payload)
		if t.Lambda == broken.Name() || t.Failures == 0 {
			return errors.New("the card service is away")
		}
		return nil
	}
	flaky.Handle(w, handler)
	broken.Handle(w, handler)
	strict.Handle(w, func(context.Context, *sdk.Task[struct {
		Card time.Time `json:"card"`
	}],
	) error {
		return nil
	})
	for _, name := range []string{flaky.Name(), broken.Name(), strict.Name()} {
		if _, _, err := admin.New(s.Client).Lambdas.Create(ctx, admin.Lambda{Name: name, MaxAttempts: 2, BackoffMin: time.Millisecond, BackoffMax: 2 * time.Millisecond}); err != nil {
			s.Fatal(err)
		}
	}
	return w
}

// schedule schedules tasks with short and long payloads: some that end at once, and some that wait.
func (s *site) schedule(ctx context.Context) (ended, waiting []sdk.ID) {
	s.Helper()
	long := strings.Repeat("-", 2000) // has a payload row
	for i, item := range []sdk.Item{
		{Lambda: "flaky"},
		{Lambda: "flaky", Key: "k"},
		{Lambda: "broken", In: 50 * time.Millisecond},
		{Lambda: "flaky", In: 1500 * time.Millisecond},
		{Lambda: "strict"},
		{Lambda: "flaky", In: time.Hour},
		{Lambda: "flaky", In: time.Hour, Key: "later"},
	} {
		for _, rest := range []string{"", long} {
			item.Payload = fmt.Appendf(nil, `{"card":%q,"rest":%q}`, mark, rest)
			if item.Key != "" {
				item.Key += rest[:min(len(rest), 1)]
			}
			r, err := s.Client.Schedule(ctx, item)
			if err != nil {
				s.Fatalf("item %d: %v", i, err)
			}
			if item.In == time.Hour {
				waiting = append(waiting, r.ID)
			} else {
				ended = append(ended, r.ID)
			}
		}
	}
	return ended, waiting
}

// direct returns a client that sends to the inbound queue.
func (s *site) direct(codec sdk.PayloadCodec) *sqsinbound.Client {
	s.Helper()
	key, err := admin.New(s.Client).InboundKey(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	direct, err := sqsinbound.New(&s.queues, "k", key, sqsinbound.WithPayloadCodec(codec))
	if err != nil {
		s.Fatal(err)
	}
	return direct
}

// refused makes calls that the server refuses, and notes what it says.
func (s *site) refused(ctx context.Context) {
	s.Helper()
	large := []byte(strings.Repeat(mark, 300<<10/len(mark)))
	for _, item := range []sdk.Item{
		{Lambda: "nobody", Payload: []byte(mark)},
		{Lambda: "flaky", Payload: large},
		{Lambda: "flaky", Payload: []byte(mark), Priority: "none"},
		{Lambda: "flaky", Payload: []byte(mark), Key: "k"},
	} {
		_, err := s.Client.Schedule(ctx, item)
		if err == nil {
			s.Errorf("%s %s was not refused", item.Lambda, item.Key)
		}
		s.errors.note("%v", err)
	}
}

func (s *site) metrics() []byte {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.URL+"/metrics", nil)
	if err != nil {
		s.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		s.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil || !bytes.Contains(text, []byte(`lambda="flaky"`)) {
		s.Errorf("%d bytes of metrics, %v", len(text), err)
	}
	return text
}

// files returns all files of the store.
func (s *site) files() []byte {
	s.Helper()
	var all []byte
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		all = append(append(all, path...), content...)
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
	return all
}

// look checks where the mark is. inStore says whether the store and the queues may, and so do, have it.
func (s *site) look(inStore bool) {
	s.Helper()
	for _, place := range []struct {
		name string
		text []byte
		want bool
	}{
		{"files of the store", s.files(), inStore},
		{"messages of lambdas", s.queues.tasks.bytes(), inStore},
		{"messages of the inbound buffer", s.queues.inbound.bytes(), inStore},
		{"log", s.logs.bytes(), false},
		{"errors", s.errors.bytes(), false},
		{"metrics", s.metrics(), false},
	} {
		switch {
		case len(place.text) == 0:
			s.Errorf("%s: nothing to look at", place.name)
		case holdsMark(place.text) != place.want:
			s.Errorf("%s: the payload is there: %v, want %v%s", place.name, !place.want, place.want, around(place.text))
		}
	}
}

// around is the text beside the mark.
func around(text []byte) string {
	const beside = 200
	for _, form := range forms() {
		if at := bytes.Index(text, form); at >= 0 {
			return fmt.Sprintf(": %q", text[max(0, at-beside):min(len(text), at+beside)])
		}
	}
	return ""
}

// With a codec no byte of a payload leaves the programs that schedule, run and read.
func TestEncodedPayloadsAreNowhere(t *testing.T) {
	t.Parallel()
	codec, err := sdk.NewAESGCMCodec(sdk.PayloadKey{ID: "canary", Secret: []byte("0123456789abcdef0123456789abcdef")})
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, codec)
	s.live(codec)
	s.look(false)
}

// Without one payloads are in the store and the queues, and not in what people read.
func TestPayloadsAreInNoLogMetricOrError(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.live(nil)
	s.look(true)
}
