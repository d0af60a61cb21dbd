package awsfaults_test

import (
	"cmp"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/sdk"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// bounds: on a busy machine a result takes its time to be acknowledged, and a claim is some requests old when
// it starts. Three missed beats of a lease of 15 s are 11 s.
var bounds = checker.Options{Settle: time.Second, Ahead: time.Second, Lease: 11 * time.Second}

const (
	lambda    = "work"
	settleMax = 2 * time.Minute
	// patient is a lease that outlasts whatever happens here. A claim that was lost with its server is only
	// known by the heartbeat that does not name it: every 15 s.
	patient = time.Minute
)

// away is how long an emulator is gone.
func away() time.Duration { return either(20*time.Second, 8*time.Second) }

// long reports whether the run is the one whose figures are published.
func long() bool { return os.Getenv("KINESIN_FAULTS_LONG") != "" }

// either is the first value in a long run, and the second otherwise.
func either[T any](inLong, inShort T) T {
	if long() {
		return inLong
	}
	return inShort
}

// plan says what a rig is made of.
type plan struct {
	dynamo string   // URL; the shared one if empty
	sqs    string   // URL; the shared one if empty
	roles  []string // of one server each; empty: one server with all
	flags  []string // of all servers
	queued bool     // tasks go through their queues, also where a worker waits; harness.MatchEnv decides when it is set
	policy sdk.LambdaInfo
}

// rig is a set of servers over tables and queues of its own, a client, and a history.
type rig struct {
	*harness.Client

	t       *testing.T
	aws     harness.AWS
	at      awslocal.Endpoints
	history *harness.History
	servers []*harness.Server
}

func newRig(t *testing.T, p plan) *rig {
	t.Helper()
	if testing.Short() {
		t.Skip("runs real processes")
	}
	at := awslocal.Endpoints{DynamoDB: p.dynamo, SQS: p.sqs}
	if at.DynamoDB == "" || at.SQS == "" {
		shared := awslocal.Start(t)
		at.DynamoDB, at.SQS = cmp.Or(at.DynamoDB, shared.DynamoDB), cmp.Or(at.SQS, shared.SQS)
	}
	r := &rig{t: t, at: at, history: harness.NewHistory(t)}
	r.aws = harness.AWS{Prefix: at.Prefix(t), Env: at.Env()}
	r.aws.Setup(t)
	r.serve(p)
	p.policy.Name = cmp.Or(p.policy.Name, lambda)
	if p.policy.Mode == "" {
		p.policy.BackoffMin, p.policy.BackoffMax = 50*time.Millisecond, time.Second
	}
	r.Client = harness.NewClient(t, r.servers[0], r.history, p.policy, sdk.WithTries(1000))
	return r
}

// serve starts the servers, all at once.
func (r *rig) serve(p plan) {
	r.t.Helper()
	roles := p.roles
	if len(roles) == 0 {
		roles = []string{""}
	}
	for _, these := range roles {
		flags := p.flags
		if these != "" {
			flags = slices.Concat(flags, []string{"--roles", these})
		}
		o := r.aws.Server(r.history, flags...)
		o.Queued = p.queued
		r.servers = append(r.servers, harness.StartServer(r.t, o))
	}
}

// worker is how to run a worker process of a server.
func (r *rig) worker(s *harness.Server, lease time.Duration) harness.WorkerOptions {
	return harness.WorkerOptions{Server: s, Lambda: lambda, Slots: 20, Lease: lease, History: r.history}
}

// outage writes down that the servers could do nothing meanwhile, so that what they could not acknowledge may
// be repeated.
func (r *rig) outage(during func()) {
	r.history.Add(checker.Event{Kind: checker.ServerDown})
	during()
	r.history.Add(checker.Event{Kind: checker.ServerUp})
}

// nextStart waits for the first execution that begins after the moment and returns how long after it that
// was.
func (r *rig) nextStart(since time.Time) time.Duration {
	r.t.Helper()
	first := r.history.Find(1, settleMax, "starts after the fault", func(e checker.Event) bool {
		return e.Kind == checker.Started && e.At > since.UnixMicro()
	})[0]
	return time.UnixMicro(first.At).Sub(since)
}

// finish waits until all tasks have ended, judges the history and prints its figures.
func (r *rig) finish(name string, acked []harness.Task) {
	r.t.Helper()
	began := time.Now()
	infos := r.Settle(settleMax, acked)
	harness.Figure(r.t, name+"_settled_after", time.Since(began))
	r.history.Check(bounds)
	s := checker.Summarize(r.history.Events())
	harness.Figure(r.t, name+"_acked", s.Acked)
	harness.Figure(r.t, name+"_repeated", s.Repeated-r.failed())
	lost := 0
	var late []time.Duration
	for i := range infos {
		if !infos[i].State.IsEnd() {
			lost++
		}
		if !infos[i].Started.IsZero() {
			late = append(late, infos[i].Lateness())
		}
	}
	harness.Figure(r.t, name+"_lost", lost)
	r.latest(infos)
	slices.Sort(late)
	if len(late) > 0 {
		harness.Figure(r.t, name+"_late_p50", late[len(late)/2])
		harness.Figure(r.t, name+"_late_max", late[len(late)-1])
	}
}

// latest shows the task that started last after it was due, if that was late.
func (r *rig) latest(infos []sdk.TaskInfo) {
	r.t.Helper()
	const late = 20 * time.Second
	if len(infos) == 0 {
		return
	}
	worst := slices.MaxFunc(infos, func(a, b sdk.TaskInfo) int { return cmp.Compare(a.Lateness(), b.Lateness()) })
	if worst.Lateness() > late {
		r.t.Logf("latest by far: %+v", worst)
	}
}

// failed is how many executions failed, as they were told to; each is followed by another one.
func (r *rig) failed() int {
	return r.history.Count(func(e checker.Event) bool { return e.Kind == checker.Ended && e.Outcome == checker.Fail })
}

// load is what all tests but those of buffers and deliver lambdas run under.
func (r *rig) load(c *harness.Client) *harness.Load {
	r.t.Helper()
	return harness.StartLoad(r.t, c, harness.LoadOptions{CallEvery: either(100*time.Millisecond, 300*time.Millisecond)})
}

// alive wants all worker processes to be there still.
func (r *rig) alive(workers ...*harness.Worker) {
	r.t.Helper()
	for i, w := range workers {
		if !w.Alive() {
			r.t.Errorf("worker %d has ended", i)
		}
	}
}
