package sdk_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/clock/clocktest"
	"github.com/kinesin-io/kinesin/internal/sdkconfig"
	"github.com/kinesin-io/kinesin/internal/tlstest"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/sdk/sdktest"
	"github.com/kinesin-io/kinesin/task"
)

// accept answers for all items that they are durable.
func accept(r *kinesinv1.ScheduleRequest) *kinesinv1.ScheduleResponse {
	response := &kinesinv1.ScheduleResponse{}
	for _, item := range r.Items {
		response.Results = append(response.Results, &kinesinv1.ScheduleResult{Id: "id-" + string(item.Payload), Due: 1_800_000_000_000_000})
	}
	return response
}

func unavailable() error { return api.Errorf(kinesinv1.Reason_REASON_UNAVAILABLE, "shutting down") }

type reminder struct {
	User int `json:"user"`
}

var sendReminder = sdk.NewLambda[reminder]("send-reminder", sdk.MaxAttempts(8), sdk.Priority("low"))

func TestScheduleCarriesEverything(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	var got *kinesinv1.ScheduleItem
	s.schedule = func(r *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
		got = r.Items[0]
		return &kinesinv1.ScheduleResponse{Results: []*kinesinv1.ScheduleResult{{Id: "k1"}}}, nil
	}
	id, err := sendReminder.Schedule(t.Context(), s.client(t), reminder{User: 42},
		sdk.In(time.Hour), sdk.Key("reminder-42"), sdk.Priority("high"), sdk.Collection("emails"), sdk.LimitKey("acme"),
		sdk.Timeout(time.Minute), sdk.Backoff(time.Second, time.Minute), sdk.Tag("tenant", "acme"), sdk.StartBefore(time.UnixMicro(42)), sdk.OnConflict(sdk.ConflictReplace))
	if err != nil || id != "k1" {
		t.Fatalf("got %q, %v", id, err)
	}
	if len(got.RequestId) != 16 || got.RequestId[6]>>4 != 7 || got.RequestId[8]>>6 != 2 {
		t.Errorf("request id %x is no UUID of version 7", got.RequestId)
	}
	want := fmt.Sprint(&kinesinv1.ScheduleItem{
		Lambda: "send-reminder", Delay: time.Hour.Microseconds(), Priority: "high", Collection: "emails", Key: "reminder-42", LimitKey: "acme",
		Payload: []byte(`{"user":42}`), MaxAttempts: 8, Timeout: time.Minute.Microseconds(),
		BackoffMin: time.Second.Microseconds(), BackoffMax: time.Minute.Microseconds(),
		Tags: map[string]string{"tenant": "acme"}, StartBefore: 42, OnConflict: "replace",
	})
	if got.RequestId = nil; fmt.Sprint(got) != want {
		t.Errorf("sent %v\nwant %v", got, want)
	}
}

// The server decides about moments in the past. The zero of the wire means now, so the SDK never sends it for
// a moment.
func TestMomentsInThePastAreSent(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.schedule = func(r *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
		if r.Items[0].Due != -1_000_000 || r.Items[1].Delay != 0 || r.Items[2].Due != 1 {
			return nil, fmt.Errorf("%w: %v", api.ErrInvalid, r.Items)
		}
		return accept(r), nil
	}
	_, err := s.client(t).ScheduleMany(t.Context(), []sdk.Item{{Lambda: "a", At: time.Unix(-1, 0)}, {Lambda: "a", In: -time.Hour}, {Lambda: "a", At: time.Unix(0, 0)}})
	if err != nil {
		t.Error(err)
	}
}

func TestRepeatedCallIsTheSameCall(t *testing.T) {
	t.Parallel()
	s, clock := newServer(t), clocktest.NewLeap()
	began := clock.Now()
	var ids [][]byte
	s.schedule = func(r *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
		ids = append(ids, r.Items[0].RequestId)
		if r.Again != (len(ids) > 1) {
			t.Errorf("call %d says again: %t", len(ids), r.Again)
		}
		if len(ids) < 4 {
			return nil, unavailable()
		}
		if elapsed := clock.Now().Sub(began); elapsed == 0 || r.Items[0].Delay != time.Hour.Microseconds() || r.Elapsed != elapsed.Microseconds() {
			return nil, fmt.Errorf("%w: delay is %d µs, since %d µs, %v after the first try", api.ErrInvalid, r.Items[0].Delay, r.Elapsed, elapsed)
		}
		return accept(r), nil
	}
	_, err := s.client(t, sdkconfig.WithClock(clock)).Schedule(t.Context(), sdk.Item{Lambda: "a", In: time.Hour})
	if err != nil || len(ids) != 4 {
		t.Fatalf("%d calls, %v", len(ids), err)
	}
	for _, id := range ids[1:] {
		if !bytes.Equal(id, ids[0]) {
			t.Errorf("request id changed from %x to %x", ids[0], id)
		}
	}
}

