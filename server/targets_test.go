package server

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/api"
	"github.com/kinesin-io/kinesin/api/kinesinv1"
	"github.com/kinesin-io/kinesin/api/kinesinv1/kinesinv1connect"
)

var loopback = []string{"127.0.0.0/8"}

func (r *running) lambdas() kinesinv1connect.LambdaServiceClient {
	return kinesinv1connect.NewLambdaServiceClient(r.http, r.url, api.ClientOptions()...)
}

// target gives a lambda a target, and creates it if it is not there.
func (r *running) target(name, url string, slots uint32) {
	r.t.Helper()
	l := &kinesinv1.Lambda{Name: name, BackoffMin: 1000, BackoffMax: 2000, Target: &kinesinv1.Target{Url: url, Slots: slots}}
	_, err := r.lambdas().CreateLambda(r.t.Context(), &kinesinv1.CreateLambdaRequest{Lambda: l})
	if errors.Is(api.FromWire(err), api.ErrExists) {
		l.BackoffMin, l.BackoffMax = 0, 0
		_, err = r.lambdas().UpdateLambda(r.t.Context(), &kinesinv1.UpdateLambdaRequest{Lambda: l, Fields: []string{"target"}})
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// task returns a task as it is now.
func (r *running) task(id string) *kinesinv1.Task {
	r.t.Helper()
	got, err := r.tasks().Get(r.t.Context(), &kinesinv1.GetRequest{Ids: []string{id}})
	if err != nil || got.Results[0].Task == nil {
		r.t.Fatal(got, err)
	}
	return got.Results[0].Task
}

// ends waits until a task is in a state.
func (r *running) ends(id, state string) *kinesinv1.Task {
	r.t.Helper()
	r.until(state, func() bool { return r.task(id).GetState() == state })
	return r.task(id)
}

// now schedules tasks of a lambda that are due, and returns their ids.
func (r *running) now(lambda string, payloads ...string) (ids []string) {
	r.t.Helper()
	for _, p := range payloads {
		i := item(lambda, 0)
		i.Payload = []byte(p)
		ids = append(ids, r.schedule(i)...)
	}
	return ids
}

func receiver(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	return srv
}

func TestTheServerCallsTargets(t *testing.T) {
	t.Parallel()
	to := receiver(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		switch {
		case r.URL.Path == "/new":
			_, _ = io.WriteString(w, "new")
		case string(body) == "bad":
			http.Error(w, "no such user", http.StatusGone)
		case string(body) == "flaky" && r.Header.Get("kinesin-attempt") == "1":
			w.WriteHeader(http.StatusServiceUnavailable)
		case string(body) == "later" && r.Header.Get("kinesin-attempt") == "1":
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusTooManyRequests)
		default:
			_, _ = io.WriteString(w, `{"n":1}`)
		}
	})
	r := serve(t, Config{TargetsAllow: loopback})
	r.target("mail", to.URL+"/", 0)
	ids := r.now("mail", "ok", "bad", "flaky", "later")
	for i, want := range []string{"success", "fatal_failure", "success", "success"} {
		got := r.ends(ids[i], want)
		if n, last := len(got.Attempts), got.Attempts[0]; i == 0 && string(got.Result) != `{"n":1}` || i == 1 && !strings.Contains(last.Error, "410 Gone: no such user") ||
			i == 2 && (n != 2 || last.Outcome != "retriable_failure" || got.Failures != 1) || i == 3 && (n != 2 || last.Outcome != "snoozed" || got.Failures != 0) {
			t.Errorf("%v", got)
		}
		if worker := got.Attempts[0].Worker; worker == "" {
			t.Errorf("%v", got)
		}
	}
	r.wantMetric(`kinesin_target_calls_total{class="2xx",lambda="mail"}`, "3")
	r.wantMetric(`kinesin_target_calls_total{class="4xx",lambda="mail"}`, "2")
	r.wantMetric(`kinesin_target_attempts_open`, "0")

	r.target("mail", to.URL+"/new", 0) // is in force at once, as the same worker goes on
	if got := r.ends(r.now("mail", "ok")[0], "success"); string(got.Result) != "new" {
		t.Errorf("%v", got)
	}
	r.target("mail", to.URL+"/new", 3) // another worker
	r.ends(r.now("mail", "ok")[0], "success")
	if _, err := r.lambdas().UpdateLambda(t.Context(), &kinesinv1.UpdateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "mail"}, Fields: []string{"target"}}); err != nil {
		t.Fatal(err)
	}
	r.until("no worker", func() bool {
		got, err := r.lambdas().GetLambda(t.Context(), &kinesinv1.GetLambdaRequest{Name: "mail", Live: true})
		return err == nil && got.Lambda.Live.GetWorkers() == 0
	})
	id := r.now("mail", "by hand")[0]
	if got := r.runOne(); string(got.Payload) != "by hand" || got.Id != id {
		t.Error(got)
	}
}

