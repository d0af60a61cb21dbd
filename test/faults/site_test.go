package faults_test

import (
	"cmp"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// bounds: on a busy machine a result takes its time to be acknowledged, and a process to find out that it was
// stopped.
var bounds = checker.Options{Settle: 500 * time.Millisecond, Ahead: 250 * time.Millisecond, Wake: 500 * time.Millisecond}

const (
	soon = 10 * time.Second // for what takes milliseconds on an idle machine
	// slack is what the assertions allow beyond a bar: the figures say how it really was.
	slack = 2 * time.Second
)

// lease is the default lease in a long run, and the shortest otherwise.
func lease() time.Duration { return harness.Either(15*time.Second, harness.LeaseMin) }

// How tasks get to workers in a scenario: straight to one that waits, or always through their queue. Every
// other scenario runs one way, so that all of them take no longer; harness.MatchEnv runs all of them the same
// way.
const (
	matched = false
	queued  = true
)

// newSite has a server that knows by their leases alone that workers are lost.
func newSite(t *testing.T, queued bool, lambda admin.Lambda) *harness.Site {
	t.Helper()
	return newSiteBy(t, harness.Workers, queued, lambda)
}

func newSiteOf(t *testing.T, o harness.ServerOptions) *harness.Site {
	t.Helper()
	return started(t, harness.Options{Server: o}, admin.Lambda{})
}

// newSiteBy is newSite with others that run the tasks.
func newSiteBy(t *testing.T, by harness.Runner, queued bool, lambda admin.Lambda) *harness.Site {
	t.Helper()
	return started(t, harness.Options{Server: harness.ServerOptions{Queued: queued, LeasesOnly: true}, Runner: by}, lambda)
}

func started(t *testing.T, o harness.Options, lambda admin.Lambda) *harness.Site {
	t.Helper()
	o.Bounds = cmp.Or(o.Bounds, bounds)
	s := harness.New(t, o)
	s.Serve()
	s.Lambda(lambda)
	return s
}

// each runs a scenario with each of the runners. Where a runner is a target, what a scenario calls a worker is a
// receiver of calls, and the server's own worker calls it.
func each(t *testing.T, scenario func(t *testing.T, by harness.Runner), runners ...harness.Runner) {
	t.Helper()
	t.Parallel()
	for _, by := range runners {
		t.Run(string(by), func(t *testing.T) {
			t.Parallel()
			scenario(t, by)
		})
	}
}

// figureOf is the name of a figure of a scenario.
func figureOf(by harness.Runner, name string) string {
	if by.IsTarget() {
		return string(by) + "_" + name
	}
	return name
}

// warm waits until workers run tasks; of targets, until a host gets as many calls at a time as scenarios make.
func warm(s *harness.Site) {
	s.T.Helper()
	s.Settle(soon, s.Schedule(repeat(30, harness.Wanted{})...))
}

// starts waits until all tasks have started and returns the events.
func starts(s *harness.Site, tasks []sdk.ID) []checker.Event {
	s.T.Helper()
	events := make([]checker.Event, len(tasks))
	for i := range tasks {
		events[i] = s.History.StartOf(tasks[i], 0, soon)
	}
	return events
}

// takenOver waits until each task that began in the process began again, and returns how long after the
// moment each did.
func takenOver(s *harness.Site, begun []checker.Event, pid int, since time.Time) []time.Duration {
	s.T.Helper()
	var all []time.Duration
	for _, first := range begun {
		if first.PID != pid {
			continue
		}
		again := s.History.Find(1, harness.SettleMax, "takeovers of "+first.Task, func(e checker.Event) bool {
			return e.Kind == checker.Started && e.Task == first.Task && e.Attempt > first.Attempt
		})[0]
		if again.PID == pid {
			s.T.Errorf("task %s began again in the process that was lost", first.Task)
		}
		all = append(all, time.Duration(again.At-since.UnixMicro())*time.Microsecond)
	}
	return all
}

// uncharged fails the test for each task that was charged for what was done to its workers or its server.
func uncharged(s *harness.Site, infos []sdk.TaskInfo) {
	s.T.Helper()
	for _, info := range infos {
		if info.Failures != 0 || info.WorkerLost != 0 {
			s.T.Errorf("task %s is charged: %d failures, %d lost workers", info.ID, info.Failures, info.WorkerLost)
		}
	}
}

func repeat(n int, w harness.Wanted) []harness.Wanted {
	return slices.Repeat([]harness.Wanted{w}, n)
}

func longest(all []time.Duration) time.Duration {
	if len(all) == 0 {
		return 0
	}
	return slices.Max(all)
}