func TestRepeatedRedriveIsTheSameCall(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	var ids [][]byte
	s.redrive = func(r *kinesinv1.RedriveRequest) (*kinesinv1.ChangeResponse, error) {
		if ids = append(ids, r.RequestId); len(ids) == 1 {
			return nil, unavailable()
		}
		return &kinesinv1.ChangeResponse{Results: []*kinesinv1.ChangeResult{{State: "scheduled"}}}, nil
	}
	k := s.client(t, sdkconfig.WithClock(clocktest.NewLeap()))
	for range 2 {
		if _, err := k.Redrive(t.Context(), []sdk.ID{"k1"}); err != nil {
			t.Fatal(err)
		}
	}
	if len(ids) != 3 || len(ids[0]) != 16 || !bytes.Equal(ids[0], ids[1]) || bytes.Equal(ids[1], ids[2]) {
		t.Errorf("request ids %x, want the same twice, and then another", ids)
	}
}

func TestOnlyUnansweredItemsAreSentAgain(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	var calls []int
	s.schedule = func(r *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
		calls = append(calls, len(r.Items))
		response := accept(r)
		if len(calls) == 1 {
			response.Results[1] = &kinesinv1.ScheduleResult{Problem: api.ProblemOf(unavailable())}
			response.Results[2] = &kinesinv1.ScheduleResult{Problem: api.ProblemOf(api.ErrUnknownLambda)}
		}
		return response, nil
	}
	items := []sdk.Item{{Payload: []byte("a")}, {Payload: []byte("b")}, {Payload: []byte("c")}, {Payload: []byte("d")}}
	results, err := s.client(t, sdkconfig.WithClock(clocktest.NewLeap())).ScheduleMany(t.Context(), items)
	if !slices.Equal(calls, []int{4, 1}) {
		t.Errorf("calls of %v items", calls)
	}
	if results[0].ID != "id-a" || results[1].ID != "id-b" || results[3].ID != "id-d" || !errors.Is(results[2].Err, sdk.ErrUnknownLambda) {
		t.Errorf("results are %+v", results)
	}
	if !errors.Is(err, sdk.ErrUnknownLambda) || !strings.Contains(err.Error(), "1 of 4 tasks were not scheduled; the first is item 2") {
		t.Errorf("error is %v", err)
	}
}

func TestManyItemsAreCutIntoCalls(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	var calls []int
	s.schedule = func(r *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
		calls = append(calls, len(r.Items))
		return accept(r), nil
	}
	items := make([]sdk.Item, 2500)
	for i := range items {
		items[i] = sdk.Item{Lambda: "a", Payload: fmt.Append(nil, i)}
	}
	items = slices.Concat(items, []sdk.Item{{Payload: make([]byte, 3<<20)}, {Payload: make([]byte, 3<<20)}})
	results, err := s.client(t).ScheduleMany(t.Context(), items)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2500 {
		if results[i].ID != sdk.ID("id-"+fmt.Sprint(i)) {
			t.Fatalf("result %d is %+v", i, results[i])
		}
	}
	slices.Sort(calls)
	if !slices.Equal(calls, []int{1, 501, 1000, 1000}) {
		t.Errorf("calls of %v items", calls)
	}
	if none, err := s.client(t).ScheduleMany(t.Context(), nil); len(none) != 0 || err != nil {
		t.Errorf("no items: %v, %v", none, err)
	}
}