func TestPrivateAddressesAreNotCalled(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	to := receiver(t, func(http.ResponseWriter, *http.Request) { calls.Add(1) })
	r := serve(t, Config{TargetsAllow: []string{"10.0.0.0/8"}})
	_, err := r.lambdas().CreateLambda(t.Context(), &kinesinv1.CreateLambdaRequest{Lambda: &kinesinv1.Lambda{Name: "mail", Target: &kinesinv1.Target{Url: to.URL}}})
	if err == nil || !strings.Contains(err.Error(), "target "+to.Listener.Addr().String()+": the address of the host is not public, or its port is below 1024 and neither 80 nor 443, and the server does not allow it (serve --targets-allow)") {
		t.Errorf("created with an address that is refused: %v", err)
	}
	r.target("mail", strings.Replace(to.URL, "127.0.0.1", "localhost", 1), 0) // whose address is known when it is called
	if got := r.ends(r.now("mail", "x")[0], "fatal_failure"); !strings.Contains(got.Attempts[0].Error, "--targets-allow") || calls.Load() != 0 {
		t.Errorf("%v", got)
	}
}

// A server that does not call targets does not know which ones those that do may call.
func TestAServerWithoutTheRoleTakesAnyTarget(t *testing.T) {
	t.Parallel()
	r := serve(t, Config{Roles: []string{"inbound", "scheduler", "hsc"}})
	r.target("mail", "http://10.1.2.3/", 0)
	r.target("pay", account+"pay", 0)
}

// A lambda whose receiver hangs holds up no other, and its attempts end by their timeout.
func TestAHangingReceiverDelaysNoOther(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var hanging int
	dead := receiver(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		mu.Lock()
		hanging++
		mu.Unlock()
		<-r.Context().Done()
	})
	fine := receiver(t, func(http.ResponseWriter, *http.Request) {})
	r := serve(t, Config{TargetsAllow: loopback})
	r.target("dead", dead.URL, 5)
	r.target("fine", fine.URL, 5)
	r.now("dead", strings.Split(strings.Repeat("x ", 50), " ")...)
	r.until("all slots hang", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return hanging == 5
	})
	for _, id := range r.now("fine", "1", "2", "3") {
		r.ends(id, "success")
	}
	timed := item("dead2", 0)
	r.target("dead2", dead.URL, 5)
	timed.Timeout, timed.MaxAttempts = 200_000, 1
	if got := r.ends(r.schedule(timed)[0], "dead"); !strings.Contains(got.Attempts[0].Error, "timed out after 200ms") {
		t.Errorf("%v", got)
	}
	began := time.Now()
	if err := r.stop(); err != nil || time.Since(began) > DrainMaxDefault+8*time.Second {
		t.Errorf("the server stopped after %v: %v", time.Since(began), err)
	}
}

// More lambdas than a worker serves.
func TestManyTargets(t *testing.T) {
	t.Parallel()
	to := receiver(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Header.Get("kinesin-lambda")) })
	r := serve(t, Config{TargetsAllow: loopback})
	var ids []string
	for i := range 70 {
		name := "l" + strconv.Itoa(i)
		r.target(name, to.URL, 1000)
		ids = append(ids, r.now(name, "x")...)
	}
	for i, id := range ids {
		if got := r.ends(id, "success"); string(got.Result) != "l"+strconv.Itoa(i) {
			t.Errorf("%v", got)
		}
	}
}

func TestTargetsConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config Config
		says   string
	}{
		{Config{Roles: []string{"inbound", "targets"}}, "role targets without role hsc"},
		{Config{TargetsAllow: []string{"10.0.0.1"}}, "want a range such as"},
		{Config{TargetsAllow: []string{"10.0.0.1/8"}}, "an address within 10.0.0.0/8: want the range"},
	} {
		if err := c.config.Validate(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v", c.config.Roles, err)
		}
	}
}
