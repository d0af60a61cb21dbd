package awsfaults_test

import (
	"strings"
	"syscall"
	"testing"

	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/test/harness"
)

// A worker and clients know two servers. The one that they use is killed, or stops answering, while a task
// runs for longer than three missed heartbeats: the task goes on as the same attempt, and its result, a wait
// for it and the next task go through the other server.
func TestAWorkerKeepsItsLeaseThroughAnotherServer(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(*harness.Server){
		"killed": func(s *harness.Server) { s.Crash() },
		"hangs":  func(s *harness.Server) { s.Signal(syscall.SIGSTOP) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failover(t, harm)
		})
	}
}

func failover(t *testing.T, harm func(*harness.Server)) {
	t.Helper()
	s := newSite(t, plan{})
	first, second := s.Servers[0], s.Serve()
	both := []string{"--server", first.URL + "," + second.URL}
	run := func(args ...string) harness.Result { return harness.Run(t, append(args, both...)...) }
	w := first.CommandWorker(append(both, "--lambda", "work", "--lease", "6s", "--", "sh", "-c", `p=$(cat); echo "began $p"; sleep $p`)...)
	long := run("schedule", "work", "--payload", "8").Must(t)
	runtest.Eventually(t, harness.SettleMax, "the task to begin", func() bool { return strings.Contains(w.Stdout(), "began 8") })
	waiting := harness.Start(t, harness.Command{Args: append([]string{"wait", long}, both...)})
	harm(first)
	next := run("schedule", "work", "--payload", "0").Must(t)
	if got, want := waiting.Result(harness.SettleMax).Must(t), long+" success"; got != want {
		t.Errorf("wait printed %q, want %q", got, want)
	}
	run("wait", next, "--timeout", harness.SettleMax.String()).Must(t)
	for _, id := range []string{long, next} {
		if v := second.Get(id); v.State != "success" || len(v.Attempts) != 1 {
			t.Errorf("%s after %d attempts, want success after one", v.State, len(v.Attempts))
		}
	}
	if n := strings.Count(w.Stdout(), "began 8"); n != 1 || !w.Alive() {
		t.Errorf("began %d times, alive: %v\n%s", n, w.Alive(), w.Stderr())
	}
}
