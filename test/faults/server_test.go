package faults_test

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/harness"
	"github.com/kinesin-io/kinesin/test/job"
)

// The server is killed while 200 schedules a second are acknowledged, with its default settings. Workers come
// back by themselves.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	r := newRig(t, matched, sdk.LambdaInfo{})
	for range 2 {
		r.worker(harness.WorkerOptions{Slots: 10, Lease: 15 * time.Second})
	}
	tasks := scheduling(r)
	time.Sleep(3 * time.Second)
	r.Server.Crash()
	begun := time.Now()
	r.Server.Start()
	harness.Figure(t, "server_killed_ready_after", time.Since(begun))
	first := r.History.Find(1, soon, "starts after the restart", func(e checker.Event) bool {
		return e.Kind == checker.Started && e.At > begun.Add(25*time.Millisecond).UnixMicro()
	})[0]
	harness.Within(t, "server_killed_first_start_after", time.Duration(first.At-begun.UnixMicro())*time.Microsecond, 5*time.Second)
	time.Sleep(2 * time.Second)
	acked := tasks()
	infos := r.Settle(settleMax, acked)
	harness.Figure(t, "server_killed_acked", len(acked))
	lost := 0
	for _, info := range infos {
		if info.State != sdk.StateSuccess {
			lost++
		}
	}
	harness.Figure(t, "server_killed_lost", lost)
	harness.Figure(t, "server_killed_repeated", checker.Summarize(r.History.Events()).Repeated)
	if len(acked) < 500 {
		t.Errorf("%d schedules were acknowledged, want some 200 a second", len(acked))
	}
	r.History.Check(bounds)
}

// scheduling asks for a task every 5 ms, each in a call of its own and due within a second, until the
// returned function is called.
func scheduling(r *rig) func() []harness.Task {
	var (
		mu    sync.Mutex
		acked []harness.Task
		calls sync.WaitGroup
	)
	ctx, cancel := context.WithCancel(context.Background())
	call := func(n int) {
		due := time.Duration(n%10) * 100 * time.Millisecond
		tasks, _ := r.Try(context.WithoutCancel(ctx), harness.Wanted{Job: job.Job{Millis: 10}, Options: []sdk.Option{sdk.In(due)}})
		mu.Lock()
		defer mu.Unlock()
		acked = append(acked, tasks...)
	}
	calls.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				calls.Go(func() { call(n) })
			}
		}
	})
	return func() []harness.Task {
		cancel()
		calls.Wait()
		return acked
	}
}

// The server is away for longer than the leases of busy workers: they end rather than run on without one, and
// their tasks run again once the server is back.
func TestServerAwayLongerThanALease(t *testing.T) {
	t.Parallel()
	r := newRig(t, queued, sdk.LambdaInfo{})
	const slots = 4
	for range 2 {
		harness.Supervise(t, r.options(harness.WorkerOptions{Slots: slots}))
	}
	tasks := r.Schedule(repeat(2*slots, harness.Wanted{Job: job.Job{Do: job.Acting, Millis: 2 * harness.LeaseMin.Milliseconds()}})...)
	r.starts(tasks)
	r.Server.Crash()
	down := time.Now()
	ended := r.History.Find(len(tasks), soon, "handlers ended without a server", func(e checker.Event) bool {
		return e.Kind == checker.Ended && e.Outcome == checker.Obeyed
	})
	harness.Within(t, "server_away_handlers_ended_after", time.UnixMicro(ended[len(ended)-1].At).Sub(down), harness.LeaseMin)
	time.Sleep(time.Until(down.Add(harness.LeaseMin + time.Second)))

	r.Server.Start()
	back := time.Now()
	again := r.History.Find(len(tasks), settleMax, "second starts", func(e checker.Event) bool {
		return e.Kind == checker.Started && e.Attempt > 1
	})
	harness.Within(t, "server_away_started_again_after", time.UnixMicro(again[len(again)-1].At).Sub(back), 2*harness.LeaseMin+slack)
	r.Settle(settleMax, tasks)
	r.History.Check(bounds)
}

// The server is stopped for longer than the leases of its workers, and continued. The running attempts end
// meanwhile: what they came to is kept until the server is back, and none of them runs again.
func TestServerStoppedAndContinued(t *testing.T) {
	t.Parallel()
	r := newRig(t, matched, sdk.LambdaInfo{})
	const all, slots, workers = 200, 10, 2
	for range workers {
		r.worker(harness.WorkerOptions{Slots: slots, Lease: lease()})
	}
	tasks := r.Schedule(repeat(all, harness.Wanted{Job: job.Job{Millis: 500}})...)
	r.History.Find(3*workers*slots, soon, "starts", func(e checker.Event) bool { return e.Kind == checker.Started })
	r.Server.Signal(syscall.SIGSTOP)
	r.History.Add(checker.Event{Kind: checker.ServerDown})
	time.Sleep(lease() + lease()/3)
	r.Server.Signal(syscall.SIGCONT)
	r.History.Add(checker.Event{Kind: checker.ServerUp})
	back := time.Now()

	first := r.History.Find(1, soon, "starts after the pause", func(e checker.Event) bool {
		return e.Kind == checker.Started && e.At > back.UnixMicro()
	})[0]
	harness.Within(t, "server_stopped_first_start_after", time.UnixMicro(first.At).Sub(back), 5*time.Second)
	for _, info := range r.Settle(settleMax, tasks) {
		if info.WorkerLost != 0 || info.Failures != 0 {
			t.Errorf("task %s is charged: %d failures, %d lost workers", info.ID, info.Failures, info.WorkerLost)
		}
	}
	repeated := checker.Summarize(r.History.Events()).Repeated
	harness.Figure(t, "server_stopped_repeated", repeated)
	if repeated != 0 {
		t.Errorf("%d of %d tasks ran again", repeated, all)
	}
	r.History.Check(bounds)
}
