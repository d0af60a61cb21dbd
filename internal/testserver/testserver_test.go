package testserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/internal/testserver"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const day = 24 * time.Hour

// rig is a server with the lambda mail, and the starts of its tasks.
type rig struct {
	*testing.T

	url    string
	client *sdk.Client
	begin  time.Time

	mu     sync.Mutex
	starts []string // payload@time since begin
}

func newRig(t *testing.T, stall time.Duration) *rig {
	t.Helper()
	begin := time.Date(2027, time.January, 31, 9, 0, 0, 0, time.UTC)
	s, err := testserver.New(t.Context(), testserver.Config{
		Log: slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn})), Start: begin, Stall: stall,
	})
	if err != nil {
		t.Fatal(err)
	}
	runtest.Start(t, s.Run)
	client, err := sdk.NewClient(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	r := &rig{T: t, url: s.URL(), client: client, begin: begin}
	if err := admin.New(client).Lambdas.Ensure(t.Context(), mail, admin.Lambda{
		MaxAttempts: 4, Retention: 90 * day, BackoffMin: time.Minute, BackoffMax: time.Hour, Timeout: 300 * time.Millisecond,
	}); err != nil {
		t.Fatal(err)
	}
	return r
}

var mail = sdk.NewLambda[string]("mail")

// call makes a plain HTTP call, and fails the test unless it answers with the status.
func (r *rig) call(ctx context.Context, path, body string, want int, into any) error {
	method := http.MethodPost
	if body == "" {
		method = http.MethodGet
	}
	request, err := http.NewRequestWithContext(ctx, method, r.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != want {
		err = fmt.Errorf("%s %s: %s %s", path, body, response.Status, answer)
	}
	if err != nil || into == nil {
		return err
	}
	return json.NewDecoder(bytes.NewReader(answer)).Decode(into)
}

func (r *rig) advance(by time.Duration) {
	r.Helper()
	if err := r.call(r.Context(), "/test/advance", fmt.Sprintf(`{"by":%q}`, by), http.StatusOK, nil); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) now() (answer struct{ Now time.Time }) {
	r.Helper()
	if err := r.call(r.Context(), "/test/now", "", http.StatusOK, &answer); err != nil {
		r.Fatal(err)
	}
	return answer
}

func (r *rig) schedule(payload string, opts ...sdk.Option) sdk.ID {
	r.Helper()
	id, err := mail.Schedule(r.Context(), r.client, payload, opts...)
	if err != nil {
		r.Fatal(err)
	}
	return id
}

func (r *rig) want(starts ...string) {
	r.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.starts, starts) {
		r.Errorf("started %q, want %q", r.starts, starts)
	}
}

func (r *rig) wantState(id sdk.ID, want sdk.State) {
	r.Helper()
	info, err := r.client.Get(r.Context(), id)
	if err != nil || info.State != want {
		r.Errorf("task is %v (%v), want %v", info.State, err, want)
	}
}

// run does what the payload says: a word for each attempt, or one for all.
func (r *rig) run(ctx context.Context, payload string, attempt int) string {
	at := r.now().Now.Sub(r.begin)
	r.mu.Lock()
	r.starts = append(r.starts, payload+"@"+at.String())
	r.mu.Unlock()
	words := strings.Fields(payload)
	word := words[min(attempt, len(words))-1]
	if word == "block" {
		<-ctx.Done()
		word = "cancel"
		if errors.Is(context.Cause(ctx), context.DeadlineExceeded) || errors.Is(context.Cause(ctx), sdk.ErrTimeout) {
			word = "fail"
		}
	}
	return word
}

// stream runs a worker of the Go SDK.
func (r *rig) stream() (stop func()) {
	w := sdk.NewWorker(r.client, sdk.Slots(3))
	mail.Handle(w, func(ctx context.Context, t *sdk.Task[string]) error {
		switch r.run(ctx, t.Args, t.Attempt) {
		case "fail":
			return errors.New("no luck")
		case "snooze":
			return sdk.Snooze(time.Hour)
		case "again":
			return sdk.Snooze(0)
		case "cancel":
			return context.Cause(ctx)
		}
		return nil
	})
	stop = runtest.Start(r, func(ctx context.Context) error {
		if err := w.Run(ctx); !errors.Is(err, context.Canceled) {
			return err
		}
		return nil
	})
	r.awaitWorker()
	return stop
}

