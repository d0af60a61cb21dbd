package faults_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/harness"
)

// receiver is what a lambda's target leads to. It notes the attempts that it is called for.
type receiver struct {
	addr string
	hang func(call int) bool // whether a call gets no answer

	mu       sync.Mutex
	calls    int
	hanging  map[string]int   // the attempt of each task whose call hangs
	attempts map[string][]int // of each task, in the order of calls
	http     *http.Server
}

func newReceiver(t *testing.T, hang func(call int) bool) *receiver {
	t.Helper()
	r := &receiver{addr: harness.FreeAddr(t), hang: hang, hanging: map[string]int{}, attempts: map[string][]int{}}
	r.listen(t)
	t.Cleanup(r.kill)
	return r
}

func (r *receiver) listen(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	r.http = &http.Server{Handler: r}
	go func() { _ = r.http.Serve(l) }()
}

// kill ends the receiver with its calls.
func (r *receiver) kill() { _ = r.http.Close() }

// ServeHTTP takes a call.
func (r *receiver) ServeHTTP(_ http.ResponseWriter, q *http.Request) {
	_, _ = io.Copy(io.Discard, q.Body)
	id := q.Header.Get("kinesin-task")
	attempt, _ := strconv.Atoi(q.Header.Get("kinesin-attempt"))
	r.mu.Lock()
	r.calls++
	hangs := r.hang(r.calls)
	r.attempts[id] = append(r.attempts[id], attempt)
	if hangs {
		r.hanging[id] = attempt
	}
	r.mu.Unlock()
	if hangs {
		<-q.Context().Done()
	}
}

func (r *receiver) hung() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.hanging)
}

// rises reports attempts of a task that did not rise.
func (r *receiver) rises(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for id, all := range r.attempts {
		for i := 1; i < len(all); i++ {
			if all[i] <= all[i-1] {
				t.Errorf("%s was called for attempts %v", id, all)
			}
		}
	}
}

// targetSite is a server with a lambda whose target is the receiver.
func targetSite(t *testing.T, r *receiver, l admin.Lambda) *harness.Site {
	t.Helper()
	l.Target = &admin.Target{URL: "http://" + r.addr + "/{key}", Slots: 30}
	return newSiteOf(t, harness.ServerOptions{LeasesOnly: true, Args: []string{"--targets-allow", "127.0.0.0/8"}}, l)
}

func scheduleForTarget(t *testing.T, s *harness.Site, n int) (ids []sdk.ID) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), harness.SettleMax)
	defer cancel()
	items := make([]sdk.Item, n)
	for i := range items {
		items[i] = sdk.Item{Lambda: "work", Payload: []byte("x"), Key: strconv.Itoa(i)}
	}
	results, err := s.ScheduleMany(ctx, items)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range results {
		ids = append(ids, one.ID)
	}
	return ids
}

func wantSuccess(t *testing.T, infos []sdk.TaskInfo) {
	t.Helper()
	for i := range infos {
		if infos[i].State != sdk.StateSuccess {
			t.Errorf("%s is %s", infos[i].ID, infos[i].State)
		}
	}
}

// The server is killed while it calls a target: what was under way is called again, for a later attempt.
func TestServerKilledWhileItCallsATarget(t *testing.T) {
	t.Parallel()
	const held = 8 // less than a host gets at first
	r := newReceiver(t, func(call int) bool { return call <= held })
	s := targetSite(t, r, admin.Lambda{})
	ids := scheduleForTarget(t, s, 200)
	runtest.Eventually(t, soon, "calls to hang", func() bool { return r.hung() == held })
	s.Servers[0].Crash()
	s.Servers[0].Start()
	wantSuccess(t, s.Settle(harness.SettleMax, ids))
	r.rises(t)
	for id, attempt := range r.hanging {
		if all := r.attempts[id]; all[len(all)-1] <= attempt {
			t.Errorf("%s was not called again: %v", id, all)
		}
	}
}

// The receiver is killed with calls under way, is away, and comes back.
func TestReceiverKilled(t *testing.T) {
	t.Parallel()
	const held = 10
	r := newReceiver(t, func(call int) bool { return call <= held })
	s := targetSite(t, r, admin.Lambda{MaxAttempts: 1000})
	ids := scheduleForTarget(t, s, 100)
	runtest.Eventually(t, soon, "calls to hang", func() bool { return r.hung() == held })
	r.kill()
	runtest.Eventually(t, soon, "attempts without an answer", func() bool {
		got, err := s.Get(t.Context(), ids[0])
		return err == nil && got.Failures > 1
	})
	r.listen(t)
	wantSuccess(t, s.Settle(harness.SettleMax, ids))
	r.rises(t)
}

// The receiver takes connections and says nothing, as behind a network that drops packets: the timeout of the
// attempt ends a call, and the next one succeeds.
func TestReceiverThatSaysNothing(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, func(call int) bool { return call%3 == 0 })
	s := targetSite(t, r, admin.Lambda{Timeout: 300 * time.Millisecond, MaxAttempts: 1000})
	wantSuccess(t, s.Settle(harness.SettleMax, scheduleForTarget(t, s, 30)))
	r.rises(t)
}