// Beyond the budget calls try again only after long pauses, so a server that fails for all gets few tries.
func TestRetriesBeyondTheBudgetAreSparse(t *testing.T) {
	t.Parallel()
	s, calls := newServer(t), 0
	s.schedule = func(*kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
		calls++
		return nil, unavailable()
	}
	k := clocktest.NewLeap()
	c := s.client(t, sdkconfig.WithClock(k))
	for n := range 100 {
		began, before := k.Now(), calls
		if _, err := c.Schedule(t.Context(), sdk.Item{}); !errors.Is(err, sdk.ErrUnavailable) {
			t.Fatal(err)
		}
		if took := k.Now().Sub(began); n > 20 && (took > 10*time.Second || took < 2*time.Second || calls-before > 8) {
			t.Errorf("call %d ended after %v and %d tries, want 10 s at most and few tries", n, took, calls-before)
		}
	}
	if calls > 100+20+10+450 {
		t.Errorf("100 calls of up to 10 s made %d tries, want about 5 each", calls)
	}
}

// A server comes back when the budget is used up long ago: a call whose time is not over then gets through.
func TestACallWithTimeLeftIsTriedAgainWhateverTheBudget(t *testing.T) {
	t.Parallel()
	for _, within := range []time.Duration{0, 300 * time.Millisecond, 3 * time.Second, time.Minute} { // 0: no deadline
		s, down := newServer(t), true
		k := clocktest.NewLeap()
		var up task.Instant
		s.schedule = func(*kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
			if down || k.Now() < up {
				return nil, unavailable()
			}
			return &kinesinv1.ScheduleResponse{Results: []*kinesinv1.ScheduleResult{{Id: "k1"}}}, nil
		}
		c := s.client(t, sdkconfig.WithClock(k))
		for range 30 {
			_, _ = c.Schedule(t.Context(), sdk.Item{})
		}
		down, up = false, k.Now().Add(100*time.Millisecond)
		ctx := t.Context()
		if within > 0 {
			bounded, cancel := context.WithDeadline(ctx, clock.Deadline(k, within))
			defer cancel()
			ctx = bounded
		}
		began := k.Now()
		_, err := c.Schedule(ctx, sdk.Item{})
		if took := k.Now().Sub(began); err != nil || within > 0 && took >= within {
			t.Errorf("a call of %v took %v: %v", within, took, err)
		}
	}
}

func TestRefusalsAreNotRetried(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	calls := 0
	s.schedule = func(*kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) {
		calls++
		return nil, api.Errorf(kinesinv1.Reason_REASON_FULL, "no space is left")
	}
	_, err := s.client(t).Schedule(t.Context(), sdk.Item{})
	if !errors.Is(err, sdk.ErrFull) || calls != 1 || err.Error() != "schedule: no space is left" {
		t.Errorf("%d calls, %v", calls, err)
	}
}

func TestNoServer(t *testing.T) {
	t.Parallel()
	c, err := sdk.NewClient("http://127.0.0.1:1", sdk.WithTries(2))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Get(t.Context(), "k1")
	if !errors.Is(err, sdk.ErrUnavailable) || !strings.Contains(err.Error(), "tried 2 times") {
		t.Errorf("got %v", err)
	}
}

func TestServerThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	hang := make(chan struct{})
	s.get = func(*kinesinv1.GetRequest) (*kinesinv1.GetResponse, error) {
		<-hang
		return nil, unavailable()
	}
	defer close(hang)
	c := s.client(t, sdk.WithCallTimeout(10*time.Millisecond), sdk.WithTries(2))
	if _, err := c.Get(t.Context(), "k1"); !errors.Is(err, sdk.ErrUnavailable) || !strings.Contains(err.Error(), "no answer within 10ms") {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := c.Get(ctx, "k1"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("own deadline: %v", err)
	}
}

// A password in the URL is not sent, and not repeated.
func TestAServerURLWithAPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"http://me:hunter2@localhost:7070", "http://hunter2@x", "me:hunter2@:x", "http://me:hunter2@x:port"} {
		_, err := sdk.NewClient(url)
		if !errors.Is(err, sdk.ErrInvalid) || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "--token-file") {
			t.Errorf("%v", err)
		}
	}
}

func TestBadServerURL(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "localhost", "ftp://x", "127.0.0.1:7070,", "http://", "http://x?y=1", ":"} {
		if _, err := sdk.NewClient(url); !errors.Is(err, sdk.ErrInvalid) || !strings.Contains(err.Error(), "want a URL such as") {
			t.Errorf("%q: %v", url, err)
		}
	}
}

func TestServerAddresses(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"127.0.0.1:7070", "http://127.0.0.1:7070/", "localhost:7070,https://kinesin.example.org, 10.0.0.1:70"} {
		k, err := sdk.NewClient(server)
		if err != nil {
			t.Errorf("%q: %v", server, err)
			continue
		}
		k.Close()
	}
}

