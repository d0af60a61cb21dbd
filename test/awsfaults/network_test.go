package awsfaults_test

import (
	"testing"
	"time"

	"github.com/kinesin-io/kinesin/internal/awslocal"
	"github.com/kinesin-io/kinesin/test/checker"
	"github.com/kinesin-io/kinesin/test/harness"
)

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
