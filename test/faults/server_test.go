package faults_test

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/harness"
	"github.com/kinesin-io/kinesin/test/job"
)

// The server is killed while 200 schedules a second are acknowledged, with its default settings. Workers come
// back by themselves.
func TestServerKilled(t *testing.T) {
	each(t, serverKilled, harness.Workers, harness.URL, harness.Function)
}

func serverKilled(t *testing.T, by harness.Runner) {
	t.Helper()
	s := newSiteBy(t, by, matched, admin.Lambda{})
	for range 2 {
		s.Worker(harness.WorkerOptions{Slots: 10, Lease: 15 * time.Second})
	}
	tasks := scheduling(s)
	time.Sleep(3 * time.Second)
	s.Servers[0].Crash()
	begun := time.Now()
	s.Servers[0].Start()
	harness.Figure(t, figureOf(by, "server_killed_ready_after"), time.Since(begun))
	const held = 25 * time.Millisecond // what a worker had in hand is no start after the restart
	harness.Within(t, figureOf(by, "server_killed_first_start_after"), held+s.History.NextStart(begun.Add(held)), 5*time.Second)
	time.Sleep(2 * time.Second)
	acked := tasks()
	infos := s.Finish(acked)
	harness.Figure(t, figureOf(by, "server_killed_acked"), len(acked))
	lost := 0
	for _, info := range infos {
		if info.State != sdk.StateSuccess {
			lost++
		}
	}
	harness.Figure(t, figureOf(by, "server_killed_lost"), lost)
	harness.Figure(t, figureOf(by, "server_killed_repeated"), s.History.Repeated())
	if len(acked) < 500 {
		t.Errorf("%d schedules were acknowledged, want some 200 a second", len(acked))
	}
}

// scheduling asks for a task every 5 ms, each in a call of its own and due within a second, until the
// returned function is called.
func scheduling(s *harness.Site) func() []sdk.ID {
	var (
		mu    sync.Mutex
		acked []sdk.ID
		calls sync.WaitGroup
	)
	ctx, cancel := context.WithCancel(context.Background())
	call := func(n int) {
		due := time.Duration(n%10) * 100 * time.Millisecond
		tasks, _ := s.Try(context.WithoutCancel(ctx), harness.Wanted{Job: job.Job{Millis: 10}, Options: []sdk.Option{sdk.In(due)}})
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
	return func() []sdk.ID {
		cancel()
		calls.Wait()
		return acked
	}
}

// The server is away for longer than the leases of busy workers: they end rather than run on without one, and
// their tasks run again once the server is back.
func TestServerAwayLongerThanALease(t *testing.T) {
	each(t, serverAway, harness.Workers, harness.URL, harness.Function)
}

func serverAway(t *testing.T, by harness.Runner) {
	t.Helper()
	s := newSiteBy(t, by, queued, admin.Lambda{})
	const slots = 4
	for range 2 {
		s.Supervise(harness.WorkerOptions{Slots: slots})
	}
	tasks := s.Schedule(repeat(2*slots, harness.Wanted{Job: job.Job{Do: job.Acting, Millis: 2 * harness.LeaseMin.Milliseconds()}})...)
	starts(s, tasks)
	s.Servers[0].Crash()
	down := time.Now()
	ended := s.History.Find(len(tasks), soon, "handlers ended without a server", func(e checker.Event) bool {
		return e.Kind == checker.Ended && e.Outcome == checker.Obeyed
	})
	harness.Within(t, figureOf(by, "server_away_handlers_ended_after"), time.UnixMicro(ended[len(ended)-1].At).Sub(down), harness.LeaseMin)
	time.Sleep(time.Until(down.Add(harness.LeaseMin + time.Second)))

	s.Servers[0].Start()
	back := time.Now()
	again := s.History.Find(len(tasks), harness.SettleMax, "second starts", func(e checker.Event) bool {
		return e.Kind == checker.Started && e.Attempt > 1
	})
	most := 2 * harness.LeaseMin
	if by.IsTarget() {
		most = 15 * time.Second // the lease of the server's own worker
	}
	harness.Within(t, figureOf(by, "server_away_started_again_after"), time.UnixMicro(again[len(again)-1].At).Sub(back), most+slack)
	s.Finish(tasks)
}

// The server is stopped for longer than the leases of its workers, and continued. The running attempts end
// meanwhile: what they came to is kept until the server is back, and none of them runs again.
func TestServerStoppedAndContinued(t *testing.T) {
	each(t, serverStopped, harness.Workers, harness.URL, harness.Function)
}

func serverStopped(t *testing.T, by harness.Runner) {
	t.Helper()
	s := newSiteBy(t, by, matched, admin.Lambda{})
	const all, slots, workers = 200, 10, 2
	for range workers {
		s.Worker(harness.WorkerOptions{Slots: slots, Lease: lease()})
	}
	tasks := s.Schedule(repeat(all, harness.Wanted{Job: job.Job{Millis: 500}})...)
	s.History.Find(3*workers*slots, soon, "starts", func(e checker.Event) bool { return e.Kind == checker.Started })
	s.History.Outage(func() {
		s.Servers[0].Signal(syscall.SIGSTOP)
		time.Sleep(lease() + lease()/3)
		s.Servers[0].Signal(syscall.SIGCONT)
	})
	harness.Within(t, figureOf(by, "server_stopped_first_start_after"), s.History.NextStart(time.Now()), 5*time.Second)
	infos := s.Finish(tasks)
	repeated := s.History.Repeated()
	harness.Figure(t, figureOf(by, "server_stopped_repeated"), repeated)
	if by.IsTarget() && harness.Long() {
		return // it was its own worker's lease, too, that was over
	}
	uncharged(s, infos)
	if repeated != 0 {
		t.Errorf("%d of %d tasks ran again", repeated, all)
	}
}
