package faults_test

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/harness"
	"github.com/kinesin-io/kinesin/test/job"
)

// A worker process is killed while it runs tasks that are longer than its lease: they start elsewhere within
// the lease and a second, and nothing else is repeated.
func TestWorkerKilled(t *testing.T) {
	each(t, workerKilled, harness.Workers, harness.URL, harness.Function)
}

func workerKilled(t *testing.T, by harness.Runner) {
	t.Helper()
	s := newSiteBy(t, by, matched, admin.Lambda{})
	const slots = 10
	lost := s.Worker(harness.WorkerOptions{Slots: slots, Lease: lease()})
	warm(s)
	// Tasks that outlive the lease, in the process that will be lost, and then some in the others.
	tasks := s.Schedule(repeat(slots, harness.Wanted{Job: job.Job{Millis: (lease() + time.Second).Milliseconds()}})...)
	begun := starts(s, tasks)
	for range 2 {
		s.Worker(harness.WorkerOptions{Slots: slots, Lease: lease()})
	}
	others := s.Schedule(repeat(slots, harness.Wanted{Job: job.Job{Millis: 1000}})...)
	starts(s, others)

	gone := lost.Crash()
	taken := takenOver(s, begun, lost.PID(), gone)
	if len(taken) != slots {
		t.Errorf("%d tasks ran in the lost process, want %d", len(taken), slots)
	}
	harness.Figure(t, figureOf(by, "worker_killed_lease"), lease())
	harness.Figure(t, figureOf(by, "worker_killed_taken_over_first"), min(taken[0], longest(taken)))
	harness.Within(t, figureOf(by, "worker_killed_taken_over_last"), longest(taken), lease()+time.Second+slack)
	charged := 0
	if by.IsTarget() {
		charged = 1 // a call without an answer is a failure
	}
	for _, info := range s.Finish(append(tasks, others...)) {
		if info.Failures > charged {
			t.Errorf("task %s is charged with %d failures", info.ID, info.Failures)
		}
	}
}

// A worker process is stopped past its lease and goes on: its tasks are taken over, its handlers are ended
// before they do anything more, and what it reports late changes nothing.
func TestWorkerStoppedAndContinued(t *testing.T) {
	t.Parallel()
	s := newSite(t, queued, admin.Lambda{})
	const slots = 8
	stopped := s.Worker(harness.WorkerOptions{Slots: slots, Lease: lease()})
	warm(s)
	tasks := s.Schedule(append(
		repeat(slots/2, harness.Wanted{Job: job.Job{Do: job.Acting, Millis: 2 * lease().Milliseconds()}}),
		// These are ready to report success the moment they go on.
		repeat(slots/2, harness.Wanted{Job: job.Job{Do: job.Ignoring, Millis: 1500}})...)...)
	begun := starts(s, tasks)
	for range 2 {
		s.Worker(harness.WorkerOptions{Slots: slots, Lease: lease()})
	}

	at := stopped.Stop()
	taken := takenOver(s, begun, stopped.PID(), at)
	if len(taken) != slots {
		t.Errorf("%d tasks ran in the stopped process, want %d", len(taken), slots)
	}
	harness.Figure(t, "worker_stopped_lease", lease())
	harness.Within(t, "worker_stopped_taken_over_last", longest(taken), lease()+time.Second+slack)

	woken := stopped.Continue()
	var ended []time.Duration
	for _, task := range tasks[:slots/2] {
		end := s.History.EndOf(task, 1, soon)
		if end.Outcome != checker.Obeyed {
			t.Errorf("the woken handler of %s ended as %q, want its context to end", task, end.Outcome)
		}
		ended = append(ended, time.Duration(end.At-woken.UnixMicro())*time.Microsecond)
	}
	harness.Within(t, "worker_woken_handlers_ended", longest(ended), bounds.Wake)
	if code := stopped.Wait(soon); code == 0 {
		t.Error("the woken process ended as if all were well")
	}
	s.Finish(tasks)
	harness.Figure(t, "worker_woken_effects_after_takeover", effectsAfterTakeover(s, stopped.PID()))
}