func TestGetReadsEverything(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.get = func(r *kinesinv1.GetRequest) (*kinesinv1.GetResponse, error) {
		response := &kinesinv1.GetResponse{}
		for _, id := range r.Ids {
			if id == "forged" {
				response.Results = append(response.Results, &kinesinv1.GetResult{Problem: api.ProblemOf(api.ErrNotFound)})
				continue
			}
			response.Results = append(response.Results, &kinesinv1.GetResult{Task: &kinesinv1.Task{
				Id: id, Lambda: "mail", State: "dead", Due: 1_000_000, Started: 1_250_000, Failures: 3, Payload: []byte("x"),
				Attempts: []*kinesinv1.Attempt{{Number: 1, Worker: "w1", Outcome: "retriable_failure", Error: "no route"}},
			}})
		}
		return response, nil
	}
	c := s.client(t)
	info, err := c.Get(t.Context(), "k1", sdk.WithPayload())
	if err != nil || info.State != sdk.StateDead || info.Lateness() != 250*time.Millisecond || len(info.Attempts) != 1 || !info.Ended.IsZero() {
		t.Errorf("got %+v, %v", info, err)
	}
	if _, err := c.Get(t.Context(), "forged"); !errors.Is(err, sdk.ErrNotFound) {
		t.Errorf("forged: %v", err)
	}
	many, err := c.GetMany(t.Context(), []sdk.ID{"k1", "forged", "k2"})
	if err != nil || many[0].Task.ID != "k1" || !errors.Is(many[1].Err, sdk.ErrNotFound) || many[2].Task.ID != "k2" {
		t.Errorf("got %+v, %v", many, err)
	}
}

func TestWaitGoesOnUntilAllHaveEnded(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	calls := 0
	s.wait = func(r *kinesinv1.WaitRequest) (*kinesinv1.GetResponse, error) {
		states := []string{"processing", "retriable_failure", "success"}
		state := states[min(calls, 2)]
		calls++
		return &kinesinv1.GetResponse{Results: []*kinesinv1.GetResult{
			{Task: &kinesinv1.Task{Id: r.Ids[0], State: state}}, {Problem: api.ProblemOf(api.ErrNotFound)},
		}}, nil
	}
	results, err := s.client(t, sdkconfig.WithClock(clocktest.NewLeap())).Wait(t.Context(), "k1", "k2")
	if err != nil || calls != 3 || results[0].Task.State != sdk.StateSuccess || !errors.Is(results[1].Err, sdk.ErrNotFound) {
		t.Errorf("after %d calls: %+v, %v", calls, results, err)
	}
}

