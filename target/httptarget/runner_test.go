package httptarget_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/clock"
	"github.com/kinesin-io/kinesin/internal/controller"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/target/httptarget"
	"github.com/kinesin-io/kinesin/task"
)

// runner returns a runner whose client has no guard.
func runner(t *testing.T, target task.Target) *httptarget.Runner {
	t.Helper()
	c := httptarget.NewClient(httptarget.Config{Clock: clock.Real(), Version: "1.2"})
	t.Cleanup(c.Close)
	r, err := c.Runner(target)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func attempt() *sdk.Task[[]byte] {
	return &sdk.Task[[]byte]{
		ID: "k1abc", Lambda: "mail", Key: "a/b", Attempt: 3, Failures: 1, Payload: []byte(`{"a":1}`),
		Due: time.UnixMilli(1234), Traceparent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		Tags: map[string]string{"tenant": "acme"}, Occurrence: &sdk.Occurrence{Nominal: time.Unix(1, 0)},
	}
}

func TestHowAnAnswerEndsAnAttempt(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", task.ResultBytesMax+1)
	for _, c := range []struct {
		status int
		header string // of Retry-After
		body   string
		want   task.Outcome
		delay  time.Duration
		result string
	}{
		{200, "", `{"n":1}`, task.OutcomeSuccess, 0, `{"n":1}`},
		{201, "", "made", task.OutcomeSuccess, 0, "made"},
		{202, "", "", task.OutcomeSuccess, 0, ""},
		{204, "", "", task.OutcomeSuccess, 0, ""},
		{200, "", long[1:], task.OutcomeSuccess, 0, long[1:]},
		{200, "", long, task.OutcomeSuccess, 0, ""},
		{301, "", "", task.OutcomeFatal, 0, ""},
		{307, "", "", task.OutcomeFatal, 0, ""},
		{400, "5", "", task.OutcomeFatal, 0, ""},
		{404, "", "", task.OutcomeFatal, 0, ""},
		{408, "5", "", task.OutcomeRetriable, 0, ""},
		{409, "", "", task.OutcomeFatal, 0, ""},
		{410, "", "", task.OutcomeFatal, 0, ""},
		{425, "", "", task.OutcomeRetriable, 0, ""},
		{429, "", "", task.OutcomeRetriable, 0, ""},
		{429, "7", "", task.OutcomeSnoozed, 7 * time.Second, ""},
		{429, "0", "", task.OutcomeRetriable, 0, ""},
		{429, "-3", "", task.OutcomeRetriable, 0, ""},
		{429, "soon", "", task.OutcomeRetriable, 0, ""},
		{429, "Mon, 01 Jan 2024 00:00:00 GMT", "", task.OutcomeRetriable, 0, ""},
		{500, "7", "broken", task.OutcomeRetriable, 0, ""},
		{503, "7", "", task.OutcomeSnoozed, 7 * time.Second, ""},
		{599, "", "", task.OutcomeRetriable, 0, ""},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				t.Errorf("%d was followed", c.status)
			}
			w.Header().Set("Location", "/elsewhere")
			if c.header != "" {
				w.Header().Set("Retry-After", c.header)
			}
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		got := runner(t, task.Target{URL: srv.URL + "/"}).Outcome(t.Context(), attempt())
		if got.Kind != c.want || got.Delay != c.delay || string(got.Result) != c.result {
			t.Errorf("%d with %q and %d bytes: %v after %v with %d bytes, want %v after %v with %d", c.status, c.header, len(c.body),
				got.Kind, got.Delay, len(string(got.Result)), c.want, c.delay, len(c.result))
		}
		if got.Kind == task.OutcomeRetriable && !strings.Contains(got.Error, fmt.Sprint(c.status)+" ") || !strings.HasSuffix(got.Error, c.body) && c.status >= 300 {
			t.Errorf("%d: error %q", c.status, got.Error)
		}
		srv.Close()
	}
}

func TestAHostThatPutsATaskOffWithoutEndIsAFailure(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer srv.Close()
	r := runner(t, task.Target{URL: srv.URL})
	for attempts, want := range map[int]task.Outcome{102: task.OutcomeSnoozed, 103: task.OutcomeRetriable} {
		of := attempt()
		of.Attempt, of.Failures, of.WorkerLost = attempts, 1, 1
		if got := r.Outcome(t.Context(), of); got.Kind != want || want == task.OutcomeSnoozed && got.Delay < 50*time.Minute {
			t.Errorf("attempt %d: %+v, want %v", attempts, got, want)
		}
	}
}

