package awsfaults_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/harness"
	"github.com/kinesin-io/kinesin/test/job"
)

// heardMax is how long after a report at another server the caller may hold the slot of the attempt.
const heardMax = 10 * time.Second

// The receiver of a call answers 202 and reports at another server than the one that called. The caller hears of it. When
// it is killed meanwhile, the report is recorded as long as nobody has called again, and refused after that.
func TestReportsAtAnotherServer(t *testing.T) {
	t.Parallel()
	tokens := make(chan string, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusAccepted)
		tokens <- r.Header.Get("kinesin-callback-token")
	}))
	defer receiver.Close()
	const without = "inbound,scheduler,dispatcher,hsc"
	s := newSite(t, plan{
		roles: []string{without + ",targets", without}, server: harness.ServerOptions{Args: []string{"--targets-allow", "127.0.0.0/8"}},
		policy: admin.Lambda{Target: &admin.Target{URL: receiver.URL, Slots: 1}},
	})
	caller, other := s.Servers[0], s.Servers[1]
	at := s.At(other)
	called := func() string {
		t.Helper()
		select {
		case token := <-tokens:
			return token
		case <-time.After(harness.SettleMax):
			t.Fatal("the receiver was not called")
			return ""
		}
	}
	report := func(token string, want int) {
		t.Helper()
		response, err := http.Post(other.URL+"/v1/attempts/"+token, "application/json", strings.NewReader(`{"outcome":"success"}`))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if text, _ := io.ReadAll(response.Body); response.StatusCode != want {
			t.Errorf("a report is answered %d: %s, want %d", response.StatusCode, text, want)
		}
	}
	wantSuccess := func(id sdk.ID, attempts int) {
		t.Helper()
		if got, err := at.Get(t.Context(), id); err != nil || got.State != sdk.StateSuccess || got.Attempt != attempts {
			t.Errorf("%s is %s with attempt %d, want success with attempt %d (%v)", id, got.State, got.Attempt, attempts, err)
		}
	}

	first := at.One(job.Job{})
	token := called()
	second := at.One(job.Job{}) // waits for the slot of the first
	began := time.Now()
	report(token, http.StatusOK)
	wantSuccess(first, 1)
	token = called()
	harness.Within(t, "report_elsewhere_heard_after", time.Since(began), heardMax)

	caller.Crash()
	report(token, http.StatusOK)
	wantSuccess(second, 1)
	caller.Start()

	third := at.One(job.Job{})
	token = called()
	caller.Crash()
	caller.Start()
	again := called()
	report(token, http.StatusConflict)
	report(again, http.StatusOK)
	wantSuccess(third, 2)
}
