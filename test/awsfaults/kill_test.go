package awsfaults_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/harness"
)

// up is how long a server lives between two kills, on average.
const up = 1500 * time.Millisecond

// Each role has a process of its own, and each of them is killed in turn, workers included.
func TestEachRoleKilled(t *testing.T) {
	t.Parallel()
	s := newSite(t, plan{roles: []string{"inbound", "scheduler,dispatcher", "hsc"}})
	for range 2 {
		s.Supervise(harness.WorkerOptions{Server: s.Servers[2], Lease: harness.LeaseMin})
	}
	victim := s.Supervise(harness.WorkerOptions{Server: s.Servers[2], Lease: harness.LeaseMin})
	l := load(s.Client)
	time.Sleep(up)
	kills := harness.Either(10, 1)
	for range kills {
		for i, name := range []string{"inbound", "scheduler", "hsc"} {
			killed(s, "roles_"+name, s.Servers[i])
		}
		victim.Kill()
		time.Sleep(up)
	}
	finish(s, "roles", l.Stop())
	if s := checker.Summarize(s.History.Events()); s.ServerKills != 3*kills || s.Deaths < kills || s.Acked < 50*kills {
		t.Errorf("the run tested too little: %+v", s)
	}
}

// killed kills a server, lets it be gone for a moment, and waits for work to go on.
func killed(s *harness.Site, name string, server *harness.Server) {
	s.T.Helper()
	server.Crash()
	time.Sleep(rand.N(up / 2))
	began := time.Now()
	server.Start()
	harness.Figure(s.T, name+"_ready_after", time.Since(began))
	harness.Figure(s.T, name+"_next_start_after", s.History.NextStart(began))
	time.Sleep(up/2 + rand.N(up))
}

// Two servers with all roles share the partitions. One is killed and stays away for longer than its lease as
// a member: the other fires all of them. Then it comes back, and the other one is killed.
func TestServersOfAFleetKilled(t *testing.T) {
	t.Parallel()
	s := newSite(t, plan{})
	s.Serve()
	var loads []*harness.Load
	for _, server := range s.Servers {
		s.Worker(harness.WorkerOptions{Server: server, Lease: 30 * time.Second})
		loads = append(loads, load(s.At(server)))
	}
	time.Sleep(up)
	for range harness.Either(5, 1) {
		for _, server := range s.Servers {
			server.Crash()
			time.Sleep(harness.Either(12*time.Second, 8*time.Second))
			server.Start()
			time.Sleep(up)
		}
	}
	finish(s, "fleet", slices.Concat(loads[0].Stop(), loads[1].Stop()))
}

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