// effectsAfterTakeover counts what the process did once it had gone on.
func effectsAfterTakeover(s *harness.Site, pid int) int {
	var continued int64
	return s.History.Count(func(e checker.Event) bool {
		if e.Kind == checker.Continued && e.PID == pid {
			continued = e.At
		}
		return e.Kind == checker.Effect && e.PID == pid && continued != 0 && e.At >= continued
	})
}

// A worker process that is asked to end gives its tasks back when its grace is over. Handlers that obey lose
// no time and no attempt.
func TestWorkerTerminatedObeying(t *testing.T) {
	t.Parallel()
	s := newSite(t, matched, admin.Lambda{MaxAttempts: 1})
	const slots = 5
	ending := s.Worker(harness.WorkerOptions{Slots: slots, Lease: lease(), Grace: time.Second})
	warm(s)
	tasks := s.Schedule(repeat(slots, harness.Wanted{Job: job.Job{Millis: 4000}})...)
	begun := starts(s, tasks)
	s.Worker(harness.WorkerOptions{Slots: 2 * slots, Lease: lease()})
	other := s.One(job.Job{}) // the other one works

	s.Settle(soon, []sdk.ID{other})
	at := ending.Terminate()
	taken := takenOver(s, begun, ending.PID(), at)
	harness.Within(t, "sigterm_obeying_code_0_after", ending.EndedAt(soon).Sub(at), time.Second+slack)
	if code := ending.Wait(soon); code != 0 {
		t.Errorf("exit status %d after a drain, want 0", code)
	}
	// The bar counts from the end of the grace.
	harness.Within(t, "sigterm_obeying_elsewhere_after_grace", longest(taken)-time.Second, time.Second)
	uncharged(s, s.Finish(tasks))
}

// Handlers that do not obey are left behind: their tasks are given back at the deadline and the process ends.
func TestWorkerTerminatedIgnoring(t *testing.T) {
	t.Parallel()
	s := newSite(t, queued, admin.Lambda{MaxAttempts: 1})
	const slots = 3
	ending := s.Worker(harness.WorkerOptions{Slots: slots, Lease: lease(), Grace: time.Second})
	warm(s)
	tasks := s.Schedule(repeat(slots, harness.Wanted{Job: job.Job{Do: job.Ignoring, Millis: 15_000}})...)
	begun := starts(s, tasks)
	s.Worker(harness.WorkerOptions{Slots: 2 * slots, Lease: lease()})

	at := ending.Terminate()
	taken := takenOver(s, begun, ending.PID(), at)
	harness.Figure(t, "sigterm_ignoring_process_gone_after", ending.EndedAt(soon).Sub(at))
	harness.Figure(t, "sigterm_ignoring_elsewhere_after", longest(taken))
	uncharged(s, s.Finish(tasks))
}

// Thousands of tasks fall due while no worker is there. One that comes drains them as fast as its slots go.
func TestBacklogWithoutWorkers(t *testing.T) {
	each(t, backlog, harness.Workers, harness.URL, harness.Function)
}

func backlog(t *testing.T, by harness.Runner) {
	t.Helper()
	s := newSiteBy(t, by, matched, admin.Lambda{MaxAttempts: 1000})
	tasks := 5000
	if by.IsTarget() {
		tasks = 500 // each of which is tried again and again meanwhile
	}
	away := harness.Either(time.Minute, 5*time.Second)
	due := time.Now().Add(time.Second)
	all := s.Schedule(repeat(tasks, harness.Wanted{Job: job.Job{}, Options: []sdk.Option{sdk.At(due)}})...)
	time.Sleep(time.Until(due.Add(away)))

	w := s.Worker(harness.WorkerOptions{Slots: 10, Lease: lease()})
	ends := s.History.Find(tasks, harness.SettleMax, "ends", func(e checker.Event) bool { return e.Kind == checker.Ended })
	first := s.History.Find(1, soon, "starts", func(e checker.Event) bool { return e.Kind == checker.Started })[0]
	drained := time.Duration(ends[tasks-1].At-first.At) * time.Microsecond
	harness.Figure(t, figureOf(by, "backlog_tasks"), tasks)
	harness.Figure(t, figureOf(by, "backlog_away"), away)
	harness.Within(t, figureOf(by, "backlog_drained_in"), drained, 15*time.Second)
	harness.Figure(t, figureOf(by, "backlog_tasks_per_second"), int(float64(tasks)/drained.Seconds()))
	s.Finish(all)
	w.Signal(syscall.SIGTERM)
	if code := w.Wait(soon); code != 0 {
		t.Errorf("exit status %d after a drain, want 0", code)
	}
}