func TestListReadsPageByPage(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	var limits []int32
	s.list = func(r *kinesinv1.ListRequest) (*kinesinv1.ListResponse, error) {
		limits = append(limits, r.Limit)
		response := &kinesinv1.ListResponse{}
		for n := range min(int(r.Limit), 700) {
			response.Tasks = append(response.Tasks, &kinesinv1.Task{Id: fmt.Sprint(len(r.Cursor)*700 + n), State: r.State})
		}
		if len(r.Cursor) < 2 {
			response.Next = make([]byte, len(r.Cursor)+1)
		}
		return response, nil
	}
	c := s.client(t)
	n := 0
	for info, err := range c.List(t.Context(), sdk.ListQuery{Lambda: "mail", State: sdk.StateScheduled}) {
		if err != nil || info.ID != sdk.ID(fmt.Sprint(n)) || info.State != sdk.StateScheduled {
			t.Fatalf("task %d is %+v, %v", n, info, err)
		}
		n++
	}
	if n != 2100 {
		t.Errorf("%d tasks, want 2100", n)
	}
	limits = nil
	for _, err := range c.List(t.Context(), sdk.ListQuery{Lambda: "mail", Limit: 1300}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 2100+1300 || !slices.Equal(limits, []int32{1000, 600}) {
		t.Errorf("%d tasks with limits %v", n-2100, limits)
	}
}

func TestACancelThatIsRepeatedAfterALostAnswerIsDone(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	calls := 0
	s.cancel = func(r *kinesinv1.CancelRequest) (*kinesinv1.CancelResponse, error) {
		if calls++; calls == 1 {
			return nil, api.ToWire(api.ErrUnavailable)
		}
		return &kinesinv1.CancelResponse{Results: []*kinesinv1.CancelResult{{State: r.Ids[0], Problem: api.ProblemOf(api.ErrTooLate)}}}, nil
	}
	if outcome, err := s.client(t).Cancel(t.Context(), "cancelled"); err != nil || outcome != sdk.CancelDone {
		t.Errorf("repeated: %q, %v", outcome, err)
	}
	if outcome, err := s.client(t).Cancel(t.Context(), "cancelled"); outcome != "" || !errors.Is(err, sdk.ErrTooLate) {
		t.Errorf("once more: %q, %v", outcome, err)
	}
	calls = 0
	if outcome, err := s.client(t).Cancel(t.Context(), "success"); outcome != "" || !errors.Is(err, sdk.ErrTooLate) {
		t.Errorf("repeated, of a task that succeeded: %q, %v", outcome, err)
	}
}

func TestCancelSaysWhatItMet(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.cancel = func(r *kinesinv1.CancelRequest) (*kinesinv1.CancelResponse, error) {
		if r.Ids[0] == "ended" {
			return &kinesinv1.CancelResponse{Results: []*kinesinv1.CancelResult{{State: "success", Problem: api.ProblemOf(api.ErrTooLate)}}}, nil
		}
		return &kinesinv1.CancelResponse{Results: []*kinesinv1.CancelResult{{Outcome: "cancelling", State: "processing"}}}, nil
	}
	if outcome, err := s.client(t).Cancel(t.Context(), "k1"); err != nil || outcome != sdk.CancelRequested {
		t.Errorf("got %q, %v", outcome, err)
	}
	if _, err := s.client(t).Cancel(t.Context(), "ended"); !errors.Is(err, sdk.ErrTooLate) {
		t.Errorf("ended: %v", err)
	}
}

func TestArgumentsThatCannotBeEncoded(t *testing.T) {
	t.Parallel()
	l := sdk.NewLambda[func()]("broken")
	if _, err := l.Schedule(t.Context(), newServer(t).client(t), func() {}); err == nil || !strings.Contains(err.Error(), "encode the arguments of a broken task") {
		t.Errorf("got %v", err)
	}
}

func TestBytesStayBytes(t *testing.T) {
	t.Parallel()
	item, err := sdk.NewLambda[[]byte]("raw").Item([]byte("as it is"))
	if err != nil || string(item.Payload) != "as it is" {
		t.Errorf("got %q, %v", item.Payload, err)
	}
}

// A server behind TLS and tokens, as docs/reference/sdk.md shows it.
func TestTokensAndTLS(t *testing.T) {
	t.Parallel()
	a, token := tlstest.New(t), strings.Repeat("token", 8)
	tokenFile, caFile := filepath.Join(t.TempDir(), "token"), a.File
	if err := os.WriteFile(tokenFile, []byte(token), 0o600); err != nil {
		t.Fatal(err)
	}
	server := guarded(t, a, token)
	client, err := sdk.NewClient(server,
		sdk.WithTokenFile(tokenFile), // its first line; read again when it changes
		sdk.WithCAFile(caFile),       // only if this machine does not trust who signed the server's certificate
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if _, err := sendReminder.Schedule(t.Context(), client, reminder{User: 42}); err != nil {
		t.Error(err)
	}
	for name, c := range map[string]struct {
		options []sdk.ClientOption
		want    error
	}{
		"no token": {[]sdk.ClientOption{sdk.WithCAFile(caFile)}, sdk.ErrUnauthenticated},
		"no trust": {[]sdk.ClientOption{sdk.WithTokenFile(tokenFile)}, sdk.ErrInvalid},
	} {
		client, err := sdk.NewClient(server, c.options...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(client.Close)
		if _, err := sendReminder.Schedule(t.Context(), client, reminder{User: 42}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		w := sdk.NewWorker(client)
		w.Register(sendReminder.Name(), func(context.Context, *sdk.Task[[]byte]) error { return nil })
		if err := w.Run(t.Context()); !errors.Is(err, c.want) {
			t.Errorf("a worker with %s: %v, want %v", name, err, c.want)
		}
	}
	for name, options := range map[string][]sdk.ClientOption{
		"no such file":                {sdk.WithTokenFile("/nowhere")},
		"none in PEM":                 {sdk.WithCAFile(tokenFile)},
		"both a file of certificates": {sdk.WithCAFile(caFile), sdk.WithHTTPClient(http.DefaultClient)},
	} {
		if _, err := sdk.NewClient(server, options...); !errors.Is(err, sdk.ErrInvalid) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// guarded is a server that takes one token, over TLS, and accepts every task.
func guarded(t *testing.T, a *tlstest.Authority, token string) (url string) {
	t.Helper()
	s := &server{}
	s.schedule = func(r *kinesinv1.ScheduleRequest) (*kinesinv1.ScheduleResponse, error) { return accept(r), nil }
	refuse := connect.NewErrorWriter()
	h := httptest.NewUnstartedServer(nil)
	h.Config = api.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+token {
			_ = refuse.Write(w, r, api.ToWire(api.ErrUnauthenticated))
			return
		}
		s.handler().ServeHTTP(w, r)
	}))
	h.Config.ErrorLog = log.New(io.Discard, "", 0)
	pair, err := tls.LoadX509KeyPair(a.CertFile, a.KeyFile)
	if err != nil {
		t.Fatal(err)
	}
	h.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	h.StartTLS()
	t.Cleanup(h.Close)
	return h.URL
}

func TestATokenFileThatAllMayRead(t *testing.T) {
	t.Parallel()
	for mode, loose := range map[os.FileMode]bool{0o600: false, 0o440: false, 0o644: true} {
		path := filepath.Join(t.TempDir(), "token")
		if err := errors.Join(os.WriteFile(path, []byte(strings.Repeat("a", 40)), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		var told strings.Builder
		c, err := sdk.NewClient("http://127.0.0.1:1", sdk.WithTokenFile(path), sdk.WithLogger(slog.New(slog.NewTextHandler(&told, nil))))
		if err != nil {
			t.Fatal(err)
		}
		c.Close()
		if strings.Contains(told.String(), "may use the token file") != loose || strings.Contains(told.String(), "aaaa") {
			t.Errorf("%04o: %s", mode, told.String())
		}
	}
}

func TestRepeatedSetGateIsTheSameCall(t *testing.T) {
	t.Parallel()
	var ids [][]byte
	s := newServerWith(t, func(http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			var call kinesinv1.SetGateRequest
			if err := proto.Unmarshal(body, &call); err != nil {
				t.Error(err)
			}
			if ids = append(ids, call.RequestId); len(ids) == 1 {
				w.WriteHeader(http.StatusServiceUnavailable) // it was set, and the answer is lost
				return
			}
			answer, _ := proto.Marshal(&kinesinv1.SetGateResponse{Gate: &kinesinv1.Gate{Id: "7"}})
			w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
			_, _ = w.Write(answer)
		})
	})
	k := s.client(t, sdkconfig.WithClock(clocktest.NewLeap()))
	for range 2 {
		if g, err := admin.New(k).Gates.Create(t.Context(), admin.Gate{Lambda: "mail", Reason: "maintenance"}); err != nil || g.ID != "7" {
			t.Fatal(g, err)
		}
	}
	if len(ids) != 3 || len(ids[0]) != 16 || !bytes.Equal(ids[0], ids[1]) || bytes.Equal(ids[1], ids[2]) {
		t.Errorf("request ids %x", ids)
	}
}

// A task that is redriven in the very millisecond at which it was due waits at the place of its first life.
func TestARedrivenTaskStartsAtOnce(t *testing.T) {
	k := sdktest.New(t)
	k.Lambda("report", admin.Lambda{})
	w := sdk.NewWorker(k.Client(), sdk.Slots(1))
	ran := make(chan string, 10)
	w.Register("report", func(_ context.Context, task *sdk.Task[[]byte]) error {
		ran <- string(task.Payload)
		return nil
	})
	k.Run(w)
	for _, key := range []string{"", "mine"} {
		r, err := k.Client().Schedule(t.Context(), sdk.Item{Lambda: "report", Payload: []byte("first"), In: time.Hour, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		k.Advance(time.Hour)
		<-ran
		for range 3 {
			changed, err := k.Client().Redrive(t.Context(), []sdk.ID{r.ID}, sdk.Force(), sdk.WithNewPayload([]byte("again")))
			if err != nil || changed[0].Err != nil {
				t.Fatal(changed, err)
			}
			k.Advance(time.Second)
			if got := <-ran; got != "again" {
				t.Errorf("ran with %q", got)
			}
		}
	}
}
