package faults_test

import (
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/harness"
	"github.com/kinesin-io/kinesin/test/job"
)

// takeoverMax is how long after the death of a process on the server's machine its tasks may start elsewhere.
const takeoverMax = time.Second

// A worker process on the server's machine is killed: its tasks start elsewhere without waiting for the
// lease.
func TestWorkerBesideKilled(t *testing.T) {
	t.Parallel()
	s := newSiteOf(t, harness.ServerOptions{Queued: matched}, admin.Lambda{})
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
	s := newSiteOf(t, harness.ServerOptions{Queued: queued}, admin.Lambda{})
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
	s := newSiteOf(t, harness.ServerOptions{Queued: queued}, admin.Lambda{})
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
