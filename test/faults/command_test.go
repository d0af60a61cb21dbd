package faults_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/harness"
	"github.com/kinesin-io/kinesin/test/job"
)

// commandSlots is how many commands a worker runs at a time.
const commandSlots = 3

// commandWorker runs `kinesin worker` with the fault worker as its command.
func commandWorker(s *harness.Site) *harness.Worker {
	s.T.Helper()
	return s.Servers[0].CommandWorker("--lambda", "work", "--concurrency", strconv.Itoa(commandSlots), "--lease", lease().String(), "--grace", "1s",
		"--", harness.FaultWorker(s.T), "command", "-log", s.History.Path())
}

// `kinesin worker` is killed: the process groups of its commands die with it, at once.
func TestCommandWorkerKilled(t *testing.T) {
	t.Parallel()
	s := newSite(t, queued, admin.Lambda{})
	w := commandWorker(s)
	tasks := s.Schedule(repeat(commandSlots, harness.Wanted{Job: job.Job{Do: job.Ignoring, Millis: lease().Milliseconds() + 1000}})...)
	begun := starts(s, tasks)
	for range commandSlots {
		commandWorker(s)
	}

	gone := w.Crash()
	deaths := groupsGone(s, begun, gone)
	harness.Within(t, "command_worker_killed_groups_gone", longest(deaths), time.Second)
	taken := takenByCommands(s, begun, gone)
	harness.Within(t, "command_worker_killed_taken_over_last", longest(taken), lease()+time.Second+slack)
	s.Finish(tasks)
}

// `kinesin worker` is stopped past its lease: its commands are killed before their tasks start elsewhere.
func TestCommandWorkerStopped(t *testing.T) {
	t.Parallel()
	s := newSite(t, matched, admin.Lambda{})
	w := commandWorker(s)
	tasks := s.Schedule(repeat(commandSlots, harness.Wanted{Job: job.Job{Do: job.Acting, Millis: 2 * lease().Milliseconds()}})...)
	begun := starts(s, tasks)
	for range commandSlots {
		commandWorker(s)
	}

	at := w.Stop()
	deaths := groupsGone(s, begun, at)
	harness.Within(t, "command_worker_stopped_groups_gone", longest(deaths), lease())
	taken := takenByCommands(s, begun, at)
	harness.Within(t, "command_worker_stopped_taken_over_last", longest(taken), lease()+time.Second+slack)
	w.Continue()
	if code := w.Wait(soon); code == 0 {
		t.Error("the woken process ended as if all were well")
	}
	s.Finish(tasks)
}

// `kinesin worker` is asked to end, and its commands do not obey: when the grace is over their groups are
// killed and the tasks start elsewhere.
func TestCommandWorkerTerminated(t *testing.T) {
	t.Parallel()
	s := newSite(t, queued, admin.Lambda{MaxAttempts: 1})
	w := commandWorker(s)
	tasks := s.Schedule(repeat(commandSlots, harness.Wanted{Job: job.Job{Do: job.Ignoring, Millis: 8000}})...)
	begun := starts(s, tasks)
	for range 2 {
		commandWorker(s)
	}

	at := w.Terminate()
	deaths := groupsGone(s, begun, at)
	harness.Within(t, "command_worker_sigterm_groups_gone", longest(deaths), 5*time.Second)
	taken := takenByCommands(s, begun, at)
	harness.Within(t, "command_worker_sigterm_elsewhere_after", longest(taken), 5*time.Second)
	if code := w.Wait(soon); code != 0 {
		t.Errorf("exit status %d after a drain, want 0", code)
	}
	uncharged(s, s.Finish(tasks))
}

// groupsGone waits until the commands are dead, writes that down, and returns how long after the moment each
// was.
func groupsGone(s *harness.Site, begun []checker.Event, since time.Time) []time.Duration {
	s.T.Helper()
	var all []time.Duration
	for _, e := range begun {
		deadline := time.Now().Add(harness.SettleMax)
		for harness.Runs(e.PID) {
			if time.Now().After(deadline) {
				s.T.Fatalf("command %d runs on", e.PID)
			}
			time.Sleep(time.Millisecond)
		}
		now := time.Now()
		s.History.Add(checker.Event{Kind: checker.Died, At: now.UnixMicro(), PID: e.PID})
		all = append(all, now.Sub(since))
	}
	return all
}

// takenByCommands is takenOver for commands, each of which is a process of its own.
func takenByCommands(s *harness.Site, begun []checker.Event, since time.Time) []time.Duration {
	s.T.Helper()
	var all []time.Duration
	for _, e := range begun {
		all = append(all, takenOver(s, []checker.Event{e}, e.PID, since)...)
	}
	return all
}
