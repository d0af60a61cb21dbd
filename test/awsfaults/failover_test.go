package awsfaults_test

import (
	"strings"
	"testing"

	"github.com/kinesin-io/kinesin/test/harness"
)

// A worker and a client know two servers. The one that they use is killed while a task runs for longer than
// three missed heartbeats: the task goes on as the same attempt, and its result and the next task go through
// the other server.
func TestAWorkerKeepsItsLeaseThroughAnotherServer(t *testing.T) {
	t.Parallel()
	s := newSite(t, plan{})
	first, second := s.Servers[0], s.Serve()
	both := first.URL + "," + second.URL
	run := func(args ...string) harness.Result {
		return harness.Run(t, append(args, "--server", both)...)
	}
	w := first.CommandWorker("--server", both, "--lambda", "work", "--lease", "6s", "--", "sh", "-c", `p=$(cat); echo "began $p"; sleep $p`)
	long := run("schedule", "work", "--payload", "6").Must(t)
	harness.Eventually(t, harness.SettleMax, "the task to begin", func() bool { return strings.Contains(w.Stdout(), "began 6") })
	first.Crash()
	if got := run("get", long).Must(t); !strings.Contains(got, "claimed") && !strings.Contains(got, "processing") {
		t.Errorf("get after the kill printed %q", got)
	}
	next := run("schedule", "work", "--payload", "0").Must(t)
	for _, id := range []string{long, next} {
		run("wait", id, "--timeout", harness.SettleMax.String()).Must(t)
		if v := second.Get(id); v.State != "success" || len(v.Attempts) != 1 {
			t.Errorf("%s after %d attempts, want success after one", v.State, len(v.Attempts))
		}
	}
	if n := strings.Count(w.Stdout(), "began 6"); n != 1 || !w.Alive() {
		t.Errorf("began %d times, alive: %v\n%s", n, w.Alive(), w.Stderr())
	}
}
