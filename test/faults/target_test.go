package faults_test

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/runtest"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/sdk/admin"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/harness"
	"github.com/kinesin-io/kinesin/test/job"
)

// A receiver is stopped past the timeout of its calls, and continued: its handlers end at once, and what they came to
// changes nothing, as later attempts have the tasks.
func TestReceiverStoppedAndContinued(t *testing.T) {
	each(t, receiverStopped, harness.URL, harness.Function)
}

func receiverStopped(t *testing.T, by harness.Runner) {
	t.Helper()
	const timeout = 3 * time.Second
	judged := bounds
	judged.Ahead = timeout // a call waits at a stopped receiver
	s := started(t, harness.Options{Server: harness.ServerOptions{Queued: queued}, Runner: by, Bounds: judged}, admin.Lambda{Timeout: timeout, MaxAttempts: 1000})
	stopped := s.Worker(harness.WorkerOptions{})
	acting := s.Schedule(repeat(4, harness.Wanted{Job: job.Job{Do: job.Acting, Millis: 2000}})...)
	tasks := slices.Concat(acting, s.Schedule(repeat(4, harness.Wanted{Job: job.Job{Do: job.Ignoring, Millis: 1500}})...))
	starts(s, tasks)
	stopped.Stop()
	runtest.Eventually(t, timeout+soon, "attempts without an answer", func() bool {
		for _, id := range tasks {
			if got, err := s.Get(t.Context(), id); err != nil || got.Failures == 0 {
				return false
			}
		}
		return true
	})
	woken := stopped.Continue()
	var ended []time.Duration
	for _, id := range acting {
		ended = append(ended, time.UnixMicro(s.History.EndOf(id, 1, soon).At).Sub(woken))
	}
	harness.Within(t, figureOf(by, "receiver_woken_handlers_ended"), longest(ended), bounds.Wake)
	s.Finish(tasks)
}

// A server that is asked to end gives its calls back when its drain is over. The tasks lose no attempt.
func TestServerTerminatedWhileItCallsATarget(t *testing.T) {
	each(t, serverTerminated, harness.URL, harness.Function)
}

func serverTerminated(t *testing.T, by harness.Runner) {
	t.Helper()
	s := started(t, harness.Options{Server: harness.ServerOptions{LeasesOnly: true, Args: []string{"--drain", "1s"}}, Runner: by}, admin.Lambda{MaxAttempts: 1})
	s.Worker(harness.WorkerOptions{})
	tasks := s.Schedule(repeat(5, harness.Wanted{Job: job.Job{Millis: 4000}})...)
	begun := starts(s, tasks)
	if code := s.Servers[0].Shutdown(); code != 0 {
		t.Errorf("exit status %d after a drain, want 0", code)
	}
	s.Servers[0].Start()
	back := time.Now()
	again := s.History.Find(len(begun), harness.SettleMax, "second starts", func(e checker.Event) bool {
		return e.Kind == checker.Started && e.Attempt > 1
	})
	harness.Within(t, figureOf(by, "server_terminated_called_again_after"), time.UnixMicro(again[len(begun)-1].At).Sub(back), slack)
	uncharged(s, s.Finish(tasks))
}

// One task kills its receiver each time. It is dead when its attempts are used up. The others that the receiver runs
// lose an attempt with it each time, as nobody can tell which of them it was, and succeed.
func TestPoisonBehindATarget(t *testing.T) {
	each(t, poisonBehind, harness.URL, harness.Function)
}

func poisonBehind(t *testing.T, by harness.Runner) {
	t.Helper()
	s := newSiteBy(t, by, queued, admin.Lambda{MaxAttempts: 1000})
	receiver := s.Supervise(harness.WorkerOptions{})
	tasks := s.Schedule(append(repeat(innocents, harness.Wanted{Job: job.Job{Millis: 500}}), harness.Wanted{
		Job: job.Job{Do: job.Exiting, Millis: 100}, Want: "dead", Options: []sdk.Option{sdk.MaxAttempts(deathsMax)},
	})...)
	fresh := startFresh(s)
	s.Settle(harness.SettleMax, tasks)
	s.Finish(fresh())
	if n := receiver.Deaths(); n == 0 || n > deathsMax {
		t.Errorf("the receiver died %d times, want 1 to %d times", n, deathsMax)
	}
}

