package faults_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/harness"
	"github.com/kinesin-io/kinesin/test/job"
)

// steps are by how much clocks are set: a few sizes in a short run, all in a long one.
func steps() []time.Duration {
	if !harness.Long() {
		return []time.Duration{time.Hour, -time.Hour}
	}
	var all []time.Duration
	for _, by := range []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		all = append(all, by, -by)
	}
	return all
}

// slews are how a clock is moved little by little: so much every 100 ms.
func slews() []time.Duration {
	if !harness.Long() {
		return nil
	}
	return []time.Duration{5 * time.Millisecond, -5 * time.Millisecond}
}

// slew moves a clock for as long.
func slew(c *harness.Clock, by, lasts time.Duration) {
	offset := time.Duration(0)
	for began := time.Now(); time.Since(began) < lasts; {
		offset += by
		c.Set(offset) // which takes 100 ms
	}
}

const clockSlots = 10

// busy has handlers at work in one worker, for longer than the test needs, and starts a second worker.
func busy(s *harness.Site, first harness.WorkerOptions) (worker *harness.Worker, tasks []sdk.ID, begun []checker.Event) {
	s.T.Helper()
	first.Slots, first.Lease = clockSlots, lease()
	worker = s.Worker(first)
	warm(s)
	tasks = s.Schedule(repeat(clockSlots, harness.Wanted{Job: job.Job{Millis: (2*lease() + 6*time.Second).Milliseconds()}})...)
	begun = starts(s, tasks)
	s.Worker(harness.WorkerOptions{Slots: clockSlots, Lease: lease()})
	return worker, tasks, begun
}

// spared fails if anything was started again within as long.
func spared(s *harness.Site, worker *harness.Worker, lasts time.Duration) {
	s.T.Helper()
	for began := time.Now(); time.Since(began) < lasts; time.Sleep(50 * time.Millisecond) {
		if !worker.Alive() {
			s.T.Fatal("the worker ended")
		}
	}
	again := s.History.Count(func(e checker.Event) bool { return e.Kind == checker.Started && e.Attempt > 1 })
	if again > 0 {
		s.T.Fatalf("%d tasks were started again", again)
	}
}

// The wall clock of the server is set while handlers are at work: none is disturbed, and a worker that is
// killed afterwards is noticed in time.
func TestServerClockStepped(t *testing.T) {
	t.Parallel()
	for _, by := range steps() {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			serverClock(t, harness.Workers, "server_clock_"+by.String(), stepped(by))
		})
	}
	for runner, by := range map[harness.Runner]time.Duration{harness.URL: time.Hour, harness.Function: -time.Hour} {
		t.Run(string(runner), func(t *testing.T) {
			t.Parallel()
			serverClock(t, runner, figureOf(runner, "server_clock_"+by.String()), stepped(by))
		})
	}
	for _, by := range slews() {
		t.Run(fmt.Sprintf("slewed %v every 100ms", by), func(t *testing.T) {
			t.Parallel()
			serverClock(t, harness.Workers, "server_clock_slewed_"+by.String(), func(_ *harness.Site, c *harness.Clock) { slew(c, by, lease()) })
		})
	}
}

// stepped sets the clock, and has the server notice.
func stepped(by time.Duration) func(s *harness.Site, c *harness.Clock) {
	return func(s *harness.Site, c *harness.Clock) {
		c.Set(by)
		time.Sleep(time.Second + slack)
		told(s, by)
	}
}

func serverClock(t *testing.T, runner harness.Runner, figure string, fault func(s *harness.Site, c *harness.Clock)) {
	t.Helper()
	c := harness.NewClock(t)
	s := started(t, harness.Options{Server: harness.ServerOptions{Queued: matched, LeasesOnly: true, Clock: c}, Runner: runner}, admin.Lambda{})
	worker, tasks, begun := busy(s, harness.WorkerOptions{})
	fault(s, c)
	spared(s, worker, lease())
	gone := worker.Crash()
	taken := takenOver(s, begun, worker.PID(), gone)
	if len(taken) != clockSlots {
		t.Errorf("%d tasks ran in the lost process, want %d", len(taken), clockSlots)
	}
	harness.Within(t, figure+"_taken_over_last", longest(taken), lease()+time.Second+slack)
	s.Finish(tasks)
}

// told fails unless the server says that its clock was set.
func told(s *harness.Site, by time.Duration) {
	s.T.Helper()
	_, metrics := s.Servers[0].Fetch("/metrics")
	direction := "forward"
	if by < 0 {
		direction = "back"
	}
	if want := fmt.Sprintf("kinesin_clock_steps_total{direction=%q} 1\n", direction); !strings.Contains(metrics, want) {
		s.T.Errorf("the metrics do not say %q", want)
	}
	if n := strings.Count(s.Servers[0].Stderr()+s.Servers[0].Stdout(), "wall clock stepped; waiting tasks"); n != 1 {
		s.T.Errorf("the log says %d times that the clock was set", n)
	}
}

// The wall clock of a worker is set while its handlers are at work: none is disturbed, and it takes more.
func TestWorkerClockStepped(t *testing.T) {
	t.Parallel()
	for _, by := range steps() {
		t.Run(by.String(), func(t *testing.T) {
			t.Parallel()
			workerClock(t, func(c *harness.Clock) { c.Set(by) })
		})
	}
	for _, by := range slews() {
		t.Run(fmt.Sprintf("slewed %v every 100ms", by), func(t *testing.T) {
			t.Parallel()
			workerClock(t, func(c *harness.Clock) { slew(c, by, lease()) })
		})
	}
}

func workerClock(t *testing.T, fault func(c *harness.Clock)) {
	t.Helper()
	c := harness.NewClock(t)
	s := newSite(t, queued, admin.Lambda{})
	worker, tasks, _ := busy(s, harness.WorkerOptions{Clock: c})
	fault(c)
	spared(s, worker, 2*lease())
	more := s.Schedule(repeat(2*clockSlots, harness.Wanted{Job: job.Job{Millis: 100}})...)
	infos := s.Finish(append(tasks, more...))
	for _, info := range infos[:len(tasks)] {
		if info.Attempt != 1 || info.WorkerLost != 0 {
			t.Errorf("task %s ended with attempt %d, %d of them lost", info.ID, info.Attempt, info.WorkerLost)
		}
	}
}
