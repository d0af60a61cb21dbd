package awsfaults_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/harness"
	"github.com/kinesin-io/kinesin/test/job"
)

// DynamoDB is gone under load. Workers whose lease outlasts that go on with what they run, and nothing that
// they run is repeated; with the default lease of 15 s only those end that had tasks in hand.
func TestDynamoDBStopped(t *testing.T) {
	t.Parallel()
	db := awslocal.DynamoDB(t, awslocal.Options{DBPath: t.TempDir()})
	s := newSite(t, plan{at: awslocal.Endpoints{DynamoDB: db.URL()}})
	workers := pair(s, harness.WorkerOptions{Lease: patient})
	busy := s.Schedule(harness.Wanted{Job: job.Job{Millis: (away() + 4*time.Second).Milliseconds()}})
	s.History.StartOf(busy[0], 0, harness.SettleMax)
	impatient := s.Supervise(harness.WorkerOptions{Lease: 15 * time.Second})
	l := load(s.Client)
	time.Sleep(2 * time.Second)
	var back time.Time
	s.History.Outage(func() {
		db.Stop()
		time.Sleep(away())
		if err := db.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		back = time.Now()
		harness.Within(t, "dynamodb_next_start_after", s.History.NextStart(back), 10*time.Second)
	})
	time.Sleep(up)
	alive(s, workers...)
	harness.Figure(t, "dynamodb_impatient_workers_ended", impatient.Deaths())
	finish(s, "dynamodb", slices.Concat(busy, l.Stop()))
	once := s.History.Count(func(e checker.Event) bool { return e.Kind == checker.Started && e.Task == string(busy[0]) })
	if once != 1 {
		t.Errorf("the task that ran all the time was started %d times", once)
	}
}

// SQS answers nothing for a while, and then refuses connections for a while. No lease and no claim depends on
// it: nothing is repeated, and no worker ends.
func TestSQSAway(t *testing.T) {
	t.Parallel()
	sqs := awslocal.SQS(t, awslocal.Options{})
	proxy := awslocal.NewProxy(t, sqs.URL())
	s := newSite(t, plan{at: awslocal.Endpoints{SQS: proxy.URL()}, server: harness.ServerOptions{Queued: true}})
	workers := pair(s, harness.WorkerOptions{Lease: patient})
	l := load(s.Client)
	time.Sleep(2 * time.Second)
	for _, fault := range []struct {
		name       string
		end, begin func()
	}{{"frozen", sqs.Freeze, sqs.Thaw}, {"refusing", proxy.Refuse, proxy.Heal}} {
		fault.end()
		time.Sleep(away())
		fault.begin()
		harness.Within(t, "sqs_"+fault.name+"_next_start_after", s.History.NextStart(time.Now()), 10*time.Second)
		time.Sleep(up)
	}
	alive(s, workers...)
	finish(s, "sqs_away", l.Stop())
	if n := checker.Summarize(s.History.Events()).Deaths; n > 0 {
		t.Errorf("%d workers ended", n)
	}
}

// SQS loses all messages and all queues. The server says what is missing and what to run; once the queues are
// there, every task that was on one is sent again.
func TestSQSLosesEverything(t *testing.T) {
	t.Parallel()
	sqs := awslocal.SQS(t, awslocal.Options{})
	s := newSite(t, plan{at: awslocal.Endpoints{SQS: sqs.URL()}})
	l := load(s.Client)
	time.Sleep(3 * time.Second) // without a worker: messages wait in SQS
	workers := []*harness.Worker{s.Worker(harness.WorkerOptions{Lease: patient})}
	sqs.Kill()
	time.Sleep(2 * time.Second)
	if err := sqs.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	time.Sleep(3 * time.Second)
	if said := s.Servers[0].Stderr(); !strings.Contains(said, "kinesin aws setup") {
		t.Errorf("the log does not say what to do about missing queues:\n%s", said[max(0, len(said)-4000):])
	}
	s.AWS.Setup(t).Must(t)
	harness.Within(t, "sqs_emptied_next_start_after", s.History.NextStart(time.Now()), 30*time.Second)
	time.Sleep(up)
	alive(s, workers...)
	finish(s, "sqs_emptied", l.Stop())
}

// The way to both services is slow, cut, or swallows what is sent or answered, for some seconds each, under
// load. All of it is shorter than a lease: nothing is repeated, and no worker ends.
func TestWayToDynamoDBHarmed(t *testing.T) {
	t.Parallel()
	proxy := awslocal.NewProxy(t, awslocal.Start(t).DynamoDB)
	harmed(newSite(t, plan{at: awslocal.Endpoints{DynamoDB: proxy.URL()}}), "way_to_dynamodb", proxy)
}

func TestWayToSQSHarmed(t *testing.T) {
	t.Parallel()
	proxy := awslocal.NewProxy(t, awslocal.Start(t).SQS)
	harmed(newSite(t, plan{at: awslocal.Endpoints{SQS: proxy.URL()}, server: harness.ServerOptions{Queued: true}}), "way_to_sqs", proxy)
}

func harmed(s *harness.Site, name string, p *awslocal.Proxy) {
	s.T.Helper()
	workers := pair(s, harness.WorkerOptions{Lease: 15 * time.Second})
	l := load(s.Client)
	time.Sleep(up)
	for _, harm := range []func(){
		func() { p.Latency(200 * time.Millisecond) },
		func() { p.Latency(500 * time.Millisecond) },
		func() { p.Reset(awslocal.Requests) },
		func() { p.Reset(awslocal.Replies) },
		func() { p.BlackHole(awslocal.Requests) },
		func() { p.BlackHole(awslocal.Replies) },
	} {
		harm()
		time.Sleep(harness.Either(5*time.Second, 2*time.Second))
		p.Heal()
		time.Sleep(time.Second)
	}
	harness.Within(s.T, name+"_next_start_after", s.History.NextStart(time.Now()), 5*time.Second)
	alive(s, workers...)
	finish(s, name, l.Stop())
	if n := checker.Summarize(s.History.Events()).Deaths; n > 0 {
		s.T.Errorf("%d workers ended", n)
	}
}