func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	var got *http.Request
	var body []byte
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
	}))
	defer srv.Close()
	r := runner(t, task.Target{
		URL: srv.URL + "/{key}/x?t={tag.tenant}", Headers: map[string]string{"authorization": "Bearer 1", "user-agent": "mine"},
		Secrets: [][]byte{bytes.Repeat([]byte{1}, 24), bytes.Repeat([]byte{2}, 24)},
	})
	if e := r.Outcome(t.Context(), attempt()); e.Kind != task.OutcomeSuccess {
		t.Fatalf("%+v", e)
	}
	if got.Method != http.MethodPost || got.RequestURI != "/a%2Fb/x?t=acme" || string(body) != `{"a":1}` {
		t.Errorf("%s %s %s", got.Method, got.RequestURI, body)
	}
	want := map[string]string{
		"content-type": "application/json", "kinesin-task": "k1abc", "kinesin-attempt": "3", "kinesin-lambda": "mail",
		"kinesin-due": "1970-01-01T00:00:01.234Z", "kinesin-nominal": "1970-01-01T00:00:01Z", "kinesin-key": "a%2Fb",
		"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "webhook-id": "k1abc",
		"authorization": "Bearer 1", "user-agent": "mine", "accept-encoding": "",
	}
	for name, value := range want {
		if got.Header.Get(name) != value {
			t.Errorf("%s: %q, want %q", name, got.Header.Get(name), value)
		}
	}
	if signatures := strings.Fields(got.Header.Get("webhook-signature")); len(signatures) != 2 || signatures[0] == signatures[1] || !strings.HasPrefix(signatures[1], "v1,") {
		t.Errorf("signatures %q", signatures)
	}
	for payload, form := range map[string]string{"": "", "hello": "text/plain; charset=utf-8", "\xff": "application/octet-stream", "1": "application/json"} {
		of := attempt()
		of.Payload = []byte(payload)
		r.Outcome(t.Context(), of)
		if h := got.Header.Get("content-type"); h != form || string(body) != payload {
			t.Errorf("%q: type %q, body %q", payload, h, body)
		}
	}
	get := runner(t, task.Target{URL: srv.URL, Method: "GET"})
	if get.Outcome(t.Context(), attempt()); got.Method != http.MethodGet || len(body) > 0 || got.Header.Get("content-type") != "" || got.Header.Get("user-agent") != "kinesin/1.2" {
		t.Errorf("%s with %q: %v", got.Method, body, got.Header)
	}
}

func TestABodyIsKeptAsItIsSent(t *testing.T) {
	t.Parallel()
	var squeezed bytes.Buffer
	z := gzip.NewWriter(&squeezed)
	_, _ = z.Write(make([]byte, 1<<20))
	_ = z.Close()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(squeezed.Bytes())
	}))
	defer srv.Close()
	if e := runner(t, task.Target{URL: srv.URL}).Outcome(t.Context(), attempt()); string(e.Result) != squeezed.String() {
		t.Errorf("%d bytes, want %d", len(string(e.Result)), squeezed.Len())
	}
}

func TestNoAnswer(t *testing.T) {
	t.Parallel()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "half")
	}))
	defer cut.Close()
	for name, url := range map[string]string{"closed": closed.URL, "cut off": cut.URL, "no name": "http://no-such-host.invalid"} {
		e := runner(t, task.Target{URL: url + "/secret"}).Outcome(t.Context(), attempt())
		if e.Kind != task.OutcomeRetriable || strings.Contains(e.Error, "/secret") || !strings.HasPrefix(e.Error, "no answer from ") {
			t.Errorf("%s: %+v", name, e)
		}
	}
}

func TestACallEndsWithItsAttempt(t *testing.T) {
	t.Parallel()
	arrived, left := make(chan struct{}), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body) // else the server does not see the end
		close(arrived)
		<-r.Context().Done()
		close(left)
	}))
	defer srv.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-arrived
		cancel(errors.New("cancelled"))
	}()
	if e := runner(t, task.Target{URL: srv.URL}).Outcome(ctx, attempt()); e.Kind != task.OutcomeRetriable {
		t.Errorf("%+v", e)
	}
	<-left
}

// A host that has as many calls as it takes costs the tasks that wait for it neither an attempt nor time: the time-out is that
// of the call.
func TestTheWaitForAHostIsNoPartOfTheCall(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	calls, answers := make(chan struct{}), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		calls <- struct{}{}
		<-answers
	}))
	defer srv.Close()
	r := runner(t, task.Target{URL: srv.URL})
	outcomes := make(chan controller.Outcome)
	call := func(timeout time.Duration) {
		of := attempt()
		of.Timeout = timeout
		go func() { outcomes <- r.Outcome(t.Context(), of) }()
	}
	for range httptarget.WindowFirst { // which the host takes
		call(time.Minute)
		<-calls
	}
	call(time.Millisecond)
	if o := <-outcomes; o.Kind != task.OutcomeSnoozed || o.Delay < time.Second {
		t.Errorf("an attempt whose call was not made ended as %+v", o)
	}
	began := time.Now()
	call(timeout)
	time.Sleep(timeout * 3 / 4)
	answers <- struct{}{}
	<-calls
	time.Sleep(time.Until(began.Add(timeout + timeout/10)))
	for range httptarget.WindowFirst {
		answers <- struct{}{}
	}
	for range httptarget.WindowFirst + 1 {
		if o := <-outcomes; o.Kind != task.OutcomeSuccess {
			t.Errorf("%+v", o)
		}
	}
	call(timeout / 10)
	<-calls
	if o := <-outcomes; o.Kind != task.OutcomeRetriable || !strings.HasPrefix(o.Error, "timed out after 200ms: no answer from ") {
		t.Errorf("an attempt whose call got no answer ended as %+v", o)
	}
	answers <- struct{}{}
}

func TestATaskWithoutAWordOfTheURL(t *testing.T) {
	t.Parallel()
	of := attempt()
	of.Tags = nil
	if e := runner(t, task.Target{URL: "http://127.0.0.1:1/{tag.tenant}"}).Outcome(t.Context(), of); e.Kind != task.OutcomeFatal || !strings.Contains(e.Error, "tag.tenant") {
		t.Errorf("%+v", e)
	}
}

// The vector is in the specification of Standard Webhooks and in its libraries.
func TestSignature(t *testing.T) {
	t.Parallel()
	secret, err := task.ParseTargetSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	h := http.Header{}
	httptarget.Sign(h, [][]byte{secret}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if got := h.Get("webhook-signature"); got != "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=" || h.Get("webhook-timestamp") != "1614265330" {
		t.Errorf("%v", h)
	}
	for _, text := range []string{"", "whsec_", base64.StdEncoding.EncodeToString(secret), "whsec_" + base64.StdEncoding.EncodeToString(secret[:23]), "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65))} {
		if _, err := task.ParseTargetSecret(text); !errors.Is(err, task.ErrInvalid) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