// awaitWorker waits until a task has run.
func (r *rig) awaitWorker() {
	r.Helper()
	if _, err := r.client.Wait(r.Context(), r.schedule("ok")); err != nil {
		r.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starts = nil
}

// calls runs a worker that makes plain HTTP calls.
func (r *rig) calls() (stop func()) {
	r.Helper()
	w := &caller{rig: r, cancels: map[string]context.CancelFunc{}}
	var answer struct{ Worker, Heartbeat string }
	if err := r.call(r.Context(), "/v1/work/register", `{"name":"caller","lambdas":["mail"],"lease":"3s"}`, http.StatusOK, &answer); err != nil {
		r.Fatal(err)
	}
	w.id = answer.Worker
	every, err := api.ParseDuration(answer.Heartbeat)
	if err != nil || every != 750*time.Millisecond {
		r.Fatalf("heartbeat %v (%v), want that of the lease that was asked for", answer.Heartbeat, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() { w.beat(ctx, every/4) })
	for range 2 {
		all.Go(func() { w.claim(ctx) })
	}
	stop = sync.OnceFunc(func() {
		cancel()
		all.Wait()
		if err := r.call(context.Background(), "/v1/work/leave", fmt.Sprintf(`{"worker":%q}`, w.id), http.StatusOK, nil); err != nil {
			r.Error(err)
		}
	})
	r.Cleanup(stop)
	return stop
}

type caller struct {
	*rig

	id string

	mu      sync.Mutex
	cancels map[string]context.CancelFunc // by claim
}

func (w *caller) claim(ctx context.Context) {
	for {
		var answer struct {
			Tasks []struct {
				Claim, Payload, Hold, Timeout string
				Attempt                       int
			}
		}
		err := w.call(ctx, "/v1/work/claim", fmt.Sprintf(`{"worker":%q,"lambdas":["mail"],"wait":"20s"}`, w.id), http.StatusOK, &answer)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			w.Error(err)
			return
		}
		for _, t := range answer.Tasks {
			if t.Hold != "0s" {
				w.Errorf("hold %s", t.Hold)
			}
			within, err := time.ParseDuration(t.Timeout)
			if err != nil {
				w.Error(err)
			}
			attempt, cancel := context.WithTimeout(ctx, within)
			w.mu.Lock()
			w.cancels[t.Claim] = cancel
			w.mu.Unlock()
			result := map[string]string{"fail": `"retriable_failure"`, "snooze": `"snoozed","delay":"1h"`, "again": `"snoozed","delay":"0s"`, "cancel": `"cancelled"`, "ok": `"success"`}[w.run(attempt, t.Payload, t.Attempt)]
			cancel()
			if err := w.call(ctx, "/v1/work/results", fmt.Sprintf(`{"worker":%q,"results":[{"claim":%q,"outcome":%s}]}`, w.id, t.Claim, result), http.StatusOK, nil); err != nil && ctx.Err() == nil {
				w.Error(err)
			}
			w.mu.Lock()
			delete(w.cancels, t.Claim)
			w.mu.Unlock()
		}
	}
}

func (w *caller) beat(ctx context.Context, every time.Duration) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(every):
		}
		w.mu.Lock()
		running := []string{}
		for claim := range w.cancels {
			running = append(running, claim)
		}
		w.mu.Unlock()
		body, _ := json.Marshal(map[string]any{"worker": w.id, "running": running})
		var answer struct{ Cancels []string }
		if err := w.call(ctx, "/v1/work/heartbeat", string(body), http.StatusOK, &answer); err != nil && ctx.Err() == nil {
			w.Error(err)
		}
		w.mu.Lock()
		for _, claim := range answer.Cancels {
			w.cancels[claim]()
		}
		w.mu.Unlock()
	}
}

// withBoth runs a test with each kind of worker.
func withBoth(t *testing.T, test func(r *rig, work func() (stop func()))) {
	t.Helper()
	for name, work := range map[string]func(*rig) func(){"stream": (*rig).stream, "calls": (*rig).calls} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, 5*time.Second)
			test(r, func() func() { return work(r) })
		})
	}
}

func TestATaskInThirtyDays(t *testing.T) {
	t.Parallel()
	withBoth(t, func(r *rig, work func() func()) {
		work()
		id := r.schedule("ok", sdk.In(30*day))
		r.advance(30*day - time.Second)
		r.want()
		r.advance(time.Second)
		r.want("ok@720h0m0s")
		r.wantState(id, sdk.StateSuccess)
		if now := r.now().Now; now != r.begin.Add(30*day) {
			r.Errorf("now %v", now)
		}
	})
}

func TestRetriesAndSnoozesTakeVirtualTime(t *testing.T) {
	t.Parallel()
	withBoth(t, func(r *rig, work func() func()) {
		work()
		id := r.schedule("fail fail ok")
		snoozes := r.schedule("snooze ok", sdk.In(10*day))
		r.advance(20 * day)
		r.wantState(id, sdk.StateSuccess)
		r.wantState(snoozes, sdk.StateSuccess)
		r.mu.Lock()
		defer r.mu.Unlock()
		if len(r.starts) != 5 || r.starts[3] != "snooze ok@240h0m0s" || r.starts[4] != "snooze ok@241h0m0s" {
			r.Errorf("started %q", r.starts)
		}
	})
}

