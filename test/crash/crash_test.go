package crash_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// The size of the load.
const (
	killsDefault  = 3
	upAtLeast     = 300 * time.Millisecond
	upAtMost      = 1500 * time.Millisecond
	firstStartMax = time.Second

	// A worker may start what it held when the server died; that is no start after the restart.
	heldMax = 25 * time.Millisecond
)

// bounds: on a busy machine a result takes its time to be acknowledged.
var bounds = checker.Options{Settle: 500 * time.Millisecond, Ahead: 250 * time.Millisecond}

// TestKilledServerLosesNothing runs KINESIN_CRASH_KILLS rounds; the seed of its load is in its output. Each
// other process of the server sends all tasks through their queues, so that each way goes on with what the
// other left behind, unless harness.MatchEnv is set.
func TestKilledServerLosesNothing(t *testing.T) {
	kills := killsWanted()
	s := harness.New(t, harness.Options{Client: []sdk.ClientOption{sdk.WithTries(100)}, Bounds: bounds})
	s.Serve()
	s.Lambda(admin.Lambda{})
	for range 2 {
		s.Worker(harness.WorkerOptions{Lease: 15 * time.Second})
	}
	l := s.Load(harness.LoadOptions{CallEvery: 20 * time.Millisecond, TasksPerCallMax: 9}) // 250 tasks/s
	ready, first := killLoop(s, kills)
	infos := s.Finish(l.Stop())
	report(t, checker.Summarize(s.History.Events()), kills)
	harness.Quantiles(t, "crash_ready", ready)
	if worst := harness.Quantiles(t, "crash_first_start", first); worst > 10*firstStartMax {
		t.Errorf("the first start came %v after a restart", worst)
	}
	lateness(t, infos)
}

func killsWanted() int {
	if n, err := strconv.Atoi(os.Getenv("KINESIN_CRASH_KILLS")); err == nil {
		return n
	}
	return killsDefault
}

// killLoop returns how long after each launch the server was ready, and the first task started.
func killLoop(s *harness.Site, kills int) (ready, first []time.Duration) {
	server := s.Servers[0]
	for i := range kills {
		time.Sleep(upAtLeast + rand.N(upAtMost-upAtLeast))
		server.Crash()
		server.SetQueued(i%2 == 0)
		begun := time.Now()
		server.Start()
		ready = append(ready, time.Since(begun))
		first = append(first, heldMax+s.History.NextStart(begun.Add(heldMax)))
	}
	return ready, first
}

func report(t *testing.T, s checker.Summary, kills int) {
	t.Helper()
	harness.Figure(t, "crash_kills", kills)
	harness.Figure(t, "crash_acked", s.Acked)
	harness.Figure(t, "crash_started", s.Started)
	harness.Figure(t, "crash_repeated", s.Repeated)
	if s.ServerKills != kills || s.Acked < 100*kills || s.Reported != s.Acked {
		t.Errorf("the run tested too little: %+v", s)
	}
}

func lateness(t *testing.T, infos []sdk.TaskInfo) {
	t.Helper()
	var late []time.Duration
	for i := range infos {
		if !infos[i].Started.IsZero() {
			late = append(late, infos[i].Lateness())
		}
	}
	harness.Quantiles(t, "crash_lateness", late)
	over, _ := slices.BinarySearch(late, 5*time.Second)
	harness.Figure(t, "crash_later_than_5s", len(late)-over)
}