// takeoverMax is how long after the death of a process on the server's machine its tasks may start elsewhere.
const takeoverMax = time.Second

// A worker process on the server's machine is killed: its tasks start elsewhere without waiting for the
// lease.
func TestWorkerBesideKilled(t *testing.T) {
	t.Parallel()
	s := newSiteOf(t, harness.ServerOptions{Queued: matched})
	const slots = 10
	lost := s.Worker(harness.WorkerOptions{Slots: slots, Lease: 15 * time.Second})
	warm(s)
	tasks := s.Schedule(repeat(slots, harness.Wanted{Job: job.Job{Millis: 3000}})...)
	begun := starts(s, tasks)
	s.Worker(harness.WorkerOptions{Slots: 2 * slots, Lease: 15 * time.Second})
	warm(s)

	gone := lost.Crash()
	taken := takenOver(s, begun, lost.PID(), gone)
	if len(taken) != slots {
		t.Errorf("%d tasks ran in the lost process, want %d", len(taken), slots)
	}
	harness.Within(t, "worker_beside_killed_taken_over_last", longest(taken), takeoverMax+slack)
	for _, info := range s.Finish(tasks) {
		if info.Failures != 0 || info.WorkerLost != 1 {
			t.Errorf("task %s is charged: %d failures, %d lost workers, want 0 and 1", info.ID, info.Failures, info.WorkerLost)
		}
	}
}

// `kinesin worker` is killed on the server's machine: the groups of its commands are gone before their tasks
// start elsewhere, which the checker sees to.
func TestCommandWorkerBesideKilled(t *testing.T) {
	t.Parallel()
	s := newSiteOf(t, harness.ServerOptions{Queued: queued})
	w := commandWorker(s)
	tasks := s.Schedule(repeat(commandSlots, harness.Wanted{Job: job.Job{Do: job.Ignoring, Millis: 4000}})...)
	begun := starts(s, tasks)
	for range commandSlots {
		commandWorker(s)
	}

	gone := w.Crash()
	deaths := groupsGone(s, begun, gone)
	harness.Within(t, "command_worker_beside_killed_groups_gone", longest(deaths), takeoverMax/2)
	taken := takenByCommands(s, begun, gone)
	harness.Within(t, "command_worker_beside_killed_taken_over_last", longest(taken), takeoverMax+slack)
	s.Finish(tasks)
}

// A worker process on the server's machine that is stopped is alive: nothing is taken back before its lease
// is over.
func TestWorkerBesideStopped(t *testing.T) {
	t.Parallel()
	s := newSiteOf(t, harness.ServerOptions{Queued: queued})
	const slots = 4
	stopped := s.Worker(harness.WorkerOptions{Slots: slots, Lease: lease()})
	warm(s)
	tasks := s.Schedule(repeat(slots, harness.Wanted{Job: job.Job{Do: job.Acting, Millis: 2 * lease().Milliseconds()}})...)
	begun := starts(s, tasks)
	s.Worker(harness.WorkerOptions{Slots: slots, Lease: lease()})

	at := stopped.Stop()
	taken := takenOver(s, begun, stopped.PID(), at)
	harness.Within(t, "worker_beside_stopped_taken_over_last", longest(taken), lease()+time.Second+slack)
	if early := slices.Min(taken); early < lease()*3/4 {
		t.Errorf("a task of a stopped process was taken over after %v, before the lease of %v was over", early, lease())
	}
	stopped.Continue()
	if code := stopped.Wait(soon); code == 0 {
		t.Error("the woken process ended as if all were well")
	}
	s.Finish(tasks)
}