func TestACronForAMonth(t *testing.T) {
	t.Parallel()
	withBoth(t, func(r *rig, work func() func()) {
		work()
		if err := r.call(r.Context(), "/v1/crons", `{"name":"daily","lambda":"mail","schedule":"0 9 * * *","payload":"ok"}`, http.StatusCreated, nil); err != nil {
			r.Fatal(err)
		}
		r.advance(30 * day)
		var want []string
		for n := range 30 {
			want = append(want, "ok@"+(time.Duration(n+1)*day).String())
		}
		r.want(want...)
	})
}

func TestAnAttemptTimesOutInRealTime(t *testing.T) {
	t.Parallel()
	withBoth(t, func(r *rig, work func() func()) {
		work()
		id := r.schedule("block ok", sdk.In(day))
		r.advance(2 * day)
		r.wantState(id, sdk.StateSuccess)
	})
}

func TestCancelOfARunningTask(t *testing.T) {
	t.Parallel()
	withBoth(t, func(r *rig, work func() func()) {
		if err := admin.New(r.client).Lambdas.Ensure(r.Context(), mail, admin.Lambda{Timeout: time.Minute, Retention: 90 * day}); err != nil {
			r.Fatal(err)
		}
		work()
		id := r.schedule("block", sdk.In(day))
		advanced := make(chan struct{})
		go func() {
			defer close(advanced)
			r.advance(2 * day)
		}()
		runtest.Eventually(r, 10*time.Second, "the task runs", func() bool {
			r.mu.Lock()
			defer r.mu.Unlock()
			return len(r.starts) > 0
		})
		if _, err := r.client.Cancel(r.Context(), id); err != nil {
			r.Error(err)
		}
		<-advanced
		r.wantState(id, sdk.StateCancelled)
		r.want("block@24h0m0s")
	})
}

// A worker that has left takes nothing, and holds up nothing.
func TestATaskWithoutAWorkerStaysInItsQueue(t *testing.T) {
	t.Parallel()
	withBoth(t, func(r *rig, work func() func()) {
		stop := work()
		stop()
		id := r.schedule("ok", sdk.In(day))
		r.advance(2 * day)
		r.wantState(id, sdk.StateEnqueued)
		work()
		r.advance(0)
		r.wantState(id, sdk.StateSuccess)
	})
}

func TestAWaitCountsRealTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	id := r.schedule("ok", sdk.In(day))
	waited := make(chan error, 1)
	go func() {
		waited <- r.call(r.Context(), "/v1/tasks/"+string(id)+"/wait?timeout=1m", "", http.StatusOK, nil)
	}()
	r.advance(time.Hour)
	select {
	case err := <-waited:
		t.Errorf("the wait ended with an hour of virtual time: %v", err)
	default:
	}
	r.calls()
	r.advance(day)
	if err := <-waited; err != nil {
		t.Error(err)
	}
	if err := r.call(t.Context(), "/v1/tasks/"+string(r.schedule("ok", sdk.In(day)))+"/wait?timeout=1ms", "", http.StatusOK, nil); err != nil {
		t.Error(err)
	}
}

func TestAnAdvanceThatCannotEndIsRefused(t *testing.T) {
	t.Parallel()
	withBoth(t, func(r *rig, work func() func()) {
		if err := admin.New(r.client).Lambdas.Ensure(r.Context(), mail, admin.Lambda{Timeout: time.Minute}); err != nil {
			r.Fatal(err)
		}
		stop := work()
		r.schedule("again")
		r.refused(`{"by":"1h"}`, http.StatusConflict, "mail task", "started 100 times")
		stop() // its handler goes on, and asks for the time
	})
	r := newRig(t, 50*time.Millisecond)
	stop := r.stream()
	r.schedule("block")
	r.refused(`{"by":"1h"}`, http.StatusConflict, "nothing has happened for 50ms", "mail task", "is claimed")
	stop()
}

func TestAWrongAdvanceIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, 0)
	for _, body := range []string{`{`, `{}`, `{"by":"1h","to":"2027-03-01T00:00:00Z"}`, `{"by":"soon"}`, `{"by":"-1h"}`, `{"to":"soon"}`, `{"in":"1h"}`} {
		r.refused(body, http.StatusBadRequest, "want")
	}
	if err := r.call(t.Context(), "/test/advance", `{"to":"2027-03-01T00:00:00+01:00"}`, http.StatusOK, nil); err != nil {
		t.Error(err)
	}
	if err := r.call(t.Context(), "/test/advance", `{"to":"2027-02-01T00:00:00Z"}`, http.StatusOK, nil); err != nil {
		t.Error(err)
	}
	if now := r.now().Now.Format(time.RFC3339); now != "2027-02-28T23:00:00Z" {
		t.Errorf("now %s: time went back, or not to where it was told", now)
	}
}

func (r *rig) refused(body string, status int, parts ...string) {
	r.Helper()
	var problem struct{ Detail string }
	if err := r.call(r.Context(), "/test/advance", body, status, &problem); err != nil {
		r.Fatal(err)
	}
	for _, part := range parts {
		if !strings.Contains(problem.Detail, part) {
			r.Errorf("%s: %q does not say %q", body, problem.Detail, part)
		}
	}
}
