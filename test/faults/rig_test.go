package faults_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/harness"
	"github.com/kinesin-io/kinesin/test/job"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// bounds: on a busy machine a result takes its time to be acknowledged, and a process to find out that it was
// stopped.
var bounds = checker.Options{Settle: 500 * time.Millisecond, Ahead: 250 * time.Millisecond, Wake: 500 * time.Millisecond}

const (
	soon      = 10 * time.Second // for what takes milliseconds on an idle machine
	settleMax = 90 * time.Second
	// slack is what the assertions allow beyond a bar: the figures say how it really was.
	slack = 2 * time.Second
)

// long reports whether the run is the one whose figures are published.
func long() bool { return os.Getenv("KINESIN_FAULTS_LONG") != "" }

// lease is the default lease in a long run, and the shortest otherwise.
func lease() time.Duration {
	if long() {
		return 15 * time.Second
	}
	return harness.LeaseMin
}

// How tasks get to workers in a scenario: straight to one that waits, or always through their queue. Every
// other scenario runs one way, so that all of them take no longer; harness.MatchEnv runs all of them the same
// way.
const (
	matched = false
	queued  = true
)

// rig is a server with one lambda, a client of it, and a history.
type rig struct {
	*harness.Client

	Server  *harness.Server
	t       *testing.T
	History *harness.History
	lambda  string
}

func newRig(t *testing.T, queued bool, lambda sdk.LambdaInfo) *rig {
	t.Helper()
	return newRigWith(t, harness.ServerOptions{Queued: queued, LeasesOnly: true}, lambda)
}

// newRigBy is newRig of a server with a clock of its own.
func newRigBy(t *testing.T, clock *harness.Clock, queued bool, lambda sdk.LambdaInfo) *rig {
	t.Helper()
	return newRigWith(t, harness.ServerOptions{Queued: queued, LeasesOnly: true, Clock: clock}, lambda)
}

// newWatchedRig is a rig whose server sees that the processes of its workers have ended.
func newWatchedRig(t *testing.T, queued bool) *rig {
	t.Helper()
	return newRigWith(t, harness.ServerOptions{Queued: queued}, sdk.LambdaInfo{})
}

func newRigWith(t *testing.T, o harness.ServerOptions, lambda sdk.LambdaInfo) *rig {
	t.Helper()
	if testing.Short() {
		t.Skip("runs real processes")
	}
	h := harness.NewHistory(t)
	o.History = h
	s := harness.StartServer(t, o)
	if lambda.Name == "" {
		lambda.Name = "work"
	}
	if lambda.BackoffMin == 0 {
		lambda.BackoffMin, lambda.BackoffMax = 50*time.Millisecond, time.Second
	}
	return &rig{Server: s, Client: harness.NewClient(t, s, h, lambda), t: t, History: h, lambda: lambda.Name}
}

// worker starts a worker process of the rig's lambda.
func (r *rig) worker(o harness.WorkerOptions) *harness.Worker {
	r.t.Helper()
	return harness.StartWorker(r.t, r.options(o))
}

func (r *rig) options(o harness.WorkerOptions) harness.WorkerOptions {
	o.Server, o.History = r.Server, r.History
	if o.Lambda == "" {
		o.Lambda = r.lambda
	}
	return o
}

// warm waits until the worker runs tasks.
func (r *rig) warm(w *harness.Worker) {
	r.t.Helper()
	task := r.One(job.Job{})
	r.History.StartOf(task.ID, 0, soon)
	r.Settle(soon, []harness.Task{task})
	_ = w
}

// starts waits until so many tasks have started and returns the events.
func (r *rig) starts(tasks []harness.Task) []checker.Event {
	r.t.Helper()
	events := make([]checker.Event, len(tasks))
	for i := range tasks {
		events[i] = r.History.StartOf(tasks[i].ID, 0, soon)
	}
	return events
}

// taken waits until each task that began in the process began again, and returns how long after the moment
// each did.
func (r *rig) taken(begun []checker.Event, pid int, since time.Time) []time.Duration {
	r.t.Helper()
	var all []time.Duration
	for _, first := range begun {
		if first.PID != pid {
			continue
		}
		again := r.History.Find(1, settleMax, "takeovers of "+first.Task, func(e checker.Event) bool {
			return e.Kind == checker.Started && e.Task == first.Task && e.Attempt > first.Attempt
		})[0]
		if again.PID == pid {
			r.t.Errorf("task %s began again in the process that was lost", first.Task)
		}
		all = append(all, time.Duration(again.At-since.UnixMicro())*time.Microsecond)
	}
	return all
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
