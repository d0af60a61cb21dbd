package crash_test

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// What the load is.
const (
	killsDefault  = 3
	upAtLeast     = 300 * time.Millisecond
	upAtMost      = 1500 * time.Millisecond
	settleMax     = 90 * time.Second
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
	if testing.Short() {
		t.Skip("runs real processes")
	}
	kills := killsDefault
	if n, err := strconv.Atoi(os.Getenv("KINESIN_CRASH_KILLS")); err == nil {
		kills = n
	}
	h := harness.NewHistory(t)
	s := harness.StartServer(t, harness.ServerOptions{History: h})
	c := harness.NewClient(t, s, h, sdk.LambdaInfo{Name: "crash", BackoffMin: 50 * time.Millisecond, BackoffMax: time.Second}, sdk.WithTries(100))
	for range 2 {
		harness.StartWorker(t, harness.WorkerOptions{Server: s, Lambda: "crash", Slots: 20, Lease: 15 * time.Second, History: h})
	}
	l := harness.StartLoad(t, c, harness.LoadOptions{CallEvery: 20 * time.Millisecond, TasksPerCallMax: 9}) // 250 tasks/s
	restarts := killLoop(t, s, h, kills)
	acked := l.Stop()
	infos := c.Settle(settleMax, acked)
	h.Check(bounds)
	report(t, h, kills, restarts, infos)
}

// restart is what one kill led to.
type restart struct{ ready, firstStart time.Duration }

func killLoop(t *testing.T, s *harness.Server, h *harness.History, kills int) []restart {
	t.Helper()
	var all []restart
	for i := range kills {
		time.Sleep(upAtLeast + rand.N(upAtMost-upAtLeast))
		s.Crash()
		s.SetQueued(i%2 == 0)
		seen := len(h.Events())
		begun := time.Now()
		s.Start()
		ready := time.Since(begun)
		all = append(all, restart{ready, firstStart(t, h, seen, begun)})
	}
	return all
}

// firstStart waits for the first start of a task after a restart and returns how long after the launch it
// was.
func firstStart(t *testing.T, h *harness.History, seen int, begun time.Time) time.Duration {
	t.Helper()
	earliest := begun.Add(heldMax).UnixMicro()
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) {
		events := h.Events()
		for _, e := range events[seen:] {
			if e.Kind == checker.Started && e.At > earliest {
				return time.Duration(e.At-begun.UnixMicro()) * time.Microsecond
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatal("no task started within 30 s of a restart")
	return 0
}

func report(t *testing.T, h *harness.History, kills int, restarts []restart, infos []sdk.TaskInfo) {
	t.Helper()
	s := checker.Summarize(h.Events())
	harness.Figure(t, "crash_kills", kills)
	harness.Figure(t, "crash_acked", s.Acked)
	harness.Figure(t, "crash_started", s.Started)
	harness.Figure(t, "crash_repeated", s.Repeated)
	if s.ServerKills != kills || s.Acked < 100*kills || s.Reported != s.Acked {
		t.Errorf("the run tested too little: %+v", s)
	}
	var ready, first []time.Duration
	for _, r := range restarts {
		ready, first = append(ready, r.ready), append(first, r.firstStart)
	}
	slices.Sort(ready)
	slices.Sort(first)
	harness.Figure(t, "crash_ready_p50", ready[len(ready)/2])
	harness.Figure(t, "crash_ready_max", ready[len(ready)-1])
	harness.Figure(t, "crash_first_start_p50", first[len(first)/2])
	harness.Figure(t, "crash_first_start_max", first[len(first)-1])
	lateness(t, infos)
	if worst := first[len(first)-1]; worst > 10*firstStartMax {
		t.Errorf("the first start came %v after a restart", worst)
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
	slices.Sort(late)
	harness.Figure(t, "crash_lateness_p50", late[len(late)/2])
	harness.Figure(t, "crash_lateness_p99", late[len(late)*99/100])
	harness.Figure(t, "crash_lateness_max", late[len(late)-1])
	over, _ := slices.BinarySearch(late, 5*time.Second)
	harness.Figure(t, "crash_later_than_5s", len(late)-over)
}
