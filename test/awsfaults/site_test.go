package awsfaults_test

import (
	"cmp"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// bounds: on a busy machine a result takes its time to be acknowledged, and a claim is some requests old when
// it starts. Three missed beats of a lease of 15 s are 11 s.
var bounds = checker.Options{Settle: time.Second, Ahead: time.Second, Lease: 11 * time.Second}

// patient is a lease that outlasts whatever happens here. A claim that was lost with its server is only known
// by the heartbeat that does not name it: every 15 s.
const patient = time.Minute

// away is how long an emulator is gone.
func away() time.Duration { return harness.Either(20*time.Second, 8*time.Second) }

// plan says what a site is made of.
type plan struct {
	at     awslocal.Endpoints // those that are empty are shared
	roles  []string           // of one server each; empty: one server with all
	server harness.ServerOptions
	policy admin.Lambda
	ofKey  int // how many tasks of a limit key may run at once
	atOnce int // and how many of all; 0: any number
}

// newSite has servers over tables and queues of its own.
func newSite(t *testing.T, p plan) *harness.Site {
	t.Helper()
	judged := bounds
	judged.OfKey, judged.AtOnce = p.ofKey, p.atOnce
	s := harness.New(t, harness.Options{
		AWS: &p.at, Server: p.server, Client: []sdk.ClientOption{sdk.WithTries(1000)}, Bounds: judged,
	})
	s.AWS.Setup(t).Must(t)
	for _, these := range p.roles {
		s.Serve("--roles", these)
	}
	if len(p.roles) == 0 {
		s.Serve()
	}
	s.Lambda(p.policy)
	return s
}

// finish waits until all tasks have ended, judges the history and prints its figures.
func finish(s *harness.Site, name string, acked []sdk.ID) {
	s.T.Helper()
	began := time.Now()
	infos := s.Finish(acked)
	harness.Figure(s.T, name+"_settled_after", time.Since(began))
	harness.Figure(s.T, name+"_acked", checker.Summarize(s.History.Events()).Acked)
	harness.Figure(s.T, name+"_repeated", s.History.Repeated())
	lost := 0
	var late []time.Duration
	for i := range infos {
		if !infos[i].State.IsEnd() {
			lost++
		}
		if !infos[i].Started.IsZero() {
			late = append(late, infos[i].Lateness())
		}
	}
	harness.Figure(s.T, name+"_lost", lost)
	latest(s.T, infos)
	harness.Quantiles(s.T, name+"_late", late)
}

// latest shows the task that started last after it was due, if that was late.
func latest(tb testing.TB, infos []sdk.TaskInfo) {
	tb.Helper()
	const late = 20 * time.Second
	if len(infos) == 0 {
		return
	}
	worst := slices.MaxFunc(infos, func(a, b sdk.TaskInfo) int { return cmp.Compare(a.Lateness(), b.Lateness()) })
	if worst.Lateness() > late {
		tb.Logf("latest by far: %+v", worst)
	}
}

// load is what all tests but those of buffers and deliver lambdas run under.
func load(c *harness.Client) *harness.Load {
	return c.Load(harness.LoadOptions{CallEvery: harness.Either(100*time.Millisecond, 300*time.Millisecond)})
}

// pair starts two workers.
func pair(s *harness.Site, o harness.WorkerOptions) []*harness.Worker {
	s.T.Helper()
	return []*harness.Worker{s.Worker(o), s.Worker(o)}
}

// alive wants all worker processes to be there still.
func alive(s *harness.Site, workers ...*harness.Worker) {
	s.T.Helper()
	for i, w := range workers {
		if !w.Alive() {
			s.T.Errorf("worker %d has ended", i)
		}
	}
}