// Everything is answered for a while that it is to come again a second later: 503 by a URL, 429 by AWS Lambda. No task
// loses an attempt.
func TestBusyTarget(t *testing.T) {
	each(t, busyTarget, harness.URL, harness.Function)
}

func busyTarget(t *testing.T, by harness.Runner) {
	t.Helper()
	const tasks, busy = 500, 4 * time.Second
	s := newSiteBy(t, by, matched, admin.Lambda{MaxAttempts: 1})
	s.Worker(harness.WorkerOptions{Receive: []string{"-busy", busy.String()}})
	infos := s.Finish(s.Schedule(repeat(tasks, harness.Wanted{})...))
	uncharged(s, infos)
	calls := 0
	for i := range infos {
		calls += infos[i].Attempt
	}
	harness.Figure(t, figureOf(by, "busy_calls"), calls)
	if calls < 2*tasks {
		t.Errorf("the run tested too little: %d calls of %d tasks", calls, tasks)
	}
}

// One of a hundred hosts takes calls and answers none, and has more tasks than a server makes calls at a time. With a
// limit for each host the others are called in time.
func TestOneHostOfAHundredHangs(t *testing.T) {
	t.Parallel()
	const hosts, ofEach, ofHanging, slots, timeout = 100, 3, 15, 10, 5 * time.Second
	s := harness.New(t, harness.Options{Runner: harness.URL, Bounds: bounds, Server: harness.ServerOptions{LeasesOnly: true}})
	_, port, _ := net.SplitHostPort(s.Receives)
	s.Serve()
	s.Lambda(admin.Lambda{
		Target: &admin.Target{URL: "http://{tag.host}:" + port + "/", Slots: slots}, Timeout: timeout, LimitKeyConcurrency: slots / 2,
	})
	var addresses []string
	var wanted []harness.Wanted
	for i := range hosts {
		host := "127.0.0." + strconv.Itoa(i+1)
		addresses = append(addresses, net.JoinHostPort(host, port))
		of := harness.Wanted{Options: []sdk.Option{sdk.Tag("host", host), sdk.LimitKey(host)}}
		n := ofEach
		if i == 0 {
			n, of.Want, of.Job.Millis, of.Options = ofHanging, "dead", time.Minute.Milliseconds(), append(of.Options, sdk.MaxAttempts(1))
		}
		wanted = append(wanted, repeat(n, of)...)
	}
	s.Worker(harness.WorkerOptions{Receive: []string{"-listen", strings.Join(addresses, ",")}})
	var late []time.Duration
	for _, info := range s.Finish(s.Schedule(wanted...))[ofHanging:] {
		late = append(late, info.Lateness())
	}
	harness.Within(t, "hanging_host_others_late", longest(late), timeout-time.Second)
}

// A function is invoked by events, of which each comes at least once, and none before it is due, while AWS Lambda
// throttles for a while and the server is killed.
func TestEventsOfAFunction(t *testing.T) {
	t.Parallel()
	s := newSiteBy(t, harness.Event, queued, admin.Lambda{MaxAttempts: 1000})
	s.Worker(harness.WorkerOptions{Receive: []string{"-busy", "1s"}})
	scheduled := scheduling(s)
	time.Sleep(2 * time.Second)
	s.Servers[0].Crash()
	s.Servers[0].Start()
	time.Sleep(time.Second)
	tasks := scheduled()
	for _, info := range s.Settle(harness.SettleMax, tasks) {
		if info.State != sdk.StateSuccess {
			t.Errorf("%s is %s", info.ID, info.State)
		}
	}
	due, ran := map[string]int64{}, map[string]int64{}
	for _, e := range s.History.Events() {
		switch {
		case e.Kind == checker.Acked:
			due[job.EventPrefix+e.Nonce] = e.Due
		case e.Kind == checker.Started && ran[e.Task] == 0:
			ran[e.Task] = e.At
		}
	}
	for event, at := range due {
		if ran[event] < at {
			t.Errorf("%s was due at %d, and ran at %d", event, at, ran[event])
		}
	}
	if len(due) < 300 {
		t.Errorf("the run tested too little: %d events", len(due))
	}
}
