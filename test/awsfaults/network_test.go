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
	newRig(t, plan{dynamo: proxy.URL()}).harmed("way_to_dynamodb", proxy)
}

func TestWayToSQSHarmed(t *testing.T) {
	t.Parallel()
	proxy := awslocal.NewProxy(t, awslocal.Start(t).SQS)
	newRig(t, plan{sqs: proxy.URL(), queued: true}).harmed("way_to_sqs", proxy)
}

func (r *rig) harmed(name string, p *awslocal.Proxy) {
	r.t.Helper()
	workers := []*harness.Worker{
		harness.StartWorker(r.t, r.worker(r.servers[0], 15*time.Second)),
		harness.StartWorker(r.t, r.worker(r.servers[0], 15*time.Second)),
	}
	l := r.load(r.Client)
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
		time.Sleep(either(5*time.Second, 2*time.Second))
		p.Heal()
		time.Sleep(time.Second)
	}
	harness.Within(r.t, name+"_next_start_after", r.nextStart(time.Now()), 5*time.Second)
	r.alive(workers...)
	r.finish(name, l.Stop())
	if n := checker.Summarize(r.history.Events()).Deaths; n > 0 {
		r.t.Errorf("%d workers ended", n)
	}
}
